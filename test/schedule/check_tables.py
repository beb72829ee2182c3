#!/usr/bin/python3
"""Checks what mutate.py and rules.py break, and README.md's tables of it, against the library as it is.

Nothing is compiled or run: that takes an hour, and this a second. Says what is wrong, a line for each, and ends
with 1 then.
"""

import collections
import functools
import pathlib
import re
import sys

sys.dont_write_bytecode = True  # the source tree stays as it is

from mutate import HERE, TOP, code_of  # noqa: E402
from rule_table import RULES  # noqa: E402
from rules import check_texts, cuts_of, is_statement, ways_of  # noqa: E402

OPENING = {")": "(", "]": "[", "}": "{"}
# What no expression begins with.
KEYWORDS = ("break", "case", "continue", "do", "else", "for", "if", "return", "switch", "while")


def without_comments(code):
    return re.sub(r"//.*", "", code)


def is_closed(code):
    """Whether each bracket has its other half."""
    still_open = []
    for c in without_comments(code):
        if c in OPENING.values():
            still_open.append(c)
        elif c in OPENING and (not still_open or still_open.pop() != OPENING[c]):
            return False
    return not still_open


def begins_with(code, words):
    return re.match(rf"\s*({'|'.join(words)})\b", code) is not None


def is_whole_statement(code):
    bare = without_comments(code).strip()
    return (not bare or bare.endswith((";", "}"))) and not begins_with(bare, ("else",))


def is_expression(code):
    bare = without_comments(code).strip()
    ends_in_comment = "//" in code.rpartition("\n")[2]
    return bool(bare) and not bare.endswith(";") and not begins_with(bare, KEYWORDS) and not ends_in_comment


def wrong_in(code, as_statement):
    """Why this cannot be compiled in its place, as far as it can be seen."""
    if not is_closed(code):
        return "has half of a pair of brackets"
    if as_statement:
        return "" if is_whole_statement(code) else "is no whole statement"
    return "" if is_expression(code) else "is no expression, and taken for one"


def check_ways():
    for file in sorted({r.file for r in RULES}):
        text = (TOP / file).read_text()
        for cut in cuts_of(text, [(n, r) for n, r in enumerate(RULES) if r.file == file]):
            whole = text[cut.begin : cut.end]
            for number, way in [(n, whole) for n, *_ in cut.ways] + ways_of(text, cut):
                if wrong := wrong_in(way, is_statement(whole)):
                    yield f"{file}: {RULES[number].what}: this {wrong}: {way!r}"


def table(name):
    """README.md's rows: where, and what was changed."""
    text = (HERE / "README.md").read_text()
    rows = text.split(f"<!-- {name} -->\n")[1].split(f"<!-- end of {name} -->")[0].splitlines()[2:]
    for row in rows:
        where, what = re.split(r" (?<!\\)\| ", row.removeprefix("| "))[:2]
        yield where.replace("\\|", "|"), what.replace("\\|", "|")


def check_rules_table():
    found = collections.Counter(table("rules"))
    wanted = collections.Counter((f"`{pathlib.Path(r.file).name}`", r.what) for r in RULES)
    for file, what in wanted - found:
        yield f"README.md has not the rule of {file}: {what}"
    for file, what in found - wanted:
        yield f"README.md has a rule of {file} that is none: {what}"


@functools.cache
def code_in(name):
    """Every line of the library's files of that name."""
    files = [f for part in ("include", "lib") for f in (TOP / part).rglob(name)]
    return {code_of(line) for f in files for line in f.read_text().splitlines()}


def check_orders_table():
    for where, change in table("orders"):
        place, code = where.removeprefix("`").removesuffix("`").split("` `")
        if code not in code_in(place.split(":")[0]):
            yield f"README.md weakens {change} in {place}, where there is no line {code}"


def main():
    check_texts(TOP)
    wrong = [*check_ways(), *check_rules_table(), *check_orders_table()]
    if wrong:
        sys.exit("\n".join(wrong) + "\nmutate.py --table and rules.py --table write the tables.")


if __name__ == "__main__":
    main()
