"""Statistics of ratios that were measured in pairs: no assumption about how the times scatter, only
that rounds do not depend on each other and that without a difference a ratio falls above 1 as often
as below."""

import dataclasses
import math
import statistics

CONFIDENCE = 0.95


@dataclasses.dataclass(frozen=True)
class Estimate:
    """The median of the ratios, an interval for it, and how surely it holds the true one."""

    median: float
    low: float
    high: float
    confidence: float
    p: float  # of the sign test, two-sided
    pairs: int

    @classmethod
    def of(cls, ratios):
        low, high, confidence = interval(ratios)
        return cls(statistics.median(ratios), low, high, confidence, sign_test(ratios), len(ratios))

    def differs(self):
        """At the confidence above, for this one alone."""
        return self.confidence >= CONFIDENCE and not self.low <= 1 <= self.high


def interval(ratios):
    """The narrowest pair of order statistics of at least the confidence wanted; the whole range, and
    what that is worth, where there are too few."""
    ordered = sorted(ratios)
    outside = 0  # how many are left out at each end
    while 2 * (outside + 1) < len(ordered) and _coverage(len(ordered), outside + 1) >= CONFIDENCE:
        outside += 1
    return ordered[outside], ordered[-1 - outside], _coverage(len(ordered), outside)


def sign_test(ratios):
    """How likely as many on one side, or more, are by chance. Those that are 1 are on neither."""
    above = sum(ratio > 1 for ratio in ratios)
    below = sum(ratio < 1 for ratio in ratios)
    return min(1.0, 2 * _at_most(min(above, below), above + below))


def holm(chances):
    """Each p as it is when there are that many of them (Holm 1979), in the order given."""
    order = sorted(range(len(chances)), key=chances.__getitem__)
    adjusted = [1.0] * len(chances)
    largest = 0.0
    for place, which in enumerate(order):
        largest = max(largest, min(1.0, (len(chances) - place) * chances[which]))
        adjusted[which] = largest
    return adjusted


def rounds_needed(cases):
    """So many pairs, all on one side, that the sign test could convince among so many cases."""
    return math.ceil(1 + math.log2(max(1, cases) / (1 - CONFIDENCE)))


def _coverage(pairs, outside):
    return 1 - 2 * _at_most(outside, pairs) if 2 * outside < pairs else 0.0


def _at_most(successes, tries):
    """Of a coin thrown so often."""
    return sum(math.comb(tries, k) for k in range(successes + 1)) / 2 ** tries
