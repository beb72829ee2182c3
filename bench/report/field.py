"""Where the field is ahead of us, or may be: which contender, on which workload, by how much. Why: reasons.py."""

import collections
import dataclasses
import re

from . import paired
from .questions import VIEWS
from .reasons import UNKNOWN, why
from .results import is_ours

# What of ours is next to whom: all that is asked the same; a thread that waits in place, next to other threads; a
# mutex that delegates, next to the other one of fibers; guards, next to what coroutines and fibers lock elsewhere; on a
# GPU, next to who does the same without us.
WAYS = {"turnstile": ".", "turnstile_blocking": ".", "turnstile_delegated": "fiber_mutex",
        "turnstile_guards": "fiber_mutex|async_binary_semaphore|intrusive_async_mutex(_posted)?",
        "turnstile_at_submission": "std_mutex",
        "turnstile_completion": "stream_synchronize|blocking_event|host_function"}

# Withdrawn one after the other, at times that are set: the median does not depend on how many there are. The maximum
# does, and with 64 of them so does p99.
ONE_BY_ONE = "withdraw_.*"

LEVEL = 1.05  # what is surely less apart than this is level

# What is compared, where it is shown at all; most is better the less it is.
COUNTERS = {"ns_per_op": "time", "p50_us": "p50", "p99_us": "p99", "p999_us": "p99.9", "max_us": "max",
            "processor_ns": "processor time", "throughput_kept": "throughput kept",
            "bytes_per_section": "bytes per section"}
MORE_IS_BETTER = {"throughput_kept"}


@dataclasses.dataclass(frozen=True)
class Standing:
    """One case of ours next to one of another contender."""

    ours: object
    theirs: object
    counter: str
    ratio: paired.Estimate  # ours / theirs of each round, or the other way round: above 1 they are ahead

    def verdict(self):
        if self.ratio.confidence < paired.CONFIDENCE:
            return "too few rounds"
        if self.ratio.differs():
            return "behind" if self.ratio.median > 1 else "ahead"
        return "level" if 1 / LEVEL <= self.ratio.low and self.ratio.high <= LEVEL else "open"

    def may_be_behind(self):
        return self.verdict() == "open" and self.ratio.median > LEVEL


@dataclasses.dataclass(frozen=True)
class Lead:
    """All cases of a question in which one contender is ahead of us by one number, surely or not."""

    question: str
    ours: str
    theirs: str
    counter: str
    behind: list  # of Standing, the worst first
    unsure: list  # those that may be
    of: int

    def row(self):
        shown = self.behind or self.unsure
        worst = shown[0].ratio
        where = " ".join(f"{letter}={value}" for letter, value in shown[0].ours.letters if value != "none")
        ratios = dict.fromkeys(f"{standing.ratio.median:.2f}" for standing in (shown[-1], shown[0]))
        return [self.question, self.ours, self.theirs, COUNTERS[self.counter],
                f"{len(self.behind)} of {self.of}", str(len(self.unsure)), " to ".join(ratios),
                f"{where} ({worst.low:.2f} to {worst.high:.2f})",
                self.why()]

    def why(self):
        says = why(self.question, self.ours, self.theirs, self.counter)
        return "perhaps by chance" if says == UNKNOWN and not self.behind else says


READING = (
    "Each of our cases next to each contender's of the same letters; where its clients are threads, with so many "
    "of them as std::mutex has there, unless ours has fewer clients than that. Then percentiles are compared only if "
    "the clients are as many as ours, or the median alone where requests are withdrawn one by one. Most contenders "
    "run in another process than ours, in the same round. “times theirs” is ours divided by theirs (of a throughput, "
    "theirs by ours), the lowest and the highest of the cases: the median of the ratios of each round, and for the "
    "worst case an interval that holds the true one at 95 %. A contender is ahead where that lies above 1. “may be” "
    f"counts those in which it holds 1 and the median is above {LEVEL:.2f}; a row of such cases alone shows theirs.")

HEADER = ["question", "ours", "ahead of it", "by", "cases", "may be", "times theirs", "worst case (interval)",
          "why"]


def standings(results):
    return [standing for case in results.all_cases()
            if case.contender in WAYS for other in results.cases(case.question) if _is_next_to(case, other, results)
            for counter in _shown(case.question) if _is_comparable(case, other, counter)
            if (standing := _standing(case, other, counter, results))]


def leads(of):
    """Of the standings, those of the same kind together."""
    groups = {}
    for standing in of:
        key = (standing.ours.question, standing.ours.contender, standing.theirs.contender, standing.counter)
        groups.setdefault(key, []).append(standing)
    found = []
    for key, group in groups.items():
        group.sort(key=lambda standing: -standing.ratio.median)
        behind = [standing for standing in group if standing.verdict() == "behind"]
        unsure = [standing for standing in group if standing.may_be_behind()]
        if behind or unsure:
            found.append(Lead(*key, behind, unsure, len(group)))
    return found


def summary(of):
    rounds = max(standing.ratio.pairs for standing in of)
    said = [standing for standing in of if standing.verdict() != "too few rounds"]
    if not said:
        return f"Not compared with the field: with {rounds} rounds no interval holds the true ratio at 95 %."
    counts = collections.Counter(standing.verdict() for standing in said)
    unsure = [standing for standing in said if standing.verdict() == "open"]
    theirs = sum(standing.ratio.median > 1 for standing in unsure)
    by_chance = sum(1 - standing.ratio.confidence for standing in said)
    return (f"Next to the field, number by number ({', '.join(COUNTERS.values())}), {len(said)} of them: ahead in "
            f"{counts['ahead']}, behind in {counts['behind']}, level in {counts['level']} (surely within "
            f"{LEVEL - 1:.0%}), open in {counts['open']} (the interval holds 1; the median is on our side in "
            f"{len(unsure) - theirs}). Each at {paired.CONFIDENCE:.0%} or more for itself: about {by_chance:.1f} would "
            f"be ahead or behind by chance alone.")


def _shown(question):
    """What some table shows of the question."""
    marks = {mark.counter for view in VIEWS if view.question == question for mark in view.marks}
    return [counter for counter in COUNTERS if counter in marks]


def _is_next_to(case, other, results):
    if is_ours(other.contender) or not re.search(WAYS[case.contender], other.contender):
        return False
    return other.letters in (case.letters, _as_threads(case, other, results))


def _is_comparable(case, other, counter):
    """Who asks again as soon as it is served waits for all others: how long depends on how many there are."""
    return (not counter.endswith("_us") or other.letter("N") == case.letter("N")
            or counter == "p50_us" and re.fullmatch(ONE_BY_ONE, case.question) is not None)


def _as_threads(case, other, results):
    """The letters with a thread for each that std::mutex has next to the case, where the other one has threads."""
    threads = results.range(other, "clients_are_threads")
    reference = None if results.is_less_contended(case) else results.reference(case)
    return reference.letters if reference and threads and threads.median == 1 else None


def _standing(case, other, counter, results):
    ratios = results.ratios(case, other, counter)
    if counter in MORE_IS_BETTER:
        ratios = [1 / ratio for ratio in ratios if ratio]
    return Standing(case, other, counter, paired.Estimate.of(ratios)) if ratios else None
