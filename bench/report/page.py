"""The report page: one file that needs nothing beside it, and no network."""

import html
import pathlib

from . import goals, grid, plots
from .questions import VIEWS
from .results import RINGS

STYLE = pathlib.Path(__file__).with_name("style.css")

READING = (
    "Each number is the median of the rounds, with the range from the lowest to the highest below "
    "it. “× mutex” compares with std::mutex in the same process and the same round, “× limit” with "
    "what the hardware allows at best: max(inside, (inside + outside) / cores), where inside and "
    "outside are timed alone, in the same run. T threads, N clients, S sections, B body, W private "
    "work, C choice of the section, K capacity of a buffer. Ratios carry over to other machines "
    "better than times; two cores say nothing about what many cores do to a cache line.")


def write(path, context, results):
    parts = [_head(), _context_table(context), f"<p>{html.escape(READING)}</p>", _goals(results)]
    for view in VIEWS:
        shown = grid.of(view, results)
        if shown.cases:
            parts.append(_section(view, shown, results))
    parts.append("</body></html>\n")
    path.write_text("\n".join(parts), encoding="utf-8")


def _head():
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>turnstile: comparison</title>\n<style>\n{STYLE.read_text(encoding='utf-8')}"
            "</style></head><body>\n<h1>turnstile, compared</h1>")


def _context_table(context):
    rows = "".join(f"<tr><th>{html.escape(name)}</th><td>{html.escape(value)}</td></tr>"
                   for name, value in context.items())
    return f"<table><tbody>{rows}</tbody></table>"


def _goals(results):
    header, rows = goals.table(results)
    if not rows:
        return ""
    body = "".join("<tr>" + f"<th>{html.escape(row[0])}</th>" + "".join(map(_goal_cell, row[1:]))
                   + "</tr>" for row in rows)
    return (f"<section><h2>Goals</h2><div class=wide><table>{_header(header)}<tbody>{body}</tbody>"
            "</table></div></section>")


def _goal_cell(text):
    verdicts = {"not met": "missed", "met": "met"}
    kind = next((kind for verdict, kind in verdicts.items() if text.endswith(verdict)), "plain")
    return f"<td class={kind}>{html.escape(text)}</td>"


def _section(view, shown, results):
    figure = ""
    if plots.AVAILABLE:
        figure = (f'<figure role="img" aria-label="{html.escape(view.title)}: the table as a plot">'
                  f"{plots.draw(view, shown, results)}</figure>")
    return (f"<section><h2>{html.escape(view.title)}</h2><p>{html.escape(view.says)}</p>{figure}"
            f"<details open><summary>{html.escape(_unit(view))}</summary>"
            f"<div class=wide>{_table(view, shown, results)}</div></details></section>")


def _unit(view):
    names = " / ".join(mark.name for mark in view.marks if mark.name)
    return f"{view.unit}: {names}" if names else view.unit


def _table(view, shown, results):
    rows = []
    for row in shown.rows:
        cases = (shown.cases.get((row, panel)) for panel in shown.panels)
        cells = "".join(_cell(view, results, case) for case in cases)
        ours = " class=ours" if row[0] in RINGS else ""
        rows.append(f"<tr{ours}><th>{html.escape(grid.label(row))}</th>{cells}</tr>")
    return f"<table>{_header(['', *shown.panels])}<tbody>{''.join(rows)}</tbody></table>"


def _header(names):
    cells = "".join(f"<th>{html.escape(name)}</th>" for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def _cell(view, results, case):
    if case is None:
        return "<td>–</td>"
    ranges = [results.range(case, mark.counter) for mark in view.marks]
    median = " / ".join(f"{r.median:,.{view.places}f}" for r in ranges)
    return f"<td>{median}<br><small>{_beside(view, results, case, ranges)}</small></td>"


def _beside(view, results, case, ranges):
    parts = []
    if len(ranges) == 1:
        parts.append(f"{ranges[0].low:,.{view.places}f} to {ranges[0].high:,.{view.places}f}")
    else:
        parts.append(f"{view.marks[-1].name} up to {ranges[-1].high:,.{view.places}f}")
    parts += [f"{grid.short(ratio.median)} × {name}"
              for name, ratio in grid.ratios(view, results, case)]
    return "<br>".join(parts)
