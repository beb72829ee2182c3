"""Why a contender is ahead of us, where one is. The first that fits counts."""

import dataclasses
import re

UNKNOWN = "not known"


@dataclasses.dataclass(frozen=True)
class Reason:
    """Patterns for the question, for ours, for the contender and for what is compared, each of the whole name."""

    question: str
    theirs: str
    says: str
    ours: str = ".*"
    counter: str = ".*"

    def fits(self, *names):
        return all(re.fullmatch(pattern, name) for pattern, name in
                   zip((self.question, self.ours, self.theirs, self.counter), names))


_LOCKS = "std_.*mutex|tbb_spin_mutex|pthread_spinlock"
_WRITTEN_HERE = "async_binary_semaphore|intrusive_async_mutex(_posted)?"
_SMALL = f"{_LOCKS}|tbb_queuing_mutex|fiber_mutex|{_WRITTEN_HERE}"
_TAIL = "p99_us|p999_us|max_us"
_BEFORE_THE_TAIL = "p50_us|p99_us|p999_us"

_ON_ONE_THREAD = "On one thread: a coroutine has a turn of 32, then the next one's frame is fetched."

REASONS = (
    Reason("sections", ".*",
           "192 bytes, and 8 in a table: the word, who serves and what is counted, and room for the first eight that "
           "wait. Theirs keeps who waits elsewhere: in the client, on its stack, or in a queue made by the first one.",
           counter="bytes_per_section"),
    Reason("creation", _SMALL,
           "192 bytes a section, and 8 in a table, theirs 1 to 64: what is new from the system is cleared by it first, "
           "and written by the constructor (tried.md, Creation)."),
    Reason("revocation", ".*",
           "Nobody keeps a mutex: theirs is a lock that is free. Taking a section away interrupts the other core, so "
           "that its keeper need not do a read-modify-write for each of its own executions."),
    Reason("withdraw_stop", "std_condition_variable",
           "Level is expected: each of them wakes one sleeping thread. Theirs is the waiter's own; ours is a worker, "
           "which is given the coroutine once its request is out of the line."),
    Reason("withdraw_deadline", "std_condition_variable",
           "Level is expected: most of it is the kernel's, which rings late. There it wakes the waiter's own thread; "
           "here a thread that keeps the deadlines of all, and that one a worker."),
    Reason("gpu_.*", ".*",
           "A worker that has nothing else to do looks for what is complete, at 1.7 us a query, and spends as much as a "
           "thread that spins. Who is called back by CUDA, or sleeps until an event, is told later and spends less.",
           counter="processor_ns"),
    Reason("gpu_completion", "stream_synchronize",
           "The driver spins on the one stream that its caller waits for. Ours records an event, which a worker that "
           "also has others to look after asks for: 1.7 us a query."),
    Reason("switching", "boost_fiber",
           "A fiber of ours goes back to its worker, and through a queue that thieves may take from, to the next one: "
           "two changes of the stack and an exchange. Theirs goes straight to the next one of its thread's own list."),
    Reason("skynet", "tbb_task_group",
           "Ten children are ten coroutines with frames of their own and a common count; a task of theirs is a "
           "function object."),
    Reason("(read|add|both)_long", "std_atomic",
           "One instruction for one word. Ours has a version beside its value: 16 bytes, read in one piece and written "
           "by a compare-and-exchange."),
    Reason("(read|add|both)_.*", "std_(shared_)?mutex",
           "Two threads at one word: a read-modify-write brings its line over each time. Who does not get a mutex "
           "sleeps, and the other thread goes on alone."),
    Reason("sections", "intrusive_async_mutex",
           "Whoever need not wait goes on for ever there: its clients run one after the other (see Fairness), each of "
           "its sections in use by one thread. With a million sections: fewer bytes, as for the others."),
    Reason("sections", _SMALL,
           "A million sections of 192 bytes, and 8 in a table, are fetched from memory, and so are the page tables for "
           "them; locks of 1 to 64 bytes lie in a cache. With 16, several of those share a line."),
    Reason("latency|oversubscribed", "intrusive_async_mutex",
           "One client has all of its turns before the next one has one (see Fairness), so that one request of each "
           "waits, for all the turns of all others: see the maximum.",
           counter=_BEFORE_THE_TAIL),
    Reason("latency|oversubscribed", f"{_LOCKS}|fiber_mutex|cds_flat_combining",
           "Whoever has it takes it many times in a row while others wait, so that most requests wait for nobody, and "
           "few of them for milliseconds: see the maximum.",
           counter=_BEFORE_THE_TAIL),
    Reason("latency|oversubscribed", f"asio_strand(_defer)?|{_WRITTEN_HERE}",
           "Theirs suspends for each request, and all wait about as long. Ours runs bodies without suspending where "
           "it can, 5 us a turn, while the others of its thread wait for theirs: the median is less, and the tail "
           "longer.",
           counter=_TAIL),
    Reason("oversubscribed", "asio_strand_defer",
           "More threads than cores: some of its clients have turn after turn on the thread that runs, while the others "
           "wait for milliseconds: see p99 and Fairness.",
           counter="p50_us"),
    Reason("oversubscribed", "tbb_spin_mutex",
           "More threads than cores, which take it in no order: who runs has it, and whose core is taken away asks "
           "for nothing."),
    Reason("counter|uncontended", "tbb_spin_mutex|pthread_spinlock|tbb_queuing_mutex",
           "An exchange to lock and a store to unlock, in no order (but for queuing_mutex): contended, who has it takes "
           "it again before the others see it free."),
    Reason("counter|uncontended", "std_.*",
           "A thread that waits here is next: two threads take turns, and each body brings lines over. Who does not "
           "get such a mutex sleeps, while the other thread takes it many times in a row.",
           ours="turnstile_blocking"),
    Reason("counter", "cds_flat_combining",
           "In no order: one thread runs what it finds published, again and again, and who does not get that part "
           "sleeps for 2 ms, which is the default of libcds.",
           ours="turnstile_blocking"),
    Reason("counter|uncontended", f"fiber_mutex|{_WRITTEN_HERE}",
           "Coroutines, of which one that need not wait goes on. A thread that waits here is woken for each body. "
           "Uncontended: a compare-and-exchange, with no record of who holds it.",
           ours="turnstile_blocking"),
    Reason("counter|uncontended", f"fiber_mutex|{_WRITTEN_HERE}",
           "A guard writes down who holds the section, so that whoever asks for it again gets an error instead of "
           "waiting for ever: 140 to 190 instructions, theirs about 30. Contended: it is handed over in the order of "
           "asking, and each of those that wait is resumed by its own thread.",
           ours="turnstile_guards"),
    Reason("counter|lines", "intrusive_async_mutex",
           "One client has all of its turns before the next one has one (see Fairness): nothing is ever handed over."),
    Reason("lines", "fiber_mutex",
           "Each body moves the top of a fiber's stack to the thread that serves, and back. Theirs is taken by whoever "
           "runs: see Fairness.",
           ours="turnstile_delegated"),
    Reason("think", "async_binary_semaphore|intrusive_async_mutex_posted",
           f"Who need not wait goes on: on one thread a client has all of its turns at once. {_ON_ONE_THREAD}"),
    Reason("think", "tbb_queuing_mutex",
           f"Its threads wait in place, one line and one hand-over each. {_ON_ONE_THREAD}"),
    Reason("think", f"{_LOCKS}|intrusive_async_mutex",
           "In no order: who comes while the lock is being let go takes it before those that wait, and the two lines "
           f"come over less often. {_ON_ONE_THREAD}"),
)


def why(question, ours, theirs, counter):
    return next((reason.says for reason in REASONS if reason.fits(question, ours, theirs, counter)), UNKNOWN)
