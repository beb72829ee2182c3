"""What each protocol touches, step by step: the data that simulate.py runs.

A step is a list of accesses, `;` between those that wait for each other, `+` between those that
overlap. Each is one of

    r X      load
    p X      load that only a well predicted branch waits for: what follows goes on without it, as far as
             the processor looks ahead
    f X      prefetch for writing: holds up nothing
    w X      store: goes through the store buffer, and holds up nothing but the next rmw
    u X      load and store of ordinary data
    rmw X    atomic read-modify-write, whether it succeeds or not
    code N   N nanoseconds of instructions

X is a cache line. Of the section (section_core.hpp): `word` job, ring word, traits,
has_aside_, has_tail_, executions_; `mine` the owner's private side, stashes and all; `data` what the body
writes; a `cell.line` holds eight cells. Of a request (execute_awaiter, 392 bytes): `head` next, work,
home, ticket, start, back_to; `mid` accepted_at, chain, waiter; `tail` section, told, phase, body,
result, left. Of a worker: `queue` head and tail; `mail`; `bodies`; `keeper`. `pool.sleepers`.

What could be otherwise (`ticket, ahead`): in `apart` the traits lie on a line that nobody writes, and
has_aside_, has_tail_ and executions_ on `mine`; in `ahead` the owner prefetches the frames that it collects.
The mailboxes, too, and it has piles for 32 workers instead of 4 (section.py).
"""

# Asking, in include/turnstile/detail/execution.hpp and section_core.hpp.
ASKING = {
    # arrive; who is the owner then asks special(), in the same line
    "arrive": "code 4; rmw section.word",
    "arrive, apart": "code 4; rmw section.word",
    # the body, executions_, has_aside_, leave
    "run at once": "u section.data; w section.word; p section.word; rmw section.word",
    "run at once, apart": "u section.data; w section.mine; rmw section.word",
    # enter_kept, the body, leave_kept: the keeper's number alone
    "kept": "code 4; w me.keeper + u section.data; w me.keeper",
    # raise_to(most_), suspend_as, await_turn
    "queued": "code 12; p section.word; w frame.head + w frame.mid + w frame.tail",
    "queued, apart": "code 12; w frame.head + w frame.mid + w frame.tail",
    # ticket_ring::publish: load, then CAS until it succeeds
    "publish": "w frame.head; r cell.line",
    "publish cas": "rmw cell.line",
    # keeper::want, membarrier, keeper::revoke; count_kept, let_go
    "want": "r section.mine; r by.keeper; rmw by.keeper",
    "take away": "r by.keeper; rmw by.keeper; w section.word; w section.mine; w by.keeper; rmw section.word",
    # section_core::keep
    "keep": "w me.keeper; w section.mine; rmw section.word",
    "stop keeping": "rmw me.keeper; rmw section.word",
    # inbox_ring::arrive; push: count, load, then CAS until it succeeds
    "inbox count": "rmw section.word; r section.word; w frame.head; r section.word",
    "inbox cas": "rmw section.word",
}

# Serving, in lib/strand/section_core.cpp and lib/ring.
SERVING = {
    "begin": "code 30; r section.mine; w section.mine",
    # start, the body, batch::add; has_tail_ twice, limited(), has_aside_; executions_
    "serve one": "code 8; r frame.head; r frame.mid + r frame.tail + p section.word; "
                 "u section.data; w frame.tail; w frame.head; w section.word; w section.mine; "
                 "p section.word",
    "serve one, apart": "code 8; r frame.head; r frame.mid + r frame.tail; u section.data; "
                        "w frame.tail; w frame.head; w section.mine",
    "look at cell": "r section.mine; r cell.line",
    "collect": "rmw cell.line",
    "walk": "r frame.head; w frame.head",
    "walk, ahead": "r frame.head; w frame.head; f frame.mid + f frame.tail",
    "park": "rmw cell.line",
    "account": "rmw section.word",  # and settle
    "look at inbox": "r section.word",
    "take inbox": "rmw section.word",
    "clock": "code 25",
    "turn round": "w frame.head",  # mailbox::push
    "hand back": "r home.mail; rmw home.mail; r pool.sleepers",
}

# lib/executor/thread_pool.cpp, mailbox.hpp, run_queue.hpp, sleepers.hpp.
WORKING = {
    "any mail": "r me.mail",
    "take mail": "rmw me.mail",
    "append": "rmw me.queue",
    "take": "code 6; rmw me.queue",
    "resume": "r frame.head; r frame.mid + r frame.tail",
    "ended": "w me.bodies",
    "look for work": "r victim.queue + r victim.mail + r victim.bodies",
    "steal": "r victim.queue; rmw victim.queue; w me.queue",
    "take other's mail": "rmw victim.mail",
    "posted": "r pool.sleepers",
    "sleepers": "rmw pool.sleepers",
}

# Locks of plain threads: glibc, oneTBB.
LOCKING = {
    "mutex lock": "code 2; rmw lock.word",
    "mutex locked": "w lock.word; u lock.data",  # __owner, __nusers
    "mutex unlock": "w lock.word; rmw lock.word",
    "spin try": "code 2; rmw lock.word",
    "spin body": "u lock.data",
    "spin unlock": "w lock.word",
    "mcs lock": "code 4; w me.node; rmw lock.word",
    "mcs link": "w before.node",
    "mcs spin": "r me.node",
    "mcs body": "u lock.data",
    "mcs unlock": "r me.node",
    "mcs leave": "rmw lock.word",
    "mcs pass": "w after.node",
}


def parsed(text):
    """Groups of (kind, whose, which line) that overlap; code is ('code', N, None)."""
    def access(a):
        kind, what = a.split()
        return (kind, float(what), None) if kind == "code" else (kind, *what.split("."))
    return [[access(a) for a in group.split("+")] for group in text.split(";")]


STEPS = {name: parsed(text) for table in (ASKING, SERVING, WORKING, LOCKING)
         for name, text in table.items()}
