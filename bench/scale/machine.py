"""Cores, cache lines that move between them, and the events in time. All times in nanoseconds."""

import collections
import heapq
import random

from traces import STEPS

HIT = 1.0         # a line that is here: L1
RMW = 5.0         # an atomic read-modify-write on a line that is here: measured, 2.6 GHz Xeon
# A line that another core has written: 42 for a load and 47 for an rmw, measured there as a chain through
# 256 lines. There and back by spinning it is 123, so published times of that kind are taken times 0.7.
TRANSFER = 42.0
SPINNING = 0.7
AHEAD = 68.0      # how far a core looks ahead: 352 micro-operations (Sunny Cove), 2 a cycle, 2.6 GHz
MEMBARRIER = 12e3  # membarrier(2) while the other cores are busy: measured, 2 cores
FUTEX_WAIT = 500  # into the kernel, until the word is looked at: estimate
FUTEX_WAKE = 1000  # the call, by who wakes: estimate
WAKE_UP = 40e3    # until who was woken runs: twice the looks of lib/executor/thread_pool.cpp
PAUSE = 45.0      # one pause instruction: 140 cycles since Skylake, Intel's optimization manual
YIELD = 500.0     # sched_yield with nobody else there: estimate


class Topology:
    """Groups of cores; one transfer within a group and between groups."""

    def __init__(self, name, group, near, far):
        self.name, self.group, self.near, self.far = name, group, near, far

    def between(self, a, b):
        return self.near if a // self.group == b // self.group else self.far


def sockets(cores):
    """Across: 2.1 times within, as of two Xeon 8375C (github.com/nviennot/core-to-core-latency: 51 and
    108 one way)."""
    return Topology("sockets", max(32, cores // 2), TRANSFER, TRANSFER * 108 / 51)


def clusters(cores):
    """EPYC 7R13 (the same source): 23 in a group of 8 that shares an L3, 107 across."""
    return Topology("clusters", 8, 23 * SPINNING, 107 * SPINNING)


class Line:
    """One owner, or some that share it. A transfer takes half its time to reach the owner, who may use
    the line until then, and half to bring it. They queue up at the line in the order asked for.

    A load takes over a line that its owner has written: measured, a store after such a load costs
    nothing more. What its owner has only loaded is shared."""

    __slots__ = ("owner", "since", "last", "leaves", "sharers", "is_written")

    def __init__(self, owner=0):
        self.owner = owner
        self.since = 0.0  # when it is there
        self.last = None  # the owner before, until `leaves`
        self.leaves = 0.0
        self.sharers = {}  # core: since when
        self.is_written = True

    def is_here(self, core, t, takes):
        """When, or None."""
        if core == self.owner:
            return max(t, self.since)
        if core == self.last and t + takes <= self.leaves:
            return t
        return None

    def load(self, m, core, t):
        here = self.is_here(core, t, HIT)
        if here is None and core in self.sharers:
            here = max(t, self.sharers[core])
        if here is not None:
            return here + HIT
        if self.owner is not None and self.is_written:
            self.move(m, core, t, (self.owner,))
            self.is_written = False
            return self.since + HIT
        m.transfers += 1
        if self.owner is not None:
            self.sharers, self.owner = {self.owner: self.since}, None
        way = min((m.topology.between(core, s) for s in self.sharers))
        self.sharers[core] = max(t, self.since) + way
        return self.sharers[core] + HIT

    def store(self, m, core, t, takes):
        here = self.is_here(core, t, takes)
        if here is None:
            self.move(m, core, t, self.sharers if self.owner is None else (self.owner,))
            here = self.since
        if core == self.owner:
            self.is_written = True
        return here + takes

    def move(self, m, core, t, holders):
        m.transfers += 1
        begin = max(t, self.since)
        way = max((m.topology.between(core, h) for h in holders if h != core),
                  default=m.topology.near)
        self.last, self.leaves = self.owner, begin + way / 2
        self.owner, self.since, self.sharers = core, begin + way, {}


class Machine:
    """Runs generators, which yield the time when they go on, or None to sleep until woken."""

    def __init__(self, cores, topology, seed=1):
        self.topology = topology(cores)
        self.now = 0.0
        self.random = random.Random(seed)
        self.drained = [0.0] * cores  # when a core's stores are done
        self.transfers = self.rmws = 0
        self.moves = collections.Counter()  # transfers by the line's name
        self._events = []
        self._seq = 0

    def at(self, t, process):
        self._seq += 1
        heapq.heappush(self._events, (t, self._seq, process))

    def run(self, is_over, most_events):
        while self._events and self._seq < most_events and not is_over():
            self.now, _, process = heapq.heappop(self._events)
            t = next(process, None)
            if t is not None:
                self.at(t, process)

    def access(self, core, kind, line):
        if kind == "r":
            return line.load(self, core, self.now)
        if kind == "p":
            return max(self.now + HIT, line.load(self, core, self.now) - AHEAD)
        if kind == "f":
            line.store(self, core, self.now, HIT)
            return self.now + HIT
        if kind == "u":
            return line.store(self, core, self.now, 2 * HIT)
        if kind == "w":
            done = line.store(self, core, self.now, HIT)
            self.drained[core] = max(self.drained[core], done)
            return self.now + HIT
        self.rmws += 1
        return line.store(self, core, max(self.now, self.drained[core]), RMW)

    def do(self, core, step, **who):
        """One step of traces.py."""
        for group in STEPS[step]:
            t = self.now
            for kind, whose, line in group:
                if kind == "code":
                    t = max(t, self.now + whose)
                else:
                    before = self.transfers
                    t = max(t, self.access(core, kind, getattr(who[whose], line)))
                    self.moves[f"{whose}.{line}"] += self.transfers - before
            yield t

    def prefetch(self, core, line):
        self.access(core, "f", line)

    def wait(self, time):
        yield self.now + time
