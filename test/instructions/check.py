#!/usr/bin/env python3
"""Counts the instructions and the atomic read-modify-writes of an execute, on each way through a section.

    check.py PROGRAM COMPILER      the program is paths.cpp, the compiler a column of the table

The table is that of bench/README.md. No clock is read, so a busy machine changes nothing: callgrind counts
what runs N and 2 N times, and the difference is what one takes. Fails where it is 5 % more than the table
says, or less, or one more read-modify-write. Ends with 77, which Meson shows as skipped, where that cannot be told.
"""

import collections
import functools
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile

SKIPPED = 77
N = 6400
SLACK = 0.01  # starting is not quite the same each time

# The table of what was counted. An execute that takes more than that says why, and changes the table there.
TABLE = pathlib.Path(__file__).resolve().parents[2] / "bench" / "README.md"
HEADER = "| instructions of an execute |"
TOLERANCE = 0.05  # above: too dear; below: the table is old

Count = collections.namedtuple("Count", "instructions changes")


def documented(compiler):
    """By way: what one takes, or None if there is no column for the compiler."""
    lines = iter(TABLE.read_text(encoding="utf-8").splitlines())
    header = next(line for line in lines if line.startswith(HEADER))
    names, said = _cells(header), {}
    for line in lines:
        if not line.startswith("|"):
            break
        way, *numbers = _cells(line)
        row = dict(zip(names[1:], numbers))
        if not way.startswith("-"):
            known = compiler in row
            said[way] = Count(float(row[compiler]), float(row["read-modify-writes"])) if known else None
    return said


def _cells(row):
    return [cell.strip() for cell in row.strip("|").split("|")]


def skip(sentence):
    print(sentence)
    sys.exit(SKIPPED)


@functools.cache
def changes_in(binary):
    """The addresses of a binary's atomic read-modify-writes."""
    if not pathlib.Path(binary).is_file():
        return frozenset()  # what the kernel or valgrind adds
    lines = subprocess.run(["objdump", "--disassemble", "--no-show-raw-insn", binary], check=True,
                           capture_output=True, text=True).stdout
    found = re.findall(r"^ *([0-9a-f]+):\s+(?:(?:cs )*lock |xchg .*\()", lines, re.MULTILINE)
    return frozenset(int(address, 16) for address in found)


def read_profile(lines):
    """Of callgrind's format: what ran where, without what a call took inside."""
    names = {}
    binary, address, is_call = "", 0, False
    instructions = changes = 0
    for line in lines:
        if line.startswith("ob="):
            number, _, name = line[3:].strip().partition(" ")
            binary = names.setdefault(number, name)
        elif line.startswith("cob="):
            number, _, name = line[4:].strip().partition(" ")
            names.setdefault(number, name)
        elif line.startswith("calls="):
            is_call = True
        elif re.match(r"0x|[+*-]", line):
            at, _, times = line.split()
            if at.startswith("0x"):
                address = int(at, 16)
            elif at != "*":
                address += int(at)
            if not is_call:
                instructions += int(times)
                if address in changes_in(binary):
                    changes += int(times)
            is_call = False
    return Count(instructions, changes)


def run(program, path, n):
    with tempfile.TemporaryDirectory() as work:
        profile = pathlib.Path(work) / "profile"
        ran = subprocess.run(["valgrind", "--tool=callgrind", "--dump-instr=yes", "--quiet",
                              f"--callgrind-out-file={profile}", program, path, str(n)], check=False)
        if ran.returncode == SKIPPED:
            skip("No section is ever kept on this machine, which has no cheap fence (membarrier).")
        ran.check_returncode()
        with open(profile, encoding="utf-8") as lines:
            return read_profile(lines)


def main():
    program, compiler = sys.argv[1:]
    for tool in ("valgrind", "objdump"):
        if shutil.which(tool) is None:
            skip(f"{tool} is not here; without it there is no count of instructions.")
    wrong = []
    said = documented(compiler)
    print(f"{compiler:<18}{'instructions':>14}{'said':>9}{'read-modify-writes':>20}{'said':>9}")
    for path, known in said.items():
        once, twice = run(program, path, N), run(program, path, 2 * N)
        each = Count(*((b - a) / N for a, b in zip(once, twice)))
        print(f"{path:<18}{each.instructions:>14.1f}{known.instructions if known else '-':>9}"
              f"{each.changes:>20.2f}{known.changes if known else '-':>9}")
        if known and not is_as_said(each, known):
            wrong.append(path)
    if wrong:
        sys.exit(f"Not what {TABLE.name} says, give or take {TOLERANCE:.0%}: {', '.join(wrong)}.")
    if None in said.values():
        skip(f"Nobody has written down what an execute takes with {compiler}.")


def is_as_said(each, known):
    apart = abs(each.instructions - known.instructions)
    return apart <= TOLERANCE * known.instructions and each.changes <= known.changes + SLACK


if __name__ == "__main__":
    main()
