#!/usr/bin/python3
"""Compares turnstile with the field: runs the benchmarks of a build in interleaved rounds, prints
tables and writes a report page, with the raw numbers as JSON beside it.

The questions, the letters and how a number may be quoted: README.md in this folder.
"""

import argparse
import datetime
import json
import os
import pathlib
import shlex
import sys
import time

sys.dont_write_bytecode = True  # the source tree stays as it is

from report import executables, machine, page, plots, terminal  # noqa: E402
from report.results import Results  # noqa: E402


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--build", required=True, type=pathlib.Path, metavar="DIR",
                        help="a Meson build folder, of a release build")
    parser.add_argument("--out", required=True, type=pathlib.Path, metavar="FILE",
                        help="the report page; the raw numbers go beside it, as .json")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help="how often each case is measured (7; 3 with --quick)")
    parser.add_argument("--quick", action="store_true",
                        help="three short rounds: enough to see that it works, not to quote")
    parser.add_argument("--filter", default=".", metavar="REGEX",
                        help="only the cases whose name matches, as counter/ or std_mutex")
    chosen = parser.parse_args()
    if chosen.rounds is None:
        chosen.rounds = 3 if chosen.quick else 7
    if chosen.rounds < 1:
        parser.error("--rounds wants a number above 0")
    chosen.round_ms = 7 if chosen.quick else 40
    return chosen


def context_of(chosen, found, missing):
    said = [exe.context(chosen.round_ms) for exe in found]
    together = lambda name: "; ".join(dict.fromkeys(s[name] for s in said if s.get(name)))
    left_out = [together("left_out"), *(f"{name} (not in this build)" for name in missing)]
    load = " ".join(f"{part:.2f}" for part in os.getloadavg())
    return {
        "machine": machine.summary(),
        "load before": load,
        "compiler": together("compiler"),
        "build": together("build"),
        "commit": machine.commit(pathlib.Path(__file__).resolve().parent),
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": shlex.join(sys.argv),
        "rounds": f"{chosen.rounds}, each case about {chosen.round_ms} ms, executables interleaved",
        "left out": "; ".join(part for part in left_out if part) or "nothing",
    }


def measure(chosen, found):
    """Each round runs every executable once, each time starting with another one."""
    results = Results()
    start = time.monotonic()
    for number in range(chosen.rounds):
        turn = number % len(found)
        for exe in found[turn:] + found[:turn]:
            results.add(exe.name, number, exe.round(chosen.round_ms, chosen.filter))
        passed = time.monotonic() - start
        left = passed / (number + 1) * (chosen.rounds - number - 1)
        print(f"round {number + 1} of {chosen.rounds}, {passed:.0f} s, about {left:.0f} s left",
              file=sys.stderr)
    return results


def main():
    chosen = arguments()
    found, missing = executables.find(chosen.build)
    if not found:
        sys.exit(f"{chosen.build} has no benchmark executables: build them with Meson first")
    chosen.out.parent.mkdir(parents=True, exist_ok=True)  # now, not after minutes of measuring
    context = context_of(chosen, found, missing)
    for name, value in context.items():
        print(f"{name + ':':<13} {value}")
    print(flush=True)
    if not plots.AVAILABLE:
        print("The page will have tables but no plots: they need python3-matplotlib.")
    others = machine.Others()
    results = measure(chosen, found)
    context["other programs"] = others.sentence()
    if not results.contenders():
        sys.exit(f"no case matches {chosen.filter}")
    terminal.print_all(results)
    print(f"\nOther programs {context['other programs']}.")
    page.write(chosen.out, context, results)
    raw = chosen.out.with_suffix(".json")
    raw.write_text(json.dumps({"context": context, "cases": results.raw()}, indent=1),
                   encoding="utf-8")
    print(f"\nreport: {chosen.out}\nnumbers: {raw}")


if __name__ == "__main__":
    try:
        main()
    except executables.Failed as failure:
        sys.exit(str(failure))
    except KeyboardInterrupt:
        sys.exit("interrupted: nothing was written")
