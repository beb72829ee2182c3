#!/usr/bin/python3
"""Checks the models in this folder with spin: what must hold in every interleaving, and what must
fail once a rule is taken away. Ends with 1 if any run came out otherwise than expected.

The models, their rules and the numbers: README.md in this folder.
"""

import argparse
import dataclasses
import fnmatch
import pathlib
import re
import resource
import shutil
import subprocess
import sys
import tempfile

sys.dont_write_bytecode = True  # the source tree stays as it is

from runs import RUNS  # noqa: E402

FOLDER = pathlib.Path(__file__).resolve().parent
COMPILERS = (["gcc"], ["cc"], ["clang"], ["g++", "-x", "c"])
MEMORY_MIB = 5000
# A small search takes less time than optimizing it.
FLAGS = {"ci": ["-O0"], "long": ["-O2", "-DCOLLAPSE"]}
# The depth, and the hash table's size to begin with: clearing a large one takes its time.
LIMITS = {"ci": ["-m20000", "-w19"], "long": ["-m10000000", "-w24"]}


@dataclasses.dataclass
class Outcome:
    verdict: str  # holds, fails, or why there is none
    states: int = 0
    why: str = ""


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n", maxsplit=1)[0])
    parser.add_argument("--size", choices=("ci", "long"), default="ci",
                        help="long adds the runs that take minutes")
    parser.add_argument("--model", choices=tuple(RUNS), action="append", metavar="NAME",
                        help="only this one; may be given more than once")
    parser.add_argument("--compiler", metavar="COMMAND",
                        help="a C compiler; the default is the first of gcc, cc, clang, g++")
    return parser.parse_args()


def compiler(given):
    if given:
        return [given]
    for command in COMPILERS:
        if shutil.which(command[0]):
            return command
    sys.exit("no C compiler: looked for gcc, cc, clang and g++")


def limit_memory():
    most = (MEMORY_MIB + 500) << 20
    resource.setrlimit(resource.RLIMIT_AS, (most, most))


def output_of(command, folder):
    done = subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          text=True, errors="replace", preexec_fn=limit_memory, check=False)
    return done.returncode, done.stdout


def build(model, run, cc, folder):
    """What went wrong, or nothing."""
    defines = [f"-D{name}" for name in run.defines]
    commands = (
        ["spin", "-a", *defines, str(FOLDER / f"{model}.pml")],
        [*cc, *FLAGS[run.size], "-w", "-DSAFETY", f"-DMEMLIM={MEMORY_MIB}", "-o", "pan", "pan.c"],
    )
    for command in commands:
        status, said = output_of(command, folder)
        if status != 0 or "error:" in said.lower():
            return f"{command[0]}: {said.strip().splitlines()[0] if said.strip() else status}"
    return ""


def first(pattern, text):
    found = re.search(pattern, text, re.MULTILINE)
    return found.group(1) if found else ""


def judge(status, said):
    """The verdict on what pan printed. A search that was cut short proves nothing."""
    states = int(float(first(r"^\s*(\S+) states, stored", said) or 0))
    cut_short = first(r"(max search depth too small|reached -DMEMLIM|out of memory)", said)
    if cut_short:
        return Outcome("cut short", states, cut_short)
    errors = first(r"errors: (\d+)", said)
    if status != 0 or errors == "":
        return Outcome("broken", states, f"pan ended with {status}")
    if errors == "0":
        return Outcome("holds", states)
    return Outcome("fails", states, first(r"^pan:\d+: (.*?)(?: \(at depth \d+\))?$", said))


def check(model, run, cc):
    with tempfile.TemporaryDirectory() as folder:
        trouble = build(model, run, cc, folder)
        if trouble:
            return Outcome("not built", why=trouble)
        return judge(*output_of(["./pan", *LIMITS[run.size]], folder))


def report(model, run, outcome):
    wrong = "" if outcome.verdict == run.expected else f", expected: {run.expected}"
    why = f" ({outcome.why})" if outcome.why else ""
    print(f"{model:<12} {' '.join(run.defines):<42} {outcome.states:>10} "
          f"{outcome.verdict}{wrong}{why}", flush=True)


def unexplained():
    """The rules that are taken away, and of which the table does not say what breaks."""
    said = re.findall(r"`([A-Z_*]+)`", (FOLDER / "README.md").read_text(encoding="utf-8"))
    broken = {rule for runs in RUNS.values() for run in runs if run.expected == "fails"
              for rule in run.defines if rule.isupper() and "=" not in rule and len(rule) > 1}
    sizes = {rule for runs in RUNS.values() for run in runs if run.expected == "holds"
             for rule in run.defines}
    return sorted(rule for rule in broken - sizes
                  if not any(fnmatch.fnmatchcase(rule, pattern) for pattern in said))


def main():
    chosen = arguments()
    cc = compiler(chosen.compiler)
    missing = unexplained()
    if missing:
        sys.exit(f"README.md does not say what breaks without {', '.join(missing)}")
    wrong = 0
    for model in chosen.model or RUNS:
        for run in RUNS[model]:
            if run.size == "long" and chosen.size == "ci":
                continue
            outcome = check(model, run, cc)
            report(model, run, outcome)
            wrong += outcome.verdict != run.expected
    if wrong:
        sys.exit(f"{wrong} of the runs came out otherwise than expected")


if __name__ == "__main__":
    main()
