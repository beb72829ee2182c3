"""The report page: one file that needs nothing beside it, and no network."""

import html
import pathlib
import re

from . import field, goals, grid, machine, plots
from .questions import VIEWS
from .results import is_ours

FIELD = "Where the field is ahead"

STYLE = pathlib.Path(__file__).with_name("style.css")

READING = (
    "Each number is the median of the rounds, next to it the lowest and the highest of them, and the "
    "spread: half of that range, as a share of the median. “× mutex” compares with std::mutex in the "
    "same process and the same round, whose median stands behind “of”: the row of std_mutex is that of the process in "
    "which the field runs. With fewer clients than that has threads there is a dash: threads that wait for more others "
    "are no reference. “× limit” compares with what the hardware allows at best: max(inside, "
    "(inside + outside) / cores), where inside and outside are timed alone, in the same run. “answer” "
    "says in how many rounds the case found right what it had computed. Jain's index is taken in every third "
    "round. T threads, N clients, S "
    "sections, B body, W private work, C choice of the section, K capacity of a buffer. In the plots "
    "ours is filled and bold, the field hollow. Ratios carry over to other machines better than times; "
    "two cores say nothing about what many cores do to a cache line.")

READING_GOALS = "A goal is met by the median of the rounds; beside it stand the lowest and the highest of them."

READING_BEFORE_AFTER = (
    "Both builds were run in turn, round by round, and each ratio is after / before of one round: below "
    "1 the later build takes less time. The interval of their median is one of order statistics, with "
    "the confidence beside it, and p that of the sign test: they assume nothing about how times "
    "scatter. A verdict is about one case alone; “stands among all” is what Holm's correction for the "
    "number of cases leaves. In the plots what differs is filled and points to its side.")


def write(path, context, results):
    views = [(view, shown) for view in VIEWS if (shown := grid.of(view, results)).cases]
    header, rows = goals.table(results)
    standings = field.standings(results)
    titles = [*(["Goals"] if rows else []), *([FIELD] if standings else []),
              *(view.title for view, _ in views)]
    _write(path, "turnstile, compared", titles,
           [_warning(context), _paragraph(_goals_met(header, rows)) if rows else "", _facts(context),
            _paragraph(READING), _contents(titles), _goals(header, rows), _field(standings),
            *(_section(view, shown, results) for view, shown in views)])


def write_before_after(path, context, comparison):
    groups = list(comparison.questions().items())
    if comparison.differing():
        groups.insert(0, ("What differs", comparison.differing()))
    if comparison.controls:
        groups.append(("Controls", comparison.controls))
    titles = [title for title, _ in groups]
    _write(path, "turnstile, before and after", titles,
           [_warning(context), *map(_paragraph, comparison.summary()), _facts(context),
            _paragraph(READING_BEFORE_AFTER), _contents(titles),
            *(_group(comparison, title, differences) for title, differences in groups)])


def _write(path, title, titles, parts):
    if len(set(map(_slug, titles))) != len(titles):
        raise ValueError("two sections of the page have the same name")
    path.write_text("\n".join([_head(title), *filter(None, parts), "</body></html>\n"]),
                    encoding="utf-8")


def _head(title):
    return ('<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">\n'
            '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
            '<meta name="color-scheme" content="light dark">\n'
            f"<title>{title}</title>\n<style>\n{STYLE.read_text(encoding='utf-8')}"
            f"</style></head><body>\n<h1>{title}</h1>")


_DOUBTS = ("not to be quoted", "mean nothing", "local changes", "older than the tree", "not known whether",
           machine.NO_COMMIT)


def _warning(context):
    """On top: that the numbers are not to be quoted, and why."""
    why = [context[name] for name in ("rounds", "build", "commit", "before", "after", "other programs")
           if any(word in context.get(name, "") for word in _DOUBTS)]
    return f"<p class=warning><strong>Not to be quoted.</strong> {html.escape('; '.join(why))}.</p>" if why else ""


def _facts(context):
    """Where the numbers come from."""
    rows = "".join(f'<tr><th scope="row">{html.escape(name)}</th><td>{_fact(name, value)}</td></tr>'
                   for name, value in context.items())
    return f"<table class=facts><tbody>{rows}</tbody></table>"


def _fact(name, value):
    text = html.escape(value)
    return f"<code>{text}</code>" if name == "command" else text


def _paragraph(text):
    return f"<p>{html.escape(text)}</p>"


def _slug(title):
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def _contents(titles):
    links = "".join(f'<li><a href="#{_slug(title)}">{html.escape(title)}</a></li>' for title in titles)
    return f'<nav aria-label="Contents"><ul>{links}</ul></nav>'


def _heading(title):
    """With a link to itself, for those who quote."""
    return f'<h2 id="{_slug(title)}"><a href="#{_slug(title)}">{html.escape(title)}</a></h2>'


def _goals_met(header, rows):
    """How many, for each ring."""
    said = []
    for column, ring in enumerate(header[2:], start=2):
        measured = [row[column] for row in rows if row[column] != goals.NOT_ASKED]
        met = sum(not text.endswith("not met") for text in measured)
        said.append(f"{ring} meets {met} of {len(measured)}")
    return f"Goals: {', '.join(said)}."


def _goals(header, rows):
    if not rows:
        return ""
    body = "".join(f'<tr><th scope="row">{html.escape(row[0])}</th>'
                   f"{''.join(map(_goal_cell, row[1:]))}</tr>" for row in rows)
    table = f"<table>{_header(header)}<tbody>{body}</tbody></table>"
    return f"<section>{_heading('Goals')}{_paragraph(READING_GOALS)}{_wide('Goals', table)}</section>"


