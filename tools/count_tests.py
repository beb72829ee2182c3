"""Counts the tests of a run: prints "PASSED FAILED SKIPPED" for Meson's testlog.json.

A log that is not there means that nothing ran: "0 0 0".
"""

import collections
import json
import sys

PASSED = {"OK", "EXPECTEDFAIL"}
SKIPPED = {"SKIP"}


def results(path):
    try:
        with open(path, encoding="utf-8") as log:
            return [json.loads(line)["result"] for line in log]
    except FileNotFoundError:
        return []


def verdict(result):
    if result in PASSED:
        return "passed"
    return "skipped" if result in SKIPPED else "failed"


count = collections.Counter(verdict(result) for result in results(sys.argv[1]))
print(count["passed"], count["failed"], count["skipped"])
