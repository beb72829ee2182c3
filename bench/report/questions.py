"""How each question is shown: a table with a column for each panel, a row for each contender."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Mark:
    """One number of a cell: its counter, its name in the legend, its shape in the plot."""

    counter: str
    name: str
    shape: str


@dataclasses.dataclass(frozen=True)
class View:
    question: str
    title: str
    says: str
    panels: tuple = ()  # the letters that make a column
    rows: tuple = ("N",)  # the letters that make a row, beside the contender
    marks: tuple = (Mark("ns_per_op", "", "o"),)
    unit: str = "ns per operation"
    ratios: bool = True
    only: tuple = ()  # pairs (letter, values of which a case must have one)
    ways: tuple = ()  # of our contenders only those that are called so after the ring; empty: all
    plain: bool = False  # only those whose clients are threads
    beside: tuple = ()  # contenders that the others are compared with, besides std::mutex
    places: int = 1
    linear: bool = False


PERCENTILES = (Mark("p50_us", "p50", "|"), Mark("p99_us", "p99", "o"),
               Mark("p999_us", "p99.9", "s"), Mark("max_us", "max", ">"))

_FAIR = {"marks": (Mark("jain", "", "o"),), "unit": "Jain's index", "ratios": False, "linear": True,
         "places": 4, "ways": ("",), "panels": ("T",)}

_MAY_GO = ("With a stop token for each client, with one for all, with a deadline for each, and "
           "with none of them; nobody is withdrawn.")
_MAY_GO_SHOWN = {"panels": ("N",), "rows": (),
                 "only": (("T", ("2",)), ("N", ("64", "1024")), ("B", ("tiny",))),
                 "ways": ("", "_stop_token", "_common_token", "_deadline")}


def _withdrawals(how, says):
    question = f"withdraw_{how.split()[0]}"
    seen = ("One body keeps the section for a second. Those that wait are withdrawn one after the "
            "other, in turn the first, the one in the middle and the last: the time from "
            f"{says} until the one that waited runs.")
    return (View(question, f"Withdrawal by a {how}", seen,
                 rows=("N", "T"), unit="microseconds", ratios=False, places=0,
                 marks=(Mark("p50_us", "p50", "|"), Mark("p99_us", "p99", "o"),
                        Mark("max_us", "max", ">"))),
            View(question, f"Withdrawal by a {how}, from where in line",
                 "The same runs: the median of each place.",
                 rows=("N", "T"), unit="microseconds, p50", ratios=False, places=0,
                 marks=(Mark("head_us", "first", "<"), Mark("middle_us", "middle", "o"),
                        Mark("tail_us", "last", ">"))))


def _values(size, what):
    says = {"read": "both read it whole, as a snapshot or as a copy",
            "add": "both add one to every part of it",
            "both": "one adds while the other reads"}
    return (View(f"{load}_{size}", f"Variable of {what}, {load}",
                 f"Two threads and one value: {how}.", rows=()) for load, how in says.items())


VIEWS = (
    View("uncontended", "Uncontended",
         "One client on one thread, ++counter inside. What a lock costs nobody else wants."),
    View("counter", "Counter",
         "T threads, N clients that do nothing but ++counter inside. The queue itself.",
         panels=("T",), ways=("",)),
    View("counter", "Counter, plain threads",
         "T threads that do nothing but ++counter inside. Ours wait in place (execute_blocking), "
         "and whoever leaves the section runs the others' bodies.",
         panels=("T",), ways=("", "_blocking"), plain=True),
    View("counter", "Counter, guards",
         "64 clients on one thread, and on two: lock, ++counter, unlock. Who is queued is handed the section and has "
         "to be resumed for it, one after the other; a body that is given to execute is run by whoever serves.",
         panels=("T",), only=(("T", ("1", "2")), ("N", ("64",))), ways=("", "_guards")),
    View("counter", "Counter, requests that may be withdrawn",
         f"{_MAY_GO} Two threads.", **_MAY_GO_SHOWN),
    View("think", "Think, tiny body",
         "++counter inside, about 215 ns of private work outside. A queue that drags all clients "
         "onto one thread reaches twice the limit here on two cores.",
         panels=("T",), only=(("B", ("tiny",)),), ways=("",)),
    View("think", "Think, plain threads",
         "The same on T threads that wait in place, with a tiny and a longer body.",
         panels=("T", "B"), ways=("", "_blocking"), plain=True),
    View("think", "Think, tiny body, requests that may be withdrawn",
         f"{_MAY_GO} Two threads, about 215 ns of private work.", **_MAY_GO_SHOWN),
    View("think", "Think, 250 ns body",
         "About 250 ns inside, about 215 ns outside: the section itself is the limit.",
         panels=("T",), only=(("B", ("250ns",)),), ways=("",)),
    View("counter", "Fairness, counter",
         "Who got how much until the run ended for everybody: 1 if all got the same, 1/N if one client "
         "got it all. A run of its own, of as many turns or more.", **_FAIR),
    View("think", "Fairness, think, tiny body", "The same with about 215 ns of private work.",
         **_FAIR, only=(("B", ("tiny",)),)),
    View("think", "Fairness, think, 250 ns body", "The same with about 250 ns inside.",
         **_FAIR, only=(("B", ("250ns",)),)),
    View("lines", "Fairness, lines",
         "The same with a body that works for about 100 ns with what is in 8 cache lines.",
         **_FAIR, only=(("B", ("8lines_100ns",)),)),
    View("oversubscribed", "Fairness, oversubscribed",
         "1000 multiply-adds inside and 1000 outside, with more clients than cores.", **_FAIR),
    View("lines", "Lines",
         "T threads, N clients; the body writes one word in each of 1, 8 or 64 cache lines of what "
         "the section guards, or works for about 100 ns with what is in 8 of them. Where clients enter "
         "on their own threads, those lines follow them.",
         panels=("B", "T"), beside=("fiber_mutex",)),
    View("switching", "Switching",
         "N fibers on one thread do nothing but yield to one another: the time of one switch.",
         panels=("N",), rows=(), unit="ns per switch", beside=("boost_fiber",)),
    View("oversubscribed", "Oversubscribed, time",
         "1000 multiply-adds inside and 1000 outside, with more clients than cores. Compared with "
         "std::mutex on 8 and on 64 threads.",
         panels=("against",), rows=()),
    View("oversubscribed", "Oversubscribed, tail",
         "The same runs: from a request to its completion.",
         panels=("against",), rows=(), marks=PERCENTILES, unit="microseconds",
         ratios=False),
    View("latency", "Latency",
         "From a request to its completion, closed loop, with a tiny body; without and with "
         "private work. Plain threads are shown with 2 clients too, which is another load.",
         panels=("W",), rows=("T",), marks=PERCENTILES, unit="microseconds", ratios=False,
         places=2),
    View("held", "Held across an await",
         "Two holders keep the section for 100 us in turn, 64 other tasks work on the same two "
         "threads: their throughput compared with that without the section.",
         rows=(), marks=(Mark("throughput_kept", "", "o"),), unit="share of the throughput kept",
         ratios=False, places=3, linear=True),
    View("held", "Held across an await, how often",
         "How often a holder gave the section back. 10 would be perfect; a low number means that "
         "holders were kept waiting longer than they asked for.",
         rows=(), marks=(Mark("holds_per_ms", "", "o"),), unit="holds per millisecond",
         ratios=False, linear=True),
    View("sections", "Many sections, even choice",
         "Two threads, plain or with 64 coroutines; each operation picks one of S sections, all "
         "equally often.",
         panels=("S",), rows=(), only=(("C", ("uniform",)),)),
    View("sections", "Many sections, skewed choice",
         "The same by Zipf's law: the section of rank r is picked about 1/r times as often as the "
         "first.",
         panels=("S",), rows=(), only=(("C", ("skewed",)),)),
    View("sections", "Many sections, memory",
         "What a new section takes, with all that its constructor allocates.",
         panels=("S",), rows=(), marks=(Mark("bytes_per_section", "", "o"),),
         unit="bytes per section", ratios=False, only=(("C", ("uniform",)),)),
    View("creation", "A million new sections",
         "One client on one thread makes a million sections and executes once in each, in turn.",
         rows=(), unit="ns per section"),
    View("creation", "A million new sections, in executions",
         "The same divided by what an execution takes that one client repeats in one section.",
         rows=(), marks=(Mark("executions", "", "o"),), unit="executions per section", ratios=False),
    View("creation", "A million sections in memory that the program has had before, in executions",
         "The same once more, without asking the system for memory, which clears every page of it first.",
         rows=(), marks=(Mark("executions_again", "", "o"),), unit="executions per section",
         ratios=False),
    *(View("bounded_buffer", f"Bounded buffer, room for {capacity}",
           "Half of the N clients produce, half consume: the time for each item. Ours and Asio's "
           "share two threads; the mutex has two condition variables, and each client a thread.",
           panels=("N",), rows=(), unit="ns per item", only=(("K", (capacity,)),))
      for capacity in ("1", "16")),
    *_withdrawals("stop token", "request_stop"),
    *_withdrawals("deadline", "its deadline"),
    View("pipelining", "Pipelining on a device",
         "64 coroutines whose bodies submit for 5 us to a stream that a thread of its own works for; a "
         "kernel takes 5, 20 or 100 us. The section is handed on when a body has submitted, or when its "
         "work is complete. bare: the same work on the same stream without a section.",
         panels=("W",), rows=(), unit="ns per execution", beside=("bare",)),
    View("completion", "Waiting for an idle stream",
         "One coroutine awaits the completion of a host stream that has nothing to do, on one thread "
         "that is also the stream's; completions are told, or found by looking. Compared with a hop "
         "through the pool's queue.",
         rows=(), unit="ns per await", beside=("thread_pool_hop",)),
    View("gpu_pipelining", "Pipelining on a GPU",
         "Bodies that launch one kernel each on one stream; a kernel takes no time, 5, 20 or 100 us. Ours: 64 "
         "coroutines on two threads; the section is handed on when a body has launched, or when its kernel is "
         "complete. std::mutex: 8 threads, which wait outside for an event of their own, or keep the mutex until "
         "their kernel is complete. The limit: one thread launches all and waits once.",
         panels=("W",), rows=(), unit="ns per launch"),
    View("gpu_pipelining", "Pipelining on a GPU, processor time",
         "The same runs: what all threads of the process used for a launch.",
         panels=("W",), rows=(), marks=(Mark("processor_ns", "", "o"),), unit="ns of processor time", ratios=False),
    View("gpu_completion", "Waiting for a kernel",
         "One client launches a kernel that takes no time, 5, 20 or 100 us, and waits for it: a coroutine that "
         "awaits the stream, one that a host function of CUDA's sends home, a thread in cudaStreamSynchronize, a "
         "thread that sleeps until an event is reached. The limit: no wait but the last.",
         panels=("W",), rows=(), unit="ns per launch", beside=("stream_synchronize",)),
    View("gpu_completion", "Waiting for a kernel, processor time",
         "The same runs: what all threads of the process used for a launch.",
         panels=("W",), rows=(), marks=(Mark("processor_ns", "", "o"),), unit="ns of processor time", ratios=False),
    View("revocation", "Revocation",
         "One thread had the section to itself and works by itself for 10 ms; another one asks: the time "
         "until it goes on. Ours stays with the first thread meanwhile, and is taken from it.",
         rows=(), marks=PERCENTILES, unit="microseconds", ratios=False, places=2),
    View("revocation", "Revocation, how often there was something to revoke",
         "The same runs: the share of the requests that found the section kept by the other thread.",
         rows=(), marks=(Mark("kept", "", "o"),), unit="share of the requests", ratios=False, places=3,
         linear=True),
    *(View(question, title, says, rows=(), unit=f"ns per {unit}", beside=beside)
      for question, title, says, unit, beside in (
          ("fib", "Fork and join",
           "fib(25) by two tasks each down to n < 2, with no cut-off, on two threads.", "call",
           ("tbb_task_group",)),
          ("skynet", "Skynet", "A tree of tasks, ten children each, 100 000 leaves, on two threads.",
           "task", ("tbb_task_group",)),
          ("ping_pong", "Ping-pong",
           "Two coroutines on a pool of two threads, in turn. Asio's make each other run by post, or by defer.",
           "hand-over", ("asio_pool", "asio_pool_defer")))),
    *_values("long", "8 bytes"),
    *_values("1KiB", "1 KiB"),
)
