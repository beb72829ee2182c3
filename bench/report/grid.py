"""A view as rows and columns: what the terminal, the plots and the page have in common."""

import dataclasses

from .results import REFERENCE, is_ours, ring_of, way_of


@dataclasses.dataclass(frozen=True)
class Grid:
    panels: list  # the titles of the columns, at least one
    rows: list  # pairs (contender, letters)
    cases: dict  # (row, panel) -> case


def of(view, results):
    cases = {(_row(view, results, case), _panel(view, results, case)): case
             for case in results.cases(view.question) if _belongs(view, results, case)}
    rows = sorted({row for row, _ in cases}, key=_row_order)
    panels = sorted({panel for _, panel in cases}, key=_numbers_first)
    return Grid(panels, rows, cases)


def label(row):
    return " ".join(part for part in row if part)


def ratios(view, results, case):
    """What the case is compared with: the contender's name, or limit, and the range of the ratio."""
    mutex = None if results.is_less_contended(case) else results.against_mutex(case)
    found = [("mutex", mutex), ("limit", results.against_limit(case))]
    if case.contender not in (*view.beside, REFERENCE):
        found += [(other, results.against(case, other)) for other in view.beside]
    return [(name, ratio) for name, ratio in found if view.ratios and ratio]


def short(ratio):
    """Three figures or so: 0.29, 12.6, 314."""
    return f"{ratio:.{2 if ratio < 10 else 1 if ratio < 100 else 0}f}"


def _belongs(view, results, case):
    return (results.range(case, view.marks[0].counter) is not None
            and all(case.letter(letter) in allowed for letter, allowed in view.only)
            and (not view.ways or way_of(case.contender) in view.ways)
            and (not view.plain or results.range(case, "clients_are_threads").median == 1))


def _panel(view, results, case):
    return ", ".join(_panel_title(results, case, letter) for letter in view.panels)


def _panel_title(results, case, letter):
    if letter != "against":
        return f"{letter}={case.letter(letter)}"
    threads = int(results.range(case, "against").median)
    return f"{threads} threads, or 64 coroutines on {8 if threads == 8 else 2}"


def _row(view, results, case):
    plain = results.range(case, "clients_are_threads").median == 1
    letters = []
    for letter in view.rows:
        if letter == "N" and plain:
            letters.append("N=T")
        elif case.letter(letter) and (letter != "T" or plain):
            letters.append(f"{letter}={case.letter(letter)}")
    return case.contender, " ".join(letters)


def _row_order(row):
    contender, letters = row
    return (is_ours(contender), contender != REFERENCE, ring_of(contender), contender,
            _numbers_first(letters))


def _numbers_first(text):
    """Sorts N=64 before N=1024."""
    digits = "".join(c if c.isdigit() else " " for c in text).split()
    return [int(d) for d in digits], text
