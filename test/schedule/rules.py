#!/usr/bin/python3
"""rules.py - breaks the protocols' rules one at a time and asks the checker whether it notices.

    rules.py                      every rule that is not a memory order (those: mutate.py)
      --seconds N                 for each scenario and strategy; 5 if not said
      --only TEXT                 rules whose file and words contain this
      --table                     write what was found into README.md

The tree is copied and built once, with every rule in it both ways; SCHEDULE_RULE=n breaks the n-th.
One line for each rule. Ends with 1 if one that has no reason in the table survives.
"""

import argparse
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from fnmatch import fnmatch

from mutate import (
    TOP,
    Mutation,
    NoReport,
    cells,
    check_unbroken,
    run,
    scenarios_of,
    without_places,
    write_table,
)
from rule_table import RULES

SWITCH = """#pragma once
#include <cstdlib>
namespace turnstile::detail {
inline const int broken_rule = [] {
  const char* const n = std::getenv("SCHEDULE_RULE");
  return n == nullptr ? -1 : std::atoi(n);
}();
}
"""


@dataclass
class Cut:
    """A piece of a file, and the rules in it with how each of them has it."""

    begin: int
    end: int
    ways: list


def check_texts(top):
    """The library goes on, and the table has to follow: all that has to be mended, in one go."""
    lost = [r for r in RULES if (top / r.file).read_text().count(r.old) != 1]
    for rule in lost:
        print(f"{rule.file}: {rule.what}: its text is not there exactly once")
    if lost:
        sys.exit(1)


def cut_of(text, number, rule):
    begin = text.index(rule.old)
    return Cut(begin, begin + len(rule.old), [(number, begin, begin + len(rule.old), rule.new)])


def cuts_of(text, rules):
    """Rules that overlap share a piece."""
    cuts = []
    for cut in sorted((cut_of(text, n, r) for n, r in rules), key=lambda c: c.begin):
        if cuts and cut.begin < cuts[-1].end:
            cuts[-1].end = max(cuts[-1].end, cut.end)
            cuts[-1].ways += cut.ways
        else:
            cuts.append(cut)
    return cuts


def is_statement(whole):
    """Else it is taken for an expression."""
    return whole.rstrip().endswith((";", "}"))


def ways_of(text, cut):
    """What becomes of the piece when a rule is broken, for each of its rules."""
    return [(n, text[cut.begin : b] + new + text[e : cut.end]) for n, b, e, new in cut.ways]


def both_ways(text, cut):
    """The piece as code that asks which rule is broken."""
    whole = text[cut.begin : cut.end]
    asked = "turnstile::detail::broken_rule =="
    ways = ways_of(text, cut)
    if is_statement(whole):
        broken = "".join(f"if ({asked} {n}) {{\n{way}\n}} else " for n, way in ways)
        return f"{{ {broken} {{\n{whole}\n}} }}"
    broken = "".join(f"{asked} {n} ? ({way}) : " for n, way in ways)
    return f"({broken} ({whole}))"


def with_switch(text, file):
    mark = "#pragma once\n" if file.endswith(".hpp") else "\n#include"
    include = '\n#include "broken_rule.hpp"\n'
    at = text.index(mark) + (len(mark) if file.endswith(".hpp") else 0)
    return text[:at] + include + text[at:]


def patch(top, file, rules):
    path = top / file
    text = path.read_text()
    for cut in reversed(cuts_of(text, rules)):
        text = text[: cut.begin] + both_ways(text, cut) + text[cut.end :]
    path.write_text(with_switch(text, file))


def copy_tree(to):
    """What the checker is built of, wherever the tree comes from: an archive has no list of its files."""
    for name in ("meson.build", "meson_options.txt"):
        shutil.copy2(TOP / name, to / name)
    for folder in ("include", "lib", "test"):
        shutil.copytree(TOP / folder, to / folder, ignore=shutil.ignore_patterns("__pycache__"))


