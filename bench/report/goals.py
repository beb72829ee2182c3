"""What the library wants to reach, and whether it did."""

import dataclasses

from .results import RINGS, ring_of


NOT_ASKED = "not measured"  # the case has not run
NO_NUMBER = "no number, not met"  # it has, and did not count this, or what it is compared with did not run

_FORMS = {"at least": "{:.1%}", "index": "{:.4f}", "us": "{:,.0f} us", "bytes": "{:,.0f} bytes"}


@dataclasses.dataclass(frozen=True)
class Goal:
    what: str
    bound: float
    question: str
    letters: dict
    # mutex, limit: a ratio that must not be above the bound; times, us, bytes: a number that must
    # not be; at least, index: a share, or a number, that must not be below it
    measure: str = "mutex"
    counter: str = "ns_per_op"
    way: str = ""  # what is measured is the ring's name and this,
    beside: str | None = None  # next to the ring's name and this, if it is not None,
    other: str = ""  # or next to a contender that is called so,
    beside_letters: dict = dataclasses.field(default_factory=dict)  # with these letters changed

    def value(self, results, contender):
        """What was measured, or None."""
        case = results.find(self.question, contender + self.way, **self.letters)
        if case is None:
            return None
        if self.other:
            return results.against(case, self.other)
        if self.beside is not None:
            return results.against(case, contender + self.beside, **self.beside_letters)
        if self.measure == "limit":
            return results.against_limit(case)
        if self.measure == "mutex":
            return results.against_mutex(case, self.counter)
        return results.range(case, self.counter)

    def is_asked(self, results, contender):
        """Its case has run, whatever that counted."""
        return results.find(self.question, contender + self.way, **self.letters) is not None

    def met(self, value):
        """By the median of the rounds."""
        median = value.median
        return median >= self.bound if self.measure in ("at least", "index") else median <= self.bound

    def bound_text(self):
        if self.measure == "at least":
            return f"at least {self.bound:.0%}"
        if self.measure == "index":
            return f"at least {self.bound:.2f}"
        if self.measure == "us":
            return f"at most {self.bound:,.0f} us"
        if self.measure == "bytes":
            return f"at most {self.bound:,.0f} bytes"
        return f"at most {self.bound:.2f} x"

    def text(self, results, contender):
        value = self.value(results, contender)
        if value is None:
            return NO_NUMBER if self.is_asked(results, contender) else NOT_ASKED
        median, low, high = (_FORMS.get(self.measure, "{:.3f} x").format(number)
                             for number in (value.median, value.low, value.high))
        span = f" ({low.split()[0]} to {high.split()[0]})" if low != high else ""
        return f"{median}{span} {'met' if self.met(value) else 'not met'}"


def _counter(threads, clients):
    return Goal(f"counter, {clients} coroutines on {threads} threads, time of std::mutex", 0.30,
                "counter", {"T": threads, "N": clients})


def _think(threads, clients, body):
    bound = 1.05 if threads == "2" else 1.10
    what = f"think, {body} body, {clients} coroutines on {threads} threads, time of"
    letters = {"T": threads, "N": clients, "B": body}
    yield Goal(f"{what} the physical limit", bound, "think", letters, "limit")
    yield Goal(f"{what} std::mutex", 1.0, "think", letters)


def _fair(question, threads, clients, body="tiny", said=""):
    return Goal(f"{question}{said}, {clients} coroutines on {threads} threads, Jain's index of their throughput",
                0.99, question, {"T": threads, "N": clients, "B": body}, "index", "jain")


def _with_token(what, bound, question, letters):
    return Goal(f"{what} with a stop token, time of none", bound, question, letters,
                way="_stop_token", beside="")


def _withdrawn(how):
    return Goal(f"withdrawn by a {how} while a body runs, median until the error arrives", 1000,
                f"withdraw_{how.split()[0]}", {"T": "2"}, "us", "p50_us")


def _pipelined(kernel, bound):
    return Goal(f"device, {kernel} kernels released at submission, time of release at completion",
                bound, "pipelining", {"W": kernel}, way="_at_submission", beside="_at_completion")


_OVERSUBSCRIBED = {"T": "2", "N": "64"}
_THREADS = ("2", "4", "8")
_MANY = ("64", "1024")

