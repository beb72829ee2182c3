#!/usr/bin/python3
"""What would 64 or 128 cores do? Simulates cores that pass cache lines to each other while their
coroutines, or threads, ask for one section with a tiny body.

    bench/scale/simulate.py                      all tables, in some minutes
    bench/scale/simulate.py --cores 64 --work 215 --protocol ticket

What is touched in which order is in traces.py, what it costs in machine.py; the same seed gives the
same numbers, and of several seeds the median is shown. How far it can be trusted: README.md of the folder above.
"""

import argparse
import multiprocessing
import statistics
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is

import locks  # noqa: E402
import machine  # noqa: E402
from section import Section  # noqa: E402

CORES = (2, 4, 8, 16, 64, 128)
WORK = (0, 215, 2000, 20000)
COROUTINES_PER_CORE, MOST_COROUTINES = 32, 1024
MOST_EVENTS = 250_000  # of who makes no headway the rate is taken as it is then
TOPOLOGIES = {"sockets": machine.sockets, "clusters": machine.clusters}
PROTOCOLS = {
    "ticket": Section,
    "ticket, 64 cells": lambda m: Section(m, cells=64),
    "ticket, ahead": lambda m: Section(m, ahead=True),
    "inbox": lambda m: Section(m, ring="inbox"),
    "std::mutex": locks.Mutex,
    "spin lock": locks.Spin,
    "queue lock": locks.Mcs,
}


class Case:
    """Counts what is done, after a quarter to warm up."""

    def __init__(self, m, cores, work, operations):
        self.m, self.cores, self.work = m, cores, float(work)
        self.clients = min(COROUTINES_PER_CORE * cores, MOST_COROUTINES)
        self.warm_up, self.operations = operations // 3, operations
        self.count, self.latencies = -self.warm_up, []
        self.begun = self.transfers = self.rmws = 0

    def private_work(self):
        return self.work * self.m.random.uniform(0.9, 1.1)

    def done(self, asked):
        self.count += 1
        if self.count == 0:
            self.begun, self.transfers, self.rmws = self.m.now, self.m.transfers, self.m.rmws
            self.m.moves.clear()
        elif self.count > 0:
            self.latencies.append(self.m.now - asked)

    def is_over(self):
        return self.count >= self.operations

    def result(self):
        if self.count <= 0:
            return None
        n = self.count
        times = sorted(self.latencies) or [0.0]
        return {
            "ns": (self.m.now - self.begun) / n,
            "transfers": (self.m.transfers - self.transfers) / n,
            "rmws": (self.m.rmws - self.rmws) / n,
            "p50": times[len(times) // 2],
            "p99": times[len(times) * 99 // 100],
            "moves": {line: moved / n
                      for line, moved in self.m.moves.most_common(12)},
        }


def simulated(what):
    protocol, topology, cores, work, operations, seed = what
    m = machine.Machine(cores, TOPOLOGIES[topology], seed)
    case = Case(m, cores, work, operations)
    PROTOCOLS[protocol](m).start(case)
    m.run(case.is_over, MOST_EVENTS)
    return what, case.result()


def middle(of_seeds):
    """The median of each number; of what moved, the first seed's. None if any of them made no headway."""
    if None in of_seeds:
        return None
    numbers = {name: statistics.median(r[name] for r in of_seeds) for name in of_seeds[0] if name != "moves"}
    return {**numbers, "moves": of_seeds[0]["moves"]}


def operations_for(cores, most):
    return max(2 * min(COROUTINES_PER_CORE * cores, MOST_COROUTINES), min(most, 20_000 // cores))


def show(results, topology, protocols, cores, works, text):
    for work in works:
        print(f"\n{text}, W = {work} ns, {topology}")
        print(f"{'cores':18}" + "".join(f"{c:>12}" for c in cores))
        for p in protocols:
            cells = (results[(p, topology, c, work)] for c in cores)
            print(f"{p:18}" + "".join(f"{FORMATS[text](r) if r else '-':>12}" for r in cells))


def show_lines(results):
    for (protocol, topology, cores, work), r in results.items():
        moves = ", ".join(f"{line} {n:.2f}" for line, n in r["moves"].items()) if r else "-"
        print(f"\n{protocol}, {topology}, {cores} cores, W = {work}: {moves}")


FORMATS = {
    "ns per operation": lambda r: f"{r['ns']:.0f}",
    "transfers/rmws per operation": lambda r: f"{r['transfers']:.1f}/{r['rmws']:.1f}",
    "latency p50/p99 us": lambda r: f"{r['p50'] / 1e3:.3g}/{r['p99'] / 1e3:.3g}",
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--protocol", nargs="+", choices=PROTOCOLS, default=list(PROTOCOLS))
    parser.add_argument("--topology", nargs="+", choices=TOPOLOGIES, default=["sockets"])
    parser.add_argument("--cores", nargs="+", type=int, default=CORES)
    parser.add_argument("--work", nargs="+", type=int, default=WORK, metavar="NS")
    parser.add_argument("--seed", nargs="+", type=int, default=(1, 2, 3), metavar="N")
    parser.add_argument("--lines", action="store_true",
                        help="also which lines move how often per operation")
    parser.add_argument("--operations", type=int, default=6000, metavar="N",
                        help="after warming up, at most, but two for each coroutine (%(default)s)")
    return parser.parse_args()


def main():
    chosen = arguments()
    cases = [(p, t, c, w, operations_for(c, chosen.operations), seed)
             for c in sorted(chosen.cores, reverse=True) for t in chosen.topology
             for w in chosen.work for p in chosen.protocol for seed in chosen.seed]
    found = {}
    with multiprocessing.Pool() as pool:
        for what, r in pool.imap(simulated, cases):
            found.setdefault(what[:4], []).append(r)
    results = {what: middle(of_seeds) for what, of_seeds in found.items()}
    for topology in chosen.topology:
        for text in FORMATS:
            show(results, topology, chosen.protocol, chosen.cores, chosen.work, text)
    if chosen.lines:
        show_lines(results)


if __name__ == "__main__":
    main()
