#!/usr/bin/python3
"""mutate.py - weakens one memory order of the library at a time; the checker has to notice.

    mutate.py PROGRAM         each order that a scenario of test_schedule (PROGRAM) uses
      --seconds N             for each scenario and strategy; 2 if not said
      --only TEXT             mutations whose line contains this
      --table                 write what was found into README.md

One line for each mutation. Ends with 1 if one survives that survivors.py does not explain, if what is
explained there is none of them, or if a scenario fails with nothing weakened.
"""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import survivors

HERE = pathlib.Path(__file__).resolve().parent
TOP = HERE.parent.parent

# What each order can be weakened to, by what it is given to: a load, a store, a change.
WEAKER = {
    "L": {"seq_cst": ["acquire"], "acquire": ["relaxed"]},
    "S": {"seq_cst": ["release"], "release": ["relaxed"]},
    "C": {
        "seq_cst": ["acq_rel"],
        "acq_rel": ["acquire", "release"],
        "acquire": ["relaxed"],
        "release": ["relaxed"],
    },
}


@dataclass
class Mutation:
    where: str  # file:line
    code: str
    change: str
    environment: dict
    scenarios: list


@dataclass
class Outcome:
    mutation: Mutation
    scenario: str = ""
    report: str = ""
    trouble: str = ""  # why nothing is known

    @property
    def caught(self):
        return bool(self.report)

    @property
    def is_right(self):
        return self.caught or not self.trouble and bool(explained(self.mutation))


class NoReport(Exception):
    """A run that failed without a report of the checker: it has noticed nothing."""


