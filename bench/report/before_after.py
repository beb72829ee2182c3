"""Two builds that were measured in turn: each case of one next to the same case of the other."""

import dataclasses
import statistics

from . import paired
from .results import Case, Range, is_ours

# What is compared, of the cases that have it. Less is better.
COUNTERS = ("ns_per_op", "p50_us", "p99_us", "p999_us", "max_us")

# Contenders with no line of the library in them: where they differ, it is not by what we changed.
CONTROLS = ("std_", "boost_", "fiber_mutex", "tbb_", "asio_")


@dataclasses.dataclass(frozen=True)
class Difference:
    case: Case
    counter: str
    before: Range
    after: Range
    ratio: paired.Estimate
    answer: str
    p_holm: float = 1.0

    def verdict(self):
        """Of this case alone."""
        if self.ratio.confidence < paired.CONFIDENCE:
            return "too few rounds"
        if not self.ratio.differs():
            return "no difference seen"
        return "faster" if self.ratio.high < 1 else "slower"

    def stands(self):
        """Among all the cases that were looked at."""
        return self.ratio.differs() and self.p_holm <= 1 - paired.CONFIDENCE

    def verdict_among_all(self):
        return f"{self.verdict()}, stands among all" if self.stands() else self.verdict()


class Comparison:
    def __init__(self, before, after):
        self.ours = _corrected(_differences(before, after, is_ours))
        self.controls = _corrected(_differences(before, after, is_control))
        self._labels = _labels([*self.ours, *self.controls])
        known = set(before.all_cases()), set(after.all_cases())
        self.only_before = sorted(map(name_of, known[0] - known[1]))
        self.only_after = sorted(map(name_of, known[1] - known[0]))

    def label(self, difference):
        """The contender, and of the letters those that tell cases of its question apart."""
        return self._labels[difference.case, difference.counter]

    def questions(self):
        """Of ours, in the order measured."""
        found = {}
        for difference in self.ours:
            found.setdefault(difference.case.question, []).append(difference)
        return found

    def differing(self):
        """Those that stand among all first, then the largest differences."""
        found = [d for d in self.ours if d.ratio.differs()]
        return sorted(found, key=lambda d: (not d.stands(), -max(d.ratio.median, 1 / d.ratio.median)))

    def summary(self):
        """Sentences."""
        if not self.ours:
            return ["No case of ours is in both builds."]
        return [_counted("of ours", self.ours), _corrected_for_many(self.ours), _sharpness(self.ours),
                *([_counted("with nothing of the library in them", self.controls)]
                  if self.controls else []),
                *_left_out("before", self.only_before), *_left_out("after", self.only_after)]


def is_control(contender):
    return contender.startswith(CONTROLS)


def name_of(case):
    return " ".join([f"{case.question}/{case.contender}",
                     *(f"{letter}={value}" for letter, value in case.letters)])


def _labels(differences):
    values = {}
    for difference in differences:
        for letter, value in difference.case.letters:
            values.setdefault((difference.case.question, letter), set()).add(value)
    return {(d.case, d.counter): " ".join(_label(d, values)) for d in differences}


def _label(difference, values):
    case, counter = difference.case, difference.counter
    yield case.contender
    yield from (f"{letter}={value}" for letter, value in case.letters
                if len(values[case.question, letter]) > 1)
    if counter != "ns_per_op":
        yield counter.removesuffix("_us")


def _differences(before, after, wanted):
    return [found for case in after.all_cases() if wanted(case.contender)
            for counter in COUNTERS if (found := _difference(before, after, case, counter))]


def _difference(before, after, case, counter):
    if before.home(case) is None:
        return None
    old, new = before.values(case, counter), after.values(case, counter)
    pairs = [number for number in old if number in new and old[number] > 0 and new[number] > 0]
    if not pairs:
        return None
    ratio = paired.Estimate.of([new[number] / old[number] for number in pairs])
    return Difference(case, counter, before.range(case, counter), after.range(case, counter), ratio,
                      _answers(before.answer(case), after.answer(case)))


def _answers(before, after):
    return before if before == after else f"before {before}; after {after}"


def _corrected(differences):
    adjusted = paired.holm([difference.ratio.p for difference in differences])
    return [dataclasses.replace(d, p_holm=p) for d, p in zip(differences, adjusted)]


def _counted(which, differences):
    verdicts = [difference.verdict() for difference in differences]
    said = ", ".join(f"{verdicts.count(verdict)} {verdict}"
                     for verdict in ("faster", "slower", "no difference seen", "too few rounds")
                     if verdict in verdicts)
    by_chance = sum(1 - d.ratio.confidence for d in differences
                    if d.ratio.confidence >= paired.CONFIDENCE)
    return (f"{len(differences)} numbers {which}: {said}. Each at {paired.CONFIDENCE:.0%} or more for "
            f"itself: about {by_chance:.1f} of them would differ by chance alone.")


def _corrected_for_many(differences):
    standing = [d.verdict() for d in differences if d.stands()]
    rounds = min(difference.ratio.pairs for difference in differences)
    needed = paired.rounds_needed(len(differences))
    said = (f"With Holm's correction for {len(differences)} of them "
            f"{standing.count('faster')} faster and {standing.count('slower')} slower remain")
    if rounds < needed:
        return f"{said}; {rounds} rounds cannot show more than that: it takes {needed}, or a --filter."
    return f"{said}, at {paired.CONFIDENCE:.0%} for all together."


def _sharpness(differences):
    half = statistics.median((d.ratio.high - d.ratio.low) / 2 for d in differences)
    return f"Half an interval is {half:.1%} wide in the median: what is smaller is hardly seen."


def _left_out(which, names):
    if not names:
        return []
    shown = ", ".join(names[:5]) + (", ..." if len(names) > 5 else "")
    return [f"Only in {which}, and left out: {len(names)} cases ({shown})."]
