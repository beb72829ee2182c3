"""Plots as SVG text whose colours are the page's own, so that they follow its light and dark."""

import io
import re

from . import grid
from .results import REFERENCE, is_ours

try:
    import matplotlib
    matplotlib.use("svg")
    from matplotlib import pyplot, ticker
    AVAILABLE = True
except ImportError:
    AVAILABLE = False

# Colours that stand for the page's variables, and are replaced by them.
COLOURS = {"ink": "#010203", "faint": "#040506", "ours": "#070809", "field": "#0a0b0c",
           "paper": "#0d0e0f"}


ABREAST = 2  # panels: more would be too small on paper

# What a verdict looks like in a plot without colours.
VERDICT_SHAPES = {"faster": "<", "slower": ">", "no difference seen": "o", "too few rounds": "x"}


def draw(view, shown, results):
    """A row a contender, a panel a part of the table; shapes, not colours, tell marks apart."""
    _set_style(view.title)
    columns = min(ABREAST, len(shown.panels))
    lines = -(-len(shown.panels) // columns)
    figure, axes = pyplot.subplots(lines, columns, sharey=True, squeeze=False,
                                   figsize=(3.2 + max(4.6, 2.6 * columns),
                                            0.5 + lines * (0.5 + 0.24 * len(shown.rows))),
                                   layout="constrained")
    for axis, panel in zip(axes.flat, shown.panels):
        _draw_panel(axis, view, shown, panel, results)
    for axis in axes.flat[len(shown.panels):]:
        axis.set_visible(False)
    for first_of_line in axes[:, 0]:
        _name_rows(first_of_line, [(grid.label(row), is_ours(row[0])) for row in shown.rows])
    figure.supxlabel(view.unit, fontsize=9)
    if view.ratios or len(view.marks) > 1:
        _draw_legend(figure, view)
    return _svg_of(figure)


def draw_ratios(title, labels, differences):
    """A row a case, with the ratio after / before and its interval; filled is what differs."""
    _set_style(title)
    figure, axis = pyplot.subplots(figsize=(7.8, 1.0 + 0.24 * len(labels)), layout="constrained")
    axis.axvline(1, color=COLOURS["ink"], linewidth=0.9, linestyle="--")
    for y, difference in enumerate(differences):
        ratio, differs = difference.ratio, difference.ratio.differs()
        colour = COLOURS["ours" if differs else "field"]
        axis.plot([ratio.low, ratio.high], [y, y], color=colour, linewidth=1)
        axis.plot([ratio.median], [y], VERDICT_SHAPES[difference.verdict()], color=colour,
                  markersize=5, markerfacecolor=colour if differs else COLOURS["paper"])
    if max(d.ratio.high for d in differences) > 2 * min(d.ratio.low for d in differences):
        _scale_log(axis)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", color=COLOURS["faint"], linewidth=0.4)
    _name_rows(axis, [(label, d.ratio.differs()) for label, d in zip(labels, differences)])
    axis.set_xlabel("time after / time before")
    return _svg_of(figure)


def _set_style(salt):
    ink = COLOURS["ink"]
    pyplot.rcdefaults()
    pyplot.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": salt, "font.size": 9, "text.color": ink,
        "font.sans-serif": ["DejaVu Sans"],
        "axes.edgecolor": COLOURS["faint"], "axes.labelcolor": ink, "xtick.color": ink,
        "ytick.color": ink, "figure.facecolor": "none", "axes.facecolor": "none",
        "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
    })


def _draw_panel(axis, view, shown, panel, results):
    axis.set_title(panel, fontsize=9)
    axis.tick_params(axis="y", length=0)
    axis.grid(axis="y", color=COLOURS["faint"], linewidth=0.4)
    for y, row in enumerate(shown.rows):
        case = shown.cases.get((row, panel))
        if case is not None:
            ranges = [results.range(case, mark.counter) for mark in view.marks]
            _draw_row(axis, y, view, ranges, is_ours(row[0]))
    if view.ratios:
        _draw_references(axis, shown, panel, results)
    if view.linear:
        axis.set_xlim(left=0)
    else:
        _scale_log(axis)


def _scale_log(axis):
    axis.set_xscale("log")
    low, high = axis.get_xlim()
    subs = (1, 2, 5) if high < 300 * low else (1,)
    axis.xaxis.set_major_locator(ticker.LogLocator(subs=subs))
    axis.xaxis.set_major_formatter(ticker.StrMethodFormatter("{x:,g}"))
    axis.xaxis.set_minor_locator(ticker.NullLocator())


def _draw_row(axis, y, view, ranges, ours):
    """Ours is filled and the field hollow, for those who see no colours."""
    colour = COLOURS["ours" if ours else "field"]
    ends = [ranges[0].low, ranges[0].high] if len(ranges) == 1 else [r.median for r in ranges]
    axis.plot([min(ends), max(ends)], [y, y], color=colour, linewidth=1)
    for mark, value in zip(view.marks, ranges):
        axis.plot([value.median], [y], mark.shape, color=colour, markersize=5,
                  markerfacecolor=colour if ours else COLOURS["paper"])


def _draw_references(axis, shown, panel, results):
    cases = [case for (_, p), case in shown.cases.items() if p == panel]
    mutex = [results.range(c, "ns_per_op").median for c in cases if c.contender == REFERENCE]
    limits = [r.median for c in cases if (r := results.range(c, "limit_ns"))]
    if mutex:
        axis.axvline(mutex[0], color=COLOURS["ink"], linewidth=0.9, linestyle="--")
    if limits:
        axis.axvline(min(limits), color=COLOURS["ink"], linewidth=0.9, linestyle=":")


def _name_rows(axis, names):
    """The names, and whether each is to be seen first."""
    axis.set_yticks(range(len(names)), [name for name, _ in names])
    axis.set_ylim(len(names) - 0.5, -0.5)
    for text, (_, first) in zip(axis.get_yticklabels(), names):
        if first:
            text.set_fontweight("bold")
            text.set_color(COLOURS["ours"])


def _draw_legend(figure, view):
    def entry(name, **look):
        return pyplot.Line2D([], [], color=COLOURS["ink"], linewidth=0.9, label=name, **look)

    lines = [entry(mark.name, marker=mark.shape, linestyle="", markersize=5)
             for mark in view.marks if mark.name]
    if view.ratios:
        lines += [entry("std::mutex", linestyle="--"), entry("physical limit", linestyle=":")]
    figure.legend(handles=lines, loc="lower center", bbox_to_anchor=(0.5, 1), ncols=len(lines),
                  fontsize=8)


def _svg_of(figure):
    text = io.StringIO()
    figure.savefig(text, format="svg", bbox_inches="tight",
                   metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    svg = text.getvalue()
    svg = svg[svg.index("<svg"):]
    svg = re.sub(r"<metadata>.*?</metadata>", "", svg, flags=re.DOTALL)
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)  # the same in every plot of the page
    svg = re.sub(r' xmlns(:xlink)?="[^"]*"', "", svg).replace("xlink:href", "href")
    svg = re.sub(r' transform="rotate\(-0 [^"]*\)"', "", svg)
    svg = re.sub(r"font: 700 ([^;]*)", r"font: \1; font-weight: 700", svg)  # not all read the former
    svg = re.sub(r"\s*\n\s*", " ", svg).replace("> <", "><")
    for name, colour in COLOURS.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg
