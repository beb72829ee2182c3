"""survivors.py - mutations that nothing catches, each with the reason why that is right."""

SLOT = (
    "keeps the owner's store to a slot behind a thief's load from it (Q2), which is load buffering: "
    "the checker cannot show that"
)
END = (
    "needs a stop, an end and a worker that lies down within each other: 2.8 million random "
    "executions did not meet it; model parking shows the rule (SLEEP_AFTER_DONE), not the order"
)

# where (the beginning of file:line), code, change, reason
EXPLAINED = [
    ("run_queue.hpp", "head_.load(acquire)", "acquire to relaxed", SLOT),
    ("run_queue.hpp", "h + 1, release", "release to relaxed", SLOT),
    ("run_queue.hpp", "h + half, release", "release to relaxed", SLOT),
    ("thread_pool.cpp", "done_.store(true, seq_cst)", "seq_cst to release", END),
    ("thread_pool.cpp", "done_.load(seq_cst)", "seq_cst to acquire", END),
]
