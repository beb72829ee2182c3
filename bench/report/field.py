"""Where the field is ahead of us: which contender, on which workload, by how much. Why: reasons.py."""

import dataclasses
import re

from . import paired
from .questions import VIEWS
from .reasons import why
from .results import is_ours

# What of ours is next to whom: all that is asked the same; a thread that waits in place, next to other threads; a
# mutex that delegates, next to the other one of fibers; guards, next to what coroutines and fibers lock elsewhere.
WAYS = {"turnstile": ".", "turnstile_blocking": ".", "turnstile_delegated": "fiber_mutex",
        "turnstile_guards": "fiber_mutex|async_binary_semaphore|intrusive_async_mutex(_posted)?"}

# As many coroutines as nobody has threads: the maximum of more is more.
OF_OTHER_NUMBERS = "withdraw_.*"

# What is compared, where it is shown at all; most is better the less it is.
COUNTERS = {"ns_per_op": "time", "p50_us": "p50", "p99_us": "p99", "p999_us": "p99.9", "max_us": "max",
            "throughput_kept": "throughput kept", "bytes_per_section": "bytes per section"}
MORE_IS_BETTER = {"throughput_kept"}


@dataclasses.dataclass(frozen=True)
class Standing:
    """One case of ours next to one of another contender."""

    ours: object
    theirs: object
    counter: str
    ratio: paired.Estimate  # ours / theirs of each round, or the other way round: above 1 they are ahead

    def verdict(self):
        if not self.ratio.differs():
            return "level"
        return "behind" if self.ratio.median > 1 else "ahead"


@dataclasses.dataclass(frozen=True)
class Lead:
    """All cases of a question in which one contender is ahead of us by one number."""

    question: str
    ours: str
    theirs: str
    counter: str
    behind: list  # of Standing, the worst first
    of: int

    def where(self):
        worst = self.behind[0]
        return " ".join(f"{letter}={value}" for letter, value in worst.ours.letters if value != "none")

    def row(self):
        worst = self.behind[0].ratio
        ratios = dict.fromkeys(f"{standing.ratio.median:.2f}" for standing in (self.behind[-1], self.behind[0]))
        return [self.question, self.ours, self.theirs, COUNTERS[self.counter],
                f"{len(self.behind)} of {self.of}", " to ".join(ratios),
                f"{self.where()} ({worst.low:.2f} to {worst.high:.2f})",
                why(self.question, self.ours, self.theirs, self.counter)]


READING = (
    "Each of our cases next to each contender's of the same letters; where its clients are threads, with so many "
    "of them as std::mutex has there. “times theirs” is ours divided by theirs (of a throughput, theirs by ours), "
    "the lowest and the highest of the cases in which it is ahead: the median of the ratios of each round, and for "
    "the worst case an interval that holds the true one at 95 %. With fewer than six rounds nothing can be said.")

HEADER = ["question", "ours", "ahead of it", "by", "cases", "times theirs", "worst case (interval)",
          "why"]


def standings(results):
    return [standing for case in results.all_cases()
            if case.contender in WAYS and not re.fullmatch(OF_OTHER_NUMBERS, case.question)
            for other in results.cases(case.question) if _is_next_to(case, other, results)
            for counter in _shown(case.question)
            if (standing := _standing(case, other, counter, results))]


def leads(of):
    """Of the standings, those of the same kind together."""
    groups = {}
    for standing in of:
        key = (standing.ours.question, standing.ours.contender, standing.theirs.contender, standing.counter)
        groups.setdefault(key, []).append(standing)
    found = []
    for key, group in groups.items():
        behind = [standing for standing in group if standing.verdict() == "behind"]
        behind.sort(key=lambda standing: -standing.ratio.median)
        if behind:
            found.append(Lead(*key, behind, len(group)))
    return found


def summary(of):
    counts = {verdict: sum(standing.verdict() == verdict for standing in of)
              for verdict in ("ahead", "level", "behind")}
    by_chance = sum(1 - standing.ratio.confidence for standing in of
                    if standing.ratio.confidence >= paired.CONFIDENCE)
    return (f"Next to the field, number by number ({', '.join(COUNTERS.values())}): ahead in {counts['ahead']}, level "
            f"in {counts['level']} (the interval of the ratio's median holds 1, or too few rounds), behind in "
            f"{counts['behind']}. Each at {paired.CONFIDENCE:.0%} or more for itself: about {by_chance:.1f} of "
            f"{len(of)} would be ahead or behind by chance alone.")


def _shown(question):
    """What some table shows of the question."""
    marks = {mark.counter for view in VIEWS if view.question == question for mark in view.marks}
    return [counter for counter in COUNTERS if counter in marks]


def _is_next_to(case, other, results):
    if is_ours(other.contender) or not re.search(WAYS[case.contender], other.contender):
        return False
    return other.letters in (case.letters, _as_threads(case, other, results))


def _as_threads(case, other, results):
    """The letters of the case with a thread for each client, where the other one has that."""
    threads = results.range(other, "clients_are_threads")
    reference = results.reference(case)
    return reference.letters if reference and threads and threads.median == 1 else None


def _standing(case, other, counter, results):
    ratios = results.ratios(case, other, counter)
    if counter in MORE_IS_BETTER:
        ratios = [1 / ratio for ratio in ratios if ratio]
    return Standing(case, other, counter, paired.Estimate.of(ratios)) if ratios else None
