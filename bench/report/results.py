"""What the rounds measured: medians, ranges, and ratios in which both sides come from one run."""

import collections
import dataclasses
import statistics

REFERENCE = "std_mutex"
RINGS = ("turnstile", "turnstile_inbox", "turnstile_cycle")

# What Google Benchmark says of every case, and says nothing here.
_ALWAYS_THE_SAME = {"family_index", "per_family_instance_index", "repetitions", "repetition_index",
                    "threads", "iterations"}


@dataclasses.dataclass(frozen=True)
class Case:
    """What was measured: the question, the contender, and the letters explained in README.md."""

    question: str
    contender: str
    letters: tuple  # of (letter, value), sorted

    @classmethod
    def named(cls, name):
        question, contender, *rest = name.split("/")
        letters = [part.split(":", 1) for part in rest if part[1:2] == ":"]
        return cls(question, contender, tuple(sorted(map(tuple, letters))))

    def letter(self, name):
        return dict(self.letters).get(name, "")

    def reference(self, threads):
        """The case of std::mutex that this one is compared with."""
        letters = dict(self.letters, T=threads, N=threads)
        return Case(self.question, REFERENCE, tuple(sorted(letters.items())))


def ring_of(contender):
    """The ring that its name begins with, or nothing."""
    return max((ring for ring in RINGS if contender.startswith(ring)), key=len, default="")


def is_ours(contender):
    return bool(ring_of(contender))


def way_of(contender):
    """What its name says after that of the ring: _deadline, or nothing."""
    ring = ring_of(contender)
    return contender.removeprefix(ring) if ring else ""


@dataclasses.dataclass(frozen=True)
class Range:
    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values):
        return cls(statistics.median(values), min(values), max(values)) if values else None


class Results:
    """Every round of every case, by executable."""

    def __init__(self):
        self._rounds = collections.defaultdict(dict)  # (executable, case) -> round -> counters
        self._homes = {}  # case -> the executable whose numbers are shown

    def add(self, executable, number, report):
        for measured in report:
            case = Case.named(measured["name"])
            self._homes.setdefault(case, executable)
            counters = {name: value for name, value in measured.items()
                        if isinstance(value, (int, float)) and name not in _ALWAYS_THE_SAME}
            self._rounds[executable, case][number] = counters

    @classmethod
    def of_raw(cls, cases):
        """What raw() gave."""
        results = cls()
        for said in cases:
            case = Case(said["question"], said["contender"], tuple(sorted(said["letters"].items())))
            results._homes.setdefault(case, said["executable"])
            results._rounds[said["executable"], case] = {
                int(number): counters for number, counters in said["rounds"].items()}
        return results

    def cases(self, question):
        return [case for case in self._homes if case.question == question]

    def all_cases(self):
        return list(self._homes)

    def home(self, case):
        """The executable whose numbers of the case are shown, or None."""
        return self._homes.get(case)

    def contenders(self):
        return list(dict.fromkeys(case.contender for case in self._homes))

    def find(self, question, contender, **letters):
        """The one case with these letters, or None."""
        for case in self.cases(question):
            if case.contender == contender and dict(case.letters).items() >= letters.items():
                return case
        return None

    def values(self, case, counter):
        """By round."""
        return {number: c[counter] for number, c in self._of(case).items() if counter in c}

    def range(self, case, counter):
        return Range.of(list(self.values(case, counter).values()))

    def answer(self, case):
        """In how many rounds it was found right."""
        rounds = len(self._rounds[self._homes[case], case])
        right = len(self._of(case))
        return f"{'right' if right == rounds else 'WRONG'}, {right} of {rounds}"

    def against_limit(self, case):
        values = [c["ns_per_op"] / c["limit_ns"] for c in self._of(case).values()
                  if c.get("limit_ns")]
        return Range.of(values)

    def against_mutex(self, case, counter="ns_per_op"):
        """Each round's own ratio, so that a slow minute of the machine touches both sides."""
        reference = self.reference(case)
        return self._against(case, reference, counter) if reference else None

    def is_less_contended(self, case):
        """Whether fewer ask than there are threads of the std::mutex that it is compared with: that one waits for more
        others, so a ratio of the two says nothing of the locks."""
        reference = self.reference(case)
        return reference is not None and int(case.letter("N")) < int(reference.letter("N"))

    def mutex_beside(self, case):
        """The time of std::mutex that it is compared with, which is that of its own process: None if with none."""
        return Range.of([counters["ns_per_op"] for counters in
                         self._rounds.get((self._homes[case], self.reference(case)), {}).values()
                         if "ns_per_op" in counters])

    def reference(self, case):
        """The case of std::mutex that this one is compared with, if it is with any."""
        threads = self.range(case, "against")
        return case.reference(f"{threads.median:.0f}") if threads else None

    def against(self, case, other, **letters):
        """As against_mutex, with another contender's case of the same letters but for these."""
        changed = tuple(sorted(dict(case.letters, **letters).items()))
        return self._against(case, dataclasses.replace(case, contender=other, letters=changed),
                             "ns_per_op")

    def ratios(self, case, other, counter):
        """case / other of each round, from one process where it has both."""
        beside = self._rounds.get((self._homes[case], other)) or self._of(other)
        return [ours[counter] / theirs for number, ours in self._of(case).items()
                if (theirs := beside.get(number, {}).get(counter))]

    def raw(self):
        """Everything, for the JSON file."""
        return [{"executable": executable, "question": case.question, "contender": case.contender,
                 "letters": dict(case.letters), "rounds": rounds}
                for (executable, case), rounds in self._rounds.items()]

    def _against(self, case, other, counter):
        """From one process, or nothing."""
        if (self._homes[case], other) not in self._rounds:
            return None
        return Range.of(self.ratios(case, other, counter))

    def _of(self, case):
        """Its rounds, without those that have no time because the answer was wrong."""
        return {number: counters
                for number, counters in self._rounds[self._homes[case], case].items()
                if not counters.get("error_occurred")}
