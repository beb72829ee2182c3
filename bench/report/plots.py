"""Plots as SVG text whose colours are the page's own, so that they follow its light and dark."""

import io
import re

from . import grid
from .results import REFERENCE, RINGS

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


def draw(view, shown, results):
    """A row a contender, a panel a column of the table; shapes, not colours, tell marks apart."""
    _set_style(view.title)
    width = 3.2 + max(4.6, 2.6 * len(shown.panels))
    height = 1.0 + 0.24 * len(shown.rows)
    figure, axes = pyplot.subplots(1, len(shown.panels), sharey=True, squeeze=False,
                                   figsize=(width, height), layout="constrained")
    for axis, panel in zip(axes[0], shown.panels):
        _draw_panel(axis, view, shown, panel, results)
    _name_rows(axes[0][0], shown)
    figure.supxlabel(view.unit, fontsize=9)
    if view.ratios or len(view.marks) > 1:
        _draw_legend(figure, view)
    return _svg_of(figure)


def _set_style(salt):
    ink = COLOURS["ink"]
    pyplot.rcdefaults()
    pyplot.rcParams.update({
        "svg.fonttype": "none", "svg.hashsalt": salt, "font.size": 9, "text.color": ink,
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
            _draw_row(axis, y, view, ranges, row[0] in RINGS)
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
    axis.xaxis.set_minor_formatter(ticker.NullFormatter())


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


def _name_rows(axis, shown):
    axis.set_yticks(range(len(shown.rows)), [grid.label(row) for row in shown.rows])
    axis.set_ylim(len(shown.rows) - 0.5, -0.5)
    for text, row in zip(axis.get_yticklabels(), shown.rows):
        if row[0] in RINGS:
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
    for name, colour in COLOURS.items():
        svg = svg.replace(colour, f"var(--{name})")
    return svg
