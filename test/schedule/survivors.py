"""survivors.py - mutations that nothing catches, each with the reason why that is right."""

SLOT = (
    "keeps the owner's store to a slot behind a thief's load from it (Q2), which is load buffering: "
    "the checker cannot show that"
)
HEAD = (
    "keeps a newer head from going with an older tail, for which the two loads would have to change "
    "places: the checker makes them in their order"
)
FORK_SLOT = (
    "keeps the owner's store to a slot behind a thief's load from it (F2), which is load buffering: "
    "the checker cannot show that"
)
END = (
    "keeps the look of who declares the end before the taking of a job by who gets up later, which is "
    "load buffering: the checker cannot show that"
)

VERSION = (
    "keeps a take behind a look at the version, so that it gets no older value (V6), which is load "
    "buffering: the checker cannot show that"
)
OVER = "who must see it has the section or the lock since then, and with it what came before (G1)"
CAME = "who came is served when the work before it is complete: later, and not never"
HANDLER = (
    "what came before the handler was set is seen by the handler, and no scenario sets one"
)

COUNTED = (
    "keeps the store of a later keeping behind the loads of who counts this one (K7), which is load "
    "buffering: the checker cannot show that"
)
NAMES = "what is read there without the lock is a plain string, of which the checker knows nothing"
FREED = (
    "keeps the store to the word before it, for a CAS there, which reads the newest (K8): the checker makes the stores "
    "of a thread in their order"
)
SHOWN = "a number that is only shown (K6), and no scenario looks while another section is kept"

# where (the beginning of file:line), code, change, reason
EXPLAINED = [
    ("run_queue.hpp", "head = head_.load(acquire)", "acquire to relaxed", HEAD),
    ("run_queue.hpp", "head_.load(acquire)", "acquire to relaxed", SLOT),
    ("run_queue.hpp", "h + 1, release", "release to relaxed", SLOT),
    ("run_queue.hpp", "h + half, release", "release to relaxed", SLOT),
    ("run_queue.hpp", "h + n, release", "release to relaxed", SLOT),
    ("fork_stack.hpp", "top_.load(acquire)", "acquire to relaxed", FORK_SLOT),
    ("fork_stack.hpp", "release, relaxed)) return oldest", "release to relaxed", FORK_SLOT),
    ("sleepers.hpp", "word_.fetch_add(0, release)", "release to relaxed", END),
    ("sleepers.hpp", "seen - one_sleeping + one_searching, acquire", "acquire to relaxed", END),
    ("sleepers.hpp", "n - 1, acquire", "acquire to relaxed", END),
    ("value_cell.hpp", "newest_.load(acquire)", "acquire to relaxed", VERSION),
    ("value_cell.cpp", "newest_.store(version, release)", "release to relaxed", VERSION),
    ("value_cell.cpp", "seen, version, release", "release to relaxed", VERSION),
    ("section_request.hpp", "over_.store(true, release)", "release to relaxed", OVER),
    ("submitted.hpp", "over_.store(true, release)", "release to relaxed", OVER),
    ("scope_core.cpp", "over_.store(true, release)", "release to relaxed", OVER),
    ("wait_graph.cpp", "w.over->load(acquire)", "acquire to relaxed", OVER),
    ("wait_graph.cpp", ".lasts->load(acquire)", "acquire to relaxed", OVER),
    ("claims.hpp", "rest_.load(acquire)", "acquire to relaxed", NAMES),
    ("claims.cpp", "r.rest_.store(new", "release to relaxed", NAMES),
    ("submissions.cpp", "seen, said, acq_rel", "acq_rel to acquire", CAME),
    ("submissions.cpp", "word_.exchange(0, acquire)", "acquire to relaxed", CAME),
    ("keeper.cpp", "word_.load(acquire) % states == free", "acquire to relaxed", COUNTED),
    ("keeper.cpp", "since_.store(executions * one_body - now, release)", "release to relaxed", SHOWN),
    ("keeper.cpp", "since_.load(acquire)", "acquire to relaxed", SHOWN),
    ("keeper.cpp", "bodies_.load(acquire) & ~inside", "acquire to relaxed", SHOWN),
    ("keeper.cpp", "bodies_.store(ended_bodies(), release)", "release to relaxed", FREED),
    ("errors.cpp", "unobserved_handler.load(acquire)", "acquire to relaxed", HANDLER),
]