GOALS = (
    Goal("uncontended, time of std::mutex", 0.25, "uncontended", {"T": "1", "N": "1"}),
    Goal("uncontended with the affine path off, time of std::mutex", 1.02, "uncontended", {},
         way="_not_kept"),
    *(_counter(t, n) for n in ("2", *_MANY) for t in _THREADS),
    *(Goal(f"counter, {n} coroutines on 8 threads, time on 2 threads", 1.2, "counter",
           {"T": "8", "N": n}, beside="", beside_letters={"T": "2"}) for n in ("2", *_MANY)),
    *(Goal(f"counter, {n} plain threads that wait in place, time of std::mutex", 1.0, "counter",
           {"T": n, "N": n}, way="_blocking") for n in ("2", "4", "8")),
    *(Goal(f"lines, 8 lines in 100 ns, {n} coroutines on {t} threads, time of the physical limit", 1.10,
           "lines", {"T": t, "N": n, "B": "8lines_100ns"}, "limit") for n in _MANY for t in _THREADS),
    *(goal for body in ("tiny", "250ns") for n in _MANY for t in _THREADS
      for goal in _think(t, n, body)),
    *(_fair("counter", t, n) for n in ("2", *_MANY) for t in _THREADS),
    *(_fair("think", t, n, body, f", {body} body") for body in ("tiny", "250ns") for n in _MANY for t in _THREADS),
    *(_fair("lines", t, n, "8lines_100ns", ", 8 lines in 100 ns") for n in _MANY for t in _THREADS),
    *(_fair("oversubscribed", t, "64", "1000steps") for t in ("2", "8")),
    Goal("oversubscribed, 64 coroutines on 2 threads, time of the physical limit", 1.10,
         "oversubscribed", _OVERSUBSCRIBED, "limit"),
    *(Goal(f"oversubscribed, 64 coroutines on 2 threads, {name} of std::mutex on 64 threads", bound,
           "oversubscribed", _OVERSUBSCRIBED, counter=counter)
      for name, bound, counter in (("p99.9", 0.02, "p999_us"), ("max", 0.05, "max_us"))),
    Goal("held, throughput of unrelated work that is kept", 0.97, "held", {"T": "2"}, "at least",
         "throughput_kept"),
    Goal("uncontended with a body that captures 3 words, time of one", 1.50, "uncontended", {},
         way="_3_captures", beside=""),
    Goal("uncontended with 3 declared resources, time of none declared", 1.25, "uncontended", {},
         way="_3_resources", beside=""),
    Goal("uncontended, one section inside another, time of one after the other", 1.30,
         "uncontended", {}, way="_nested", beside="_not_nested"),
    _with_token("uncontended", 1.10, "uncontended", {}),
    *(_with_token(f"{question}, {n} coroutines on 2 threads,", 1.50, question,
                  {"T": "2", "N": n, "B": "tiny"})
      for question in ("counter", "think") for n in ("64", "1024")),
    *map(_withdrawn, ("stop token", "deadline")),
    Goal("revocation of a section that another thread keeps, p99.9 until it is had", 100, "revocation",
         {}, "us", "p999_us"),
    Goal("a million sections made and used once, executions each", 20, "creation", {}, "times",
         "executions"),
    Goal("the same in memory that the program has had before", 20, "creation", {}, "times",
         "executions_again"),
    Goal("a million sections, bytes each", 256, "creation", {}, "bytes", "bytes_per_section"),
    *(Goal(f"{question} on 2 threads, time of oneTBB's task_group", 1.5, question, {},
           other="tbb_task_group") for question in ("fib", "skynet")),
    Goal("ping-pong on 2 threads, time of Boost.Asio's thread_pool by post", 0.5, "ping_pong", {},
         other="asio_pool"),
    *(_pipelined(kernel, bound) for kernel, bound in (("5us", 0.65), ("20us", 0.85), ("100us", 1.0))),
    Goal("device, 20us kernels released at submission, time of the physical limit", 1.15,
         "pipelining", {"W": "20us"}, "limit", way="_at_submission"),
)


def table(results):
    """A header, and a row for each goal and a column for each ring that was measured."""
    measured = set(map(ring_of, results.contenders()))
    rings = [ring for ring in RINGS if ring in measured]
    rows = []
    for goal in GOALS:
        if any(goal.is_asked(results, ring) for ring in rings):
            rows.append([goal.what, goal.bound_text(), *(goal.text(results, ring) for ring in rings)])
    return ["goal", "bound", *rings], rows
