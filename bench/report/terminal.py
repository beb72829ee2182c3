"""The tables on the terminal."""

from . import field, goals, grid
from .questions import VIEWS

LEGEND = """\
Each cell: the median of the rounds, half of the range from the lowest to the highest;
m = times std::mutex, L = times the physical limit max(inside, (inside + outside) / cores)."""


def print_all(results):
    print(f"\n{LEGEND}")
    for view in VIEWS:
        shown = grid.of(view, results)
        if shown.cases:
            _print_view(view, shown, results)
    _print_goals(results)
    _print_field(results)


LEGEND_BEFORE_AFTER = """\
Medians before and after, the median of the ratios after / before of each round, and an interval
for it by order statistics, of 95 % or more."""


def print_before_after(comparison):
    print(f"\n{LEGEND_BEFORE_AFTER}")
    for question, differences in comparison.questions().items():
        _print_differences(comparison, question, differences)
    controls = [d for d in comparison.controls if d.ratio.differs()]
    if controls:
        _print_differences(comparison, "Controls that differ", controls)
    print()
    for sentence in comparison.summary():
        print(sentence)
    for d in comparison.differing():
        print(f"  {d.ratio.median:.3f}  {d.case.question}/{comparison.label(d)}: {d.verdict_among_all()}")


def _print_differences(comparison, title, differences):
    print(f"\n{title}")
    _print_columns([["", "before", "after", "ratio", "interval", "p", "verdict"],
                    *([comparison.label(d), *_difference(d)] for d in differences)])


def _difference(d):
    return [f"{d.before.median:,.1f}", f"{d.after.median:,.1f}", f"{d.ratio.median:.3f}",
            f"{d.ratio.low:.3f} to {d.ratio.high:.3f}", f"{d.ratio.p:.2g}", d.verdict_among_all()]


def _print_view(view, shown, results):
    print(f"\n{view.title}: {view.says}")
    names = " / ".join(mark.name for mark in view.marks if mark.name)
    print(f"({view.unit}{': ' + names if names else ''})")
    rows = [["", *shown.panels]]
    for row in shown.rows:
        cases = [shown.cases.get((row, panel)) for panel in shown.panels]
        rows.append([grid.label(row), *(_cell(view, results, case) for case in cases)])
    _print_columns(rows)


def _cell(view, results, case):
    if case is None:
        return "-"
    ranges = [results.range(case, mark.counter) for mark in view.marks]
    text = " / ".join(f"{r.median:,.{view.places}f}" for r in ranges)
    if len(ranges) == 1:
        spread = (ranges[0].high - ranges[0].low) / 2 / (ranges[0].median or 1)
        text += f" ±{spread:.0%}"
    for name, ratio in grid.ratios(view, results, case):
        unit = {"mutex": "m", "limit": "L"}.get(name, f" x {name}")
        text += f" {grid.short(ratio.median)}{unit}"
    return text


def _print_goals(results):
    header, rows = goals.table(results)
    if rows:
        print("\nGoals")
        _print_columns([header, *rows])


def _print_field(results):
    standings = field.standings(results)
    if not standings:
        return
    print(f"\n{field.summary(standings)}")
    found = field.leads(standings)
    if found:
        _print_columns([field.HEADER, *(lead.row() for lead in found)])


def _print_columns(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        print("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())
