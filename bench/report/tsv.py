"""The numbers as tab-separated values: a header, then a row for each number of each case."""

from .questions import VIEWS

LETTERS = ("T", "N", "S", "B", "W", "C", "K")
COLUMNS = ("question", "contender", *LETTERS, "metric", "median", "low", "high", "times_mutex",
           "times_limit", "rounds", "answer")
COLUMNS_BEFORE_AFTER = ("question", "contender", *LETTERS, "metric", "before", "after", "ratio",
                        "ratio_low", "ratio_high", "confidence", "rounds", "p", "p_holm", "verdict",
                        "stands_among_all", "answer")


def write(path, results):
    _write(path, COLUMNS, (_row(results, case, counter) for case in results.all_cases()
                           for counter in _counters(case) if results.values(case, counter)))


def write_before_after(path, comparison):
    _write(path, COLUMNS_BEFORE_AFTER, map(_row_before_after,
                                           [*comparison.ours, *comparison.controls]))


def _write(path, columns, rows):
    lines = ["\t".join(columns), *("\t".join(row) for row in rows)]
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _counters(case):
    """All that some table shows of the case."""
    return dict.fromkeys(mark.counter for view in VIEWS if view.question == case.question
                         for mark in view.marks)


def _row(results, case, counter):
    shown = results.range(case, counter)
    mutex = None if results.is_less_contended(case) else results.against_mutex(case, counter)
    limit = results.against_limit(case) if counter == "ns_per_op" else None
    return [*_names(case), counter, *map(_number, (shown.median, shown.low, shown.high)),
            *(_number(ratio.median) if ratio else "" for ratio in (mutex, limit)),
            str(len(results.values(case, counter))), results.answer(case)]


def _row_before_after(difference):
    ratio = difference.ratio
    return [*_names(difference.case), difference.counter,
            *map(_number, (difference.before.median, difference.after.median, ratio.median, ratio.low,
                           ratio.high, ratio.confidence)),
            str(ratio.pairs), *map(_number, (ratio.p, difference.p_holm)), difference.verdict(),
            "yes" if difference.stands() else "no", difference.answer]


def _names(case):
    return [case.question, case.contender, *map(case.letter, LETTERS)]


def _number(value):
    return f"{value:.0f}" if value >= 1e6 else f"{value:.6g}"
