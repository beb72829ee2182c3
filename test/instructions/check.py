#!/usr/bin/env python3
"""Counts the instructions and the atomic read-modify-writes of an execute, on each way through a section.

    check.py PROGRAM COMPILER      the program is paths.cpp, the compiler a column of the table below

No clock is read, so a busy machine changes nothing: callgrind counts what runs N and 2 N times, and the
difference is what one takes. Fails where it is more than the table allows. Ends with 77, which Meson
shows as skipped, where that cannot be told.
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

# What is allowed: 5 % more instructions than were counted when this was written, and no read-modify-write
# more. A change that makes a way dearer says why, and changes the number here.
CEILINGS = {
    "kept":            {"gcc 12": (54, 0), "clang 19": (50, 0)},
    "kept, token":     {"gcc 12": (133, 0), "clang 19": (140, 0)},
    "not kept":        {"gcc 12": (68, 2), "clang 19": (67, 2)},
    "queued":          {"gcc 12": (890, 2.25), "clang 19": (942, 2.25)},
    "blocking, kept":  {"gcc 12": (62, 0), "clang 19": (70, 0)},
    "lock and unlock": {"gcc 12": (246, 2), "clang 19": (306, 2)},
}

Count = collections.namedtuple("Count", "instructions changes")


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
    found = re.findall(r"^ *([0-9a-f]+):\s+(?:lock |xchg .*\()", lines, re.MULTILINE)
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
    is_known = True
    failed = False
    print(f"{compiler:<18}{'instructions':>14}{'allowed':>9}{'read-modify-writes':>20}{'allowed':>9}")
    for path, allowed in CEILINGS.items():
        once, twice = run(program, path, N), run(program, path, 2 * N)
        each = Count(*((b - a) / N for a, b in zip(once, twice)))
        most = allowed.get(compiler)
        is_known = is_known and most is not None
        limits = Count(*most) if most else Count("-", "-")
        print(f"{path:<18}{each.instructions:>14.1f}{limits.instructions:>9}"
              f"{each.changes:>20.2f}{limits.changes:>9}")
        failed = failed or (most is not None and any(a > b + SLACK for a, b in zip(each, most)))
    if failed:
        sys.exit("An execute takes more than it is allowed to.")
    if not is_known:
        skip(f"Nobody has written down what is allowed with {compiler}.")


if __name__ == "__main__":
    main()