def _goal_cell(text):
    verdicts = {"not met": "missed", "met": "met"}
    kind = next((kind for verdict, kind in verdicts.items() if text.endswith(verdict)), "plain")
    return f"<td class={kind}>{html.escape(text)}</td>"


def _field(standings):
    if not standings:
        return ""
    rows = [_row(name, False, cells) for name, *cells in map(field.Lead.row, field.leads(standings))]
    table = f"<table class=leads>{_header(field.HEADER)}{_part('', len(field.HEADER), rows)}</table>"
    return (f"<section>{_heading(FIELD)}{_paragraph(field.summary(standings))}"
            f"{_paragraph(field.READING)}{_wide(FIELD, table) if rows else ''}</section>")


def _section(view, shown, results):
    figure = _figure(view.title, plots.draw(view, shown, results)) if plots.AVAILABLE else ""
    return (f"<section>{_heading(view.title)}{_paragraph(view.says)}{figure}"
            f"{_folded(view.title, _unit(view), _table(view, shown, results))}</section>")


def _figure(title, svg):
    return (f'<figure role="img" aria-label="{html.escape(title)}: the table as a plot">{svg}'
            "</figure>")


def _folded(title, summary, table):
    return f"<details open><summary>{html.escape(summary)}</summary>{_wide(title, table)}</details>"


def _wide(title, table):
    """Scrolls by itself where it has no room, also by the keys."""
    return f'<div class=wide tabindex=0 role=region aria-label="{html.escape(title)}: the table">{table}</div>'


def _unit(view):
    names = " / ".join(mark.name for mark in view.marks if mark.name)
    return f"{view.unit}: {names}" if names else view.unit


def _table(view, shown, results):
    """A part for each panel, a row for each case."""
    compared = dict.fromkeys(name for case in shown.cases.values()
                             for name, _ in grid.ratios(view, results, case))
    header = ["contender", *_number_names(view), *(f"× {name}" for name in compared), "answer"]
    parts = [_header(header)]
    for panel in shown.panels:
        rows = [_row(grid.label(row), is_ours(row[0]), _cells(view, results, case, compared))
                for row in shown.rows if (case := shown.cases.get((row, panel)))]
        parts.append(_part(panel, len(header), rows))
    return f"<table class=numbers>{''.join(parts)}</table>"


def _part(title, width, rows):
    named = f'<tr><th scope="rowgroup" colspan={width}>{html.escape(title)}</th></tr>' if title else ""
    return f"<tbody>{named}{''.join(rows)}</tbody>"


def _row(label, ours, cells):
    inside = "".join(f"<td>{html.escape(cell)}</td>" for cell in cells)
    return f'<tr{" class=ours" if ours else ""}><th scope="row">{html.escape(label)}</th>{inside}</tr>'


def _header(names):
    cells = "".join(f'<th scope="col">{html.escape(name)}</th>' for name in names)
    return f"<thead><tr>{cells}</tr></thead>"


def _number_names(view):
    """One number has its range and spread beside it; of several, the last has its range."""
    if len(view.marks) == 1:
        return ["median", "lowest to highest", "spread"]
    return [*(mark.name for mark in view.marks), f"{view.marks[-1].name}, lowest to highest"]


def _cells(view, results, case, compared):
    ranges = [results.range(case, mark.counter) for mark in view.marks]
    last = ranges[-1]
    cells = [f"{r.median:,.{view.places}f}" for r in ranges]
    cells.append(f"{last.low:,.{view.places}f} to {last.high:,.{view.places}f}")
    if len(ranges) == 1:
        cells.append(f"±{(last.high - last.low) / 2 / (last.median or 1):.0%}")
    ratios = dict(grid.ratios(view, results, case))
    cells += [_ratio(view, results, case, name, ratios[name]) if name in ratios else "–" for name in compared]
    return [*cells, results.answer(case)]


def _ratio(view, results, case, name, ratio):
    """With what it was divided by, if that is not a row of the table: each executable has a std::mutex."""
    beside = results.mutex_beside(case) if name == "mutex" else None
    return f"{grid.short(ratio.median)} of {beside.median:,.{view.places}f}" if beside else grid.short(ratio.median)


def _group(comparison, title, differences):
    """The cases of a question, or of several, before and after."""
    labels = [comparison.label(d) if d.case.question == title
              else f"{d.case.question}/{comparison.label(d)}" for d in differences]
    figure = _figure(title, plots.draw_ratios(title, labels, differences)) if plots.AVAILABLE else ""
    header = ["case", "before", "after", "ratio", "interval", "confidence", "p", "p, Holm", "verdict",
              "answer"]
    rows = [_row(label, d.ratio.differs(), _difference(d)) for label, d in zip(labels, differences)]
    table = f"<table class=numbers>{_header(header)}{_part('', len(header), rows)}</table>"
    return (f"<section>{_heading(title)}{figure}"
            f"{_folded(title, 'ns per operation; percentiles in microseconds', table)}</section>")


def _difference(d):
    return [f"{d.before.median:,.1f}", f"{d.after.median:,.1f}", f"{d.ratio.median:.3f}",
            f"{d.ratio.low:.3f} to {d.ratio.high:.3f}", f"{d.ratio.confidence:.1%}",
            f"{d.ratio.p:.2g}", f"{d.p_holm:.2g}", d.verdict_among_all(), d.answer]