def build(top):
    """Gives the program, from a copy of the tree with all rules in it."""
    copy_tree(top)
    check_texts(top)
    (top / "include/broken_rule.hpp").write_text(SWITCH)
    for file in sorted({r.file for r in RULES}):
        patch(top, file, [(n, r) for n, r in enumerate(RULES) if r.file == file])
    target = "test/schedule/test_schedule"
    setup = ["meson", "setup", "build", "-Dbench=disabled", "-Dsamples=false", "-Dall_rings=false",
             "-Dwerror=false"]
    for command in (setup, ["ninja", "-j1", "-C", "build", target]):
        done = subprocess.run(command, cwd=top, capture_output=True, text=True)
        if done.returncode != 0:
            sys.exit("".join(line for line in done.stdout.splitlines(True) if " error: " in line)[:5000] + done.stderr)
    return top / "build" / target


def mutation_of(number, rule, scenarios):
    first = [s for pattern in rule.scenarios for s in scenarios if fnmatch(s, pattern)]
    return Mutation(
        where=pathlib.Path(rule.file).name,
        code=rule.old,
        change=rule.what,
        environment={"SCHEDULE_RULE": str(number)},
        scenarios=list(dict.fromkeys(first)),
    )


@dataclass
class Found:
    rule: object
    mutation: Mutation
    by: str = ""
    trouble: str = ""  # why nothing is known

    @property
    def is_right(self):
        return bool(self.by or self.rule.reason and not self.trouble)

    def words(self):
        explained = f"survives: {self.rule.reason}" if self.rule.reason else "SURVIVES"
        return self.by or self.trouble or explained

    def tell(self):
        m = self.mutation
        print(f"{m.where:18} {m.change:58} {self.words()[:150]}", flush=True)

    def row(self):
        m = self.mutation
        caught = re.sub(r"<.*?>", "", without_places(self.by))
        by = caught or f"nothing: {self.rule.reason or 'not known'}"
        return cells(f"`{m.where}`", m.change, by)


def rounds_of(rule, scenarios, seconds):
    """Little time may do, so there is a short round before. Of a rule that is known to survive it
    is only asked, in the scenarios nearest to it, whether that is still so."""
    if rule.reason:
        return [("search", 1, scenarios[:3])]
    modes = (("search", 1), ("pct", 1), ("search", seconds), ("pct", seconds))
    return [(mode, time, scenarios) for mode, time in modes]


def try_rounds(program, rule, mutation, seconds):
    for mode, time, scenarios in rounds_of(rule, mutation.scenarios, seconds):
        for scenario in scenarios:
            environment = mutation.environment | {"SCHEDULE_MODE": mode}
            if report := run(program, scenario, environment, time):
                return Found(rule, mutation, f"{scenario}: {report}")
    return Found(rule, mutation)


def try_rule(program, rule, mutation, seconds):
    try:
        return try_rounds(program, rule, mutation, seconds)
    except NoReport as why:
        return Found(rule, mutation, trouble=str(why))


def check_names(scenarios):
    """A pattern that fits no scenario asks nobody."""
    patterns = {p for rule in RULES for p in rule.scenarios}
    if lost := [p for p in patterns if not any(fnmatch(s, p) for s in scenarios)]:
        sys.exit(f"no such scenarios: {sorted(lost)}")


def try_all(program, rules, seconds):
    scenarios = scenarios_of(program)
    check_names(scenarios)
    check_unbroken(program, scenarios)
    found = []
    with ThreadPoolExecutor(max_workers=len(os.sched_getaffinity(0))) as workers:
        ask = lambda nr: try_rule(program, nr[1], mutation_of(*nr, scenarios), seconds)
        for one in workers.map(ask, rules):
            one.tell()
            found.append(one)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=int, default=5)
    parser.add_argument("--only", default="")
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    if chosen.table and chosen.only:
        parser.error("--table needs all rules")
    rules = [(n, r) for n, r in enumerate(RULES) if chosen.only in f"{r.file} {r.what}"]
    if not rules:
        parser.error(f"none of {len(RULES)} rules contains {chosen.only!r}")
    with tempfile.TemporaryDirectory() as top:
        found = try_all(build(pathlib.Path(top)), rules, chosen.seconds)
    if chosen.table:
        write_table("rules", "rule broken", (f.row() for f in found))
    lost = [f for f in found if not f.is_right]
    caught = sum(bool(f.by) for f in found)
    explained = len(found) - caught - len(lost)
    print(f"{len(found)} rules, {caught} caught, {explained} explained, {len(lost)} unexplained")
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
