#!/usr/bin/python3
"""targets_of_tests.py - what has to be built before the tests of some suites can run.

    targets_of_tests.py DIR SUITE...

Meson 1.0 builds everything when it runs a part of the tests. Prints one file a line, as ninja calls it; fails where
there is no such test.
"""

import json
import os
import subprocess
import sys


def introspect(build, what):
    command = ["meson", "introspect", build, "--" + what]
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def main():
    build, *suites = sys.argv[1:]
    tests = [test for test in introspect(build, "tests")
             if any(s.split(":")[-1] in suites for s in test["suite"])]
    if not tests:
        sys.exit(f"no test of this build is in: {' '.join(suites)}")
    needed = {target for test in tests for target in test["depends"]}
    for target in introspect(build, "targets"):
        if target["id"] in needed:
            for file in target["filename"]:
                print(os.path.relpath(file, build))


if __name__ == "__main__":
    main()
