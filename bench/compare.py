#!/usr/bin/python3
"""Compares turnstile with the field, or one build of it with another: runs the benchmarks in
interleaved rounds, prints tables, and writes a report page and the numbers.

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

from report import builds, executables, machine, page, plots, terminal, tsv  # noqa: E402
from report.before_after import Comparison  # noqa: E402
from report.results import Results  # noqa: E402


FIELD = "bench_field"  # the executable of others' locks, some of which run on our pool
ROUNDS_TO_SHARES = 3  # how even the shares are takes eight times as long as all else: in every third round


def arguments():
    parser = argparse.ArgumentParser(allow_abbrev=False, description=__doc__.split("\n\n", maxsplit=1)[0])
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--build", type=pathlib.Path, metavar="DIR",
                       help="a Meson build folder, of a release build")
    which.add_argument("--from", type=pathlib.Path, metavar="FILE", dest="earlier",
                       help="measure nothing: show the numbers of an earlier run, its --json")
    parser.add_argument("--before", type=pathlib.Path, metavar="DIR",
                        help="another build folder, that of --build is compared with: the two are run "
                             "in turn, and the cases of ours are compared round by round")
    parser.add_argument("--out", type=pathlib.Path, metavar="FILE", help="the report page, as HTML")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE",
                        help="every round of every case (beside the page, as .json)")
    parser.add_argument("--tsv", type=pathlib.Path, metavar="FILE",
                        help="a row for each number of each case: median, range, ratios, answer")
    parser.add_argument("--rounds", type=int, metavar="N",
                        help="how often each case is measured (9, 3 with --quick; with --before 16, "
                             "6 with --quick)")
    parser.add_argument("--quick", action="store_true",
                        help="few and short rounds: enough to see that it works, not to quote")
    parser.add_argument("--filter", default=".", metavar="REGEX",
                        help="only the cases whose name matches, as counter/ or std_mutex")
    chosen = parser.parse_args()
    if chosen.before and chosen.earlier:
        parser.error("--before wants --build")
    if chosen.json and chosen.earlier:
        parser.error("--json wants --build")
    if chosen.rounds is None:
        usual, quick = (16, 6) if chosen.before else (9, 3)
        chosen.rounds = quick if chosen.quick else usual
    if chosen.rounds < 1:
        parser.error("--rounds wants a number above 0")
    chosen.round_ms = 7 if chosen.quick else 40
    if chosen.out and not chosen.json and not chosen.earlier:
        chosen.json = chosen.out.with_suffix(".json")
    return chosen


def context_of(chosen, of_builds):
    """What a reader of the numbers must know."""
    load = " ".join(f"{part:.2f}" for part in os.getloadavg())
    return {
        "machine": machine.summary(),
        "load before": load,
        **of_builds,
        "date": datetime.datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": shlex.join(map(machine.from_the_tree, sys.argv)),
        "rounds": f"{chosen.rounds}, each case about {chosen.round_ms} ms, "
                  f"{'builds and ' if chosen.before else ''}executables interleaved"
                  f"{_not_enough(chosen)}",
    }


def _not_enough(chosen):
    if chosen.quick:
        return ", quick: not to be quoted"
    return ", fewer than 9: not to be quoted" if chosen.rounds < 9 else ""


def how_to_repeat(chosen, commit):
    """A line of the context, or none if there is no commit to go back to."""
    if commit == machine.NO_COMMIT:
        return {}
    compiler = builds.compiler(chosen.build)
    options = [*(["--compiler", compiler] if compiler else []), *builds.options(chosen.build),
               "--rounds", str(chosen.rounds),
               *(["--quick"] if chosen.quick else []), *(["--filter", chosen.filter] if chosen.filter != "." else [])]
    return {"to repeat": f"git checkout {commit} && tools/bench {shlex.join(options)}"}


def context_of_one(chosen, found, missing):
    said = builds.describe(chosen.build, found)
    left_out = [said["left out"], *(f"{name} (not in this build)" for name in missing)]
    said["left out"] = "; ".join(part for part in left_out if part) or "nothing"
    return {**context_of(chosen, said), **how_to_repeat(chosen, said["commit"].split(",")[0])}


def context_of_two(chosen, before, after, left_out):
    return context_of(chosen, {"before": builds.sentence(chosen.before, before),
                               "after": builds.sentence(chosen.build, after),
                               "left out": "; ".join(left_out)})


def show_context(context):
    for name, value in context.items():
        print(f"{name + ':':<13} {value}")
    print(flush=True)


def in_rounds(chosen, measure_round, keep):
    """Calls both for each round and says how long the rest will take."""
    start = time.monotonic()
    for number in range(chosen.rounds):
        measure_round(number)
        keep()
        passed = time.monotonic() - start
        left = passed / (number + 1) * (chosen.rounds - number - 1)
        print(f"round {number + 1} of {chosen.rounds}, {passed:.0f} s, about {left:.0f} s left",
              file=sys.stderr)


def measure(chosen, found, results, keep):
    """Each round runs every executable once, each time starting with another one."""
    step = builds.step(found)

    def measure_round(number):
        turn = number % len(found)
        for exe in found[turn:] + found[:turn]:
            report = exe.round(chosen.round_ms, chosen.filter, step, number % ROUNDS_TO_SHARES == 0)
            results.add(exe.name, number, report)

    in_rounds(chosen, measure_round, keep)


def measure_two(chosen, pairs, both, keep):
    """Each round runs each executable of the one build and of the other, next to each other, and the
    next round the other way round."""
    step = builds.step([exe for pair in pairs for exe in pair])

    def measure_round(number):
        for pair in pairs:
            for which in (0, 1) if number % 2 == 0 else (1, 0):
                both[which].add(pair[which].name, number,
                                pair[which].round(chosen.round_ms, chosen.filter, step, False))

    in_rounds(chosen, measure_round, keep)


def executables_of(build):
    found, missing = executables.find(build)
    if not found:
        sys.exit(f"{build} has no benchmark executables: build them with Meson first")
    return found, missing


def in_both(before, after):
    """Pairs of executables of one name, and which are left out, and why."""
    old, new = ({exe.name: exe for exe in found} for found in (before, after))
    why = {FIELD: "locks of others", **{name: "only before" for name in old if name not in new},
           **{name: "only after" for name in new if name not in old}}
    return ([(old[name], new[name]) for name in new if name not in why],
            [f"{name} ({reason})" for name, reason in why.items()])


def say_of_the_machine(context):
    print(f"\nOther programs {context['other programs']}.")
    if "a cache line" in context:  # not in what was written before that was measured
        print(f"A cache line went {context['a cache line']}.")


def show(chosen, context, results):
    if not results.contenders():
        sys.exit(f"no case matches {chosen.filter}")
    terminal.print_all(results)
    say_of_the_machine(context)
    if chosen.out:
        page.write(chosen.out, context, results)
    if chosen.tsv:
        tsv.write(chosen.tsv, results)


def show_two(chosen, context, before, after):
    comparison = Comparison(before, after)
    if not comparison.ours and not comparison.controls:
        sys.exit(f"no case that matches {chosen.filter} is in both builds")
    terminal.print_before_after(comparison)
    say_of_the_machine(context)
    if chosen.out:
        page.write_before_after(chosen.out, context, comparison)
    if chosen.tsv:
        tsv.write_before_after(chosen.tsv, comparison)


def keeper(chosen, context, found, numbers):
    """Saves what has been measured so far, whole or not at all, with what the machine did meanwhile."""
    others = machine.Others()

    def keep():
        others.end_round()
        context["other programs"] = others.sentence()
        context["a cache line"] = machine.lines_sentence([ns for exe in found for ns in exe.round_trips])
        if chosen.json:
            part = chosen.json.with_name(f"{chosen.json.name}.part")
            said = {"context": context, **{name: results.raw() for name, results in numbers.items()}}
            part.write_text(json.dumps(said, indent=1), encoding="utf-8")
            part.replace(chosen.json)

    return keep


def compare_with_field(chosen):
    found, missing = executables_of(chosen.build)
    context = context_of_one(chosen, found, missing)
    show_context(context)
    results = Results()
    measure(chosen, found, results, keeper(chosen, context, found, {"cases": results}))
    show(chosen, context, results)


def compare_builds(chosen):
    pairs, left_out = in_both(executables_of(chosen.before)[0], executables_of(chosen.build)[0])
    if not pairs:
        sys.exit(f"the two builds have nothing to compare: {'; '.join(left_out)}")
    context = context_of_two(chosen, *map(list, zip(*pairs)), left_out)
    show_context(context)
    before, after = Results(), Results()
    keep = keeper(chosen, context, [exe for pair in pairs for exe in pair], {"cases": after, "before": before})
    measure_two(chosen, pairs, (before, after), keep)
    show_two(chosen, context, before, after)


def show_earlier(chosen):
    try:
        said = json.loads(chosen.earlier.read_text(encoding="utf-8"))
        context, after = said["context"], Results.of_raw(said["cases"])
        before = Results.of_raw(said["before"]) if "before" in said else None
    except (OSError, ValueError, KeyError, TypeError) as error:
        sys.exit(f"{chosen.earlier} does not hold the numbers of a run: {error}")
    show_context(context)
    if before:
        show_two(chosen, context, before, after)
    else:
        show(chosen, context, after)


def main():
    chosen = arguments()
    written = [path for path in (chosen.out, chosen.json, chosen.tsv) if path]
    for path in written:
        path.parent.mkdir(parents=True, exist_ok=True)  # now, not after minutes of measuring
    if chosen.out and not plots.AVAILABLE:
        print("The page will have tables but no plots: they need python3-matplotlib.")
    if chosen.earlier:
        show_earlier(chosen)
    elif chosen.before:
        compare_builds(chosen)
    else:
        compare_with_field(chosen)
    for path in written:
        print(f"written: {path}")


if __name__ == "__main__":
    try:
        main()
    except executables.Failed as failure:
        sys.exit(str(failure))
    except KeyboardInterrupt:
        sys.exit("interrupted: of what was asked for, the --json alone has the rounds that were whole")