def run(program, scenario, environment, seconds):
    """Runs one scenario; gives the report's first line, empty if there was none."""
    name = scenario.replace(",", "\\,")
    limits = {"SCHEDULE_SECONDS": str(seconds), "TEST_DEADLINE_SECONDS": str(20 * seconds + 60)}
    done = subprocess.run(
        [program, f"--test-case={name}"],
        env=os.environ | limits | environment,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if done.returncode == 0 and " executions, " in done.stdout:
        return ""
    found = re.search(r"^FAILED: (.*)$", done.stdout, re.MULTILINE)
    if done.returncode == 0 or not found:
        raise NoReport(f"status {done.returncode}, and no report")
    return found.group(1)


def scenarios_of(program):
    listed = subprocess.run(
        [program, "--list-test-cases", "--test-suite-exclude=the checker"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    scenarios = [line for line in listed.splitlines() if re.match(r"[a-z_ ]+: ", line)]
    return scenarios or sys.exit(f"{program} has no scenarios")


def require_holds(program, scenario, environment, seconds):
    """What fails as it is would seem to notice everything."""
    try:
        report = run(program, scenario, environment, seconds)
    except NoReport as why:
        report = str(why)
    if report:
        sys.exit(f"with nothing broken, {scenario}: {report}")


def check_unbroken(program, scenarios):
    """By chance; that no search fails is a test."""
    for mode in ("pct", "random"):
        little = {"SCHEDULE_MODE": mode, "SCHEDULE_EXECUTIONS": "2000"}
        for scenario in scenarios:
            require_holds(program, scenario, little, 1)


def sites_of(program, scenario):
    """The orders that one scenario uses, and how long it took to find them."""
    begun = time.monotonic()
    with tempfile.NamedTemporaryFile("r") as sites:
        require_holds(program, scenario, {"SCHEDULE_SITES": sites.name}, 2)
        told = sites.read().splitlines()
    if not told:
        sys.exit(f"{scenario} does not tell which orders it uses")
    return scenario, {line for line in told if "test/" not in line}, time.monotonic() - begun


def code_of(line):
    return line.split("//")[0].strip()


def source_line(path, line):
    return code_of((TOP / path).read_text().splitlines()[int(line) - 1])


def order_mutations(program, scenarios):
    used = {}
    for scenario, sites, taken in map(lambda s: sites_of(program, s), scenarios):
        for site in sites:
            used.setdefault(site, []).append((taken, scenario))
    for site in sorted(used):
        place, by, order = site.split()
        path, line, column, which = place.rsplit(":", 3)
        path = path[max(path.find("include/"), path.find("lib/")) :]
        for weaker in WEAKER[by].get(order, []):
            yield Mutation(
                where=f"{pathlib.Path(path).name}:{line}",
                code=source_line(path, line),
                change=f"{order} to {weaker}" + (" on failure" if which == "1" else ""),
                environment={
                    "SCHEDULE_WEAKEN": f"{pathlib.Path(path).name}:{line}:{column}:{which}={weaker}"
                },
                scenarios=[s for _, s in sorted(used[site])],
            )


def try_modes(program, mutation, seconds):
    """The search first, then chance; each scenario gets its turn before any gets more time."""
    for mode in ("search", "pct", "random"):
        for scenario in mutation.scenarios:
            environment = mutation.environment | {"SCHEDULE_MODE": mode}
            if report := run(program, scenario, environment, seconds):
                return Outcome(mutation, scenario, report)
    return Outcome(mutation)


def try_all(program, mutation, seconds):
    try:
        return try_modes(program, mutation, seconds)
    except NoReport as why:
        return Outcome(mutation, trouble=str(why))


def is_about(entry, mutation):
    where, code, change, _ = entry
    return mutation.where.startswith(where) and code in mutation.code and change in mutation.change


def explained(mutation):
    return next((entry[-1] for entry in survivors.EXPLAINED if is_about(entry, mutation)), "")


def check_explanations(mutations):
    """The library goes on, and the table of survivors has to follow."""
    lost = [e for e in survivors.EXPLAINED if not any(is_about(e, m) for m in mutations)]
    if lost:
        sys.exit("\n".join(f"{e[0]}: {e[1]}: {e[2]}: no mutation is explained by this" for e in lost))


def tell(outcome):
    m = outcome.mutation
    verdict = f"{outcome.scenario}: {outcome.report}" if outcome.caught else outcome.trouble or "SURVIVES"
    if outcome.is_right and not outcome.caught:
        verdict = f"survives: {explained(m)}"
    print(f"{m.where:24} {m.change:24} {verdict[:120]}", flush=True)


def cells(*texts):
    return "| " + " | ".join(text.replace("|", "\\|") for text in texts) + " |"


def without_places(text):
    """What happened, not at which lines: those move."""
    return re.sub(r" at \S+:\d+.*", "", text)


def row(outcome):
    m = outcome.mutation
    by = f"{outcome.scenario}: {outcome.report}" if outcome.caught else f"nothing: {explained(m)}"
    return cells(f"`{m.where}` `{m.code}`", m.change, without_places(by))


def write_table(name, what, rows):
    readme = HERE / "README.md"
    begin, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    head, rest = readme.read_text().split(begin)
    table = [f"| where | {what} | caught by |", "|---|---|---|", *rows]
    readme.write_text(head + begin + "\n".join(table) + "\n" + end + rest.split(end)[1])


def mutations_of(program, only):
    """Those that contain `only`, of a program that holds as it is and an up-to-date table of survivors."""
    scenarios = scenarios_of(program)
    check_unbroken(program, scenarios)
    mutations = list(order_mutations(program, scenarios))
    check_explanations(mutations)
    chosen = [m for m in mutations if only in f"{m.where} {m.change}"]
    return chosen or sys.exit(f"none of {len(mutations)} mutations contains {only!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", type=pathlib.Path)
    parser.add_argument("--seconds", type=int, default=2)
    parser.add_argument("--only", default="")
    parser.add_argument("--table", action="store_true")
    chosen = parser.parse_args()
    program = chosen.program.resolve()
    mutations = mutations_of(program, chosen.only)
    outcomes = []
    with ThreadPoolExecutor(max_workers=os.cpu_count()) as workers:
        for outcome in workers.map(lambda m: try_all(program, m, chosen.seconds), mutations):
            tell(outcome)
            outcomes.append(outcome)
    if chosen.table:
        write_table("orders", "mutation", map(row, outcomes))
    lost = [o for o in outcomes if not o.is_right]
    caught = sum(o.caught for o in outcomes)
    print(f"{len(outcomes)} mutations, {caught} caught, {len(lost)} unexplained")
    sys.exit(bool(lost))


if __name__ == "__main__":
    main()
