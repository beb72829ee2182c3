#!/usr/bin/env python3
"""Compiles what the library refuses, and requires that the compiler says why.

    check.py SOURCE -- COMPILER...

With REFUSED defined, SOURCE has to fail with the sentence behind "Refused" in its first comment; without, where all
else is the same, it has to compile. Warnings count, for a result that is dropped is one. REFUSED is 1; where the
comment has a line "Ways", any number up to that, and each has to fail.
"""

import argparse
import pathlib
import re
import subprocess
import sys

INCLUDE = pathlib.Path(__file__).resolve().parent.parent.parent / "include"


def compile_it(args, *defines):
    command = [*args.compiler, "-std=c++20", "-Werror", "-fsyntax-only", f"-I{INCLUDE}", *defines, args.source]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def promised_sentence(source):
    return re.search(r"^// Refused +(.*)$", source.read_text(), re.MULTILINE).group(1)


def ways(source):
    found = re.search(r"^// Ways +(\d+)$", source.read_text(), re.MULTILINE)
    return range(1, 1 + (int(found.group(1)) if found else 1))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("source", type=pathlib.Path)
    parser.add_argument("compiler", nargs="+", help="the command, after --")
    args = parser.parse_args()

    right = compile_it(args)
    if right.returncode != 0:
        sys.exit(f"What is right does not compile:\n{right.stderr}")
    sentence = promised_sentence(args.source)
    for way in ways(args.source):
        wrong = compile_it(args, f"-DREFUSED={way}")
        if wrong.returncode == 0:
            sys.exit(f"It is not refused, in way {way}.")
        if sentence not in wrong.stderr:
            sys.exit(f"It is refused, and not with the words {sentence!r}, in way {way}:\n{wrong.stderr}")


if __name__ == "__main__":
    main()
