#!/usr/bin/env python3
"""Runs a sample and compares what it prints with the "Prints" lines of its own header comment.

The comment is the only copy of the expected output, so it cannot drift from the program.

usage: check_output.py PROGRAM SOURCE
"""

import difflib
import subprocess
import sys

LABEL = "// Prints     "
CONTINUED = "//            "


def promised_lines(source):
    """The text after `// Prints` and of the comment lines that continue it."""
    lines = []
    with open(source, encoding="utf-8") as text:
        for line in text:
            prefix = CONTINUED if lines else LABEL
            if line.startswith(prefix):
                lines.append(line[len(prefix):].rstrip("\n"))
            elif lines:
                break
    return lines


def main(program, source):
    promised = promised_lines(source)
    if not promised:
        sys.exit(f"{source} does not say what it prints")
    run = subprocess.run([program], stdout=subprocess.PIPE, text=True, check=False)
    if run.returncode != 0:
        sys.exit(f"{program} ended with status {run.returncode}")
    printed = run.stdout.splitlines()
    if printed != promised:
        changes = difflib.unified_diff(promised, printed, "promised", "printed", lineterm="")
        sys.exit("\n".join(changes))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
