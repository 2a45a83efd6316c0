"""The table of regret after the last episode, with intervals over runs."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterable
from typing import Any, Literal

import pandas as pd

from tabpo.errors import unknown
from tabpo.figures.curves import METRICS, Curve, HasCurves, curves_of, percent
from tabpo.statistics import METHODS, Method, interval

Format = Literal["text", "csv", "latex", "markdown"]
FORMATS = ("text", "csv", "latex", "markdown")
NAMES = ["mdp", "losses", "delays", "n_episodes", "learner"]
HEADERS = {
    "mdp": "MDP", "losses": "Losses", "delays": "Delays", "n_episodes": "K", "learner": "Learner", "runs": "Runs",
}  # fmt: skip

SAME = {
    "mdp": "MDP {}",
    "losses": "losses {}",
    "delays": "delays {}",
    "n_episodes": "K = {}",
    "learner": "{}",
    "runs": "{} runs",
}


def final_table(
    results: HasCurves | Iterable[Curve],
    *,
    metric: str = "regret",
    level: float = 0.95,
    method: Method = "t",
    **filters: Any,
) -> pd.DataFrame:
    """Return a metric after the last episode: a row per grid point with the mean over runs and its interval.

    Parameters
    ----------
    results : Results or iterable of Curve
    metric : str
        As in :func:`tabpo.figures.regret`.
    level : float in (0, 1)
    method : "t", "bootstrap" or "percentile"
        Of the pointwise interval, see :func:`tabpo.statistics.interval`.
    **filters
        Which results, such as ``learner="dapo"``.

    Returns
    -------
    DataFrame
        Columns ``mdp``, ``losses``, ``delays``, ``n_episodes``, ``learner``, ``total_delay``, ``runs``, ``mean``,
        ``lower``, ``upper`` (in units of loss; bounds are NaN for a single run).

    Raises
    ------
    InvalidInputError
        If an option is unknown or there is no finished curve.
    """
    rows = []
    for one in curves_of(results, metric, **filters):
        mean, lower, upper = (float(value) for value in interval(one.values[-1], level, method))
        rows.append(
            {name: getattr(one, name) for name in NAMES}
            | {"total_delay": one.total_delay, "runs": one.n_runs, "mean": mean, "lower": lower, "upper": upper}
        )
    return pd.DataFrame(rows)


def shown(table: pd.DataFrame, metric: str = "regret") -> tuple[pd.DataFrame, str]:
    """Return the table as text for people, and the sentence that says what is the same in all its rows.

    Parameters
    ----------
    table : DataFrame
        Of :func:`final_table`.
    metric : str
        For the header.
    """
    texts = pd.DataFrame(index=table.index)
    same = []
    for name in [*NAMES, "runs"]:
        values = table[name].unique()
        if len(values) == 1 and len(table) > 1 and name != "learner":
            same.append(SAME[name].format(values[0]))
        else:
            texts[HEADERS[name]] = table[name].astype(str)
    digits = _digits(table)
    texts[METRICS[metric]] = [f"{value:.{digits}f}" for value in table["mean"]]
    texts["Interval"] = [
        "none" if pd.isna(low) else f"[{low:.{digits}f}, {high:.{digits}f}]"
        for low, high in zip(table["lower"], table["upper"], strict=True)
    ]
    return texts, ", ".join(same)


def render(
    table: pd.DataFrame, form: Format = "text", *, metric: str = "regret", level: float = 0.95, method: str = "t"
) -> str:
    """Return the table of :func:`final_table` as text, CSV, LaTeX (with booktabs) or Markdown.

    CSV has all columns in full precision; the others are for people, and say which interval they show.

    Raises
    ------
    InvalidInputError
        If the format is unknown.
    """
    if form not in FORMATS:
        raise unknown("table format", form, FORMATS)
    if form == "csv":
        buffer = io.StringIO()
        table.to_csv(buffer, index=False)
        return buffer.getvalue()
    texts, same = shown(table, metric)
    note = caption(metric, level, method, same)
    rows = [list(texts.columns), *texts.to_numpy().tolist()]
    left = [name not in ("K", "Runs", METRICS[metric], "Interval") for name in texts.columns]
    if form == "latex":
        return _latex(rows, left, note)
    if form == "markdown":
        return _markdown(rows, left, note)
    return _text(rows, left, note)


def caption(metric: str, level: float, method: str, same: str) -> str:
    """Return the sentence on what the table shows."""
    what = (
        f"{METRICS[metric]} after the last episode (loss units): mean over runs and {percent(level)} {METHODS[method]}"
    )
    return f"{what}; {same}." if same else f"{what}."


def _digits(table: pd.DataFrame) -> int:
    """Return how many decimals to print: two digits of a typical half-width, but at most 4 decimals."""
    half_widths = ((table["upper"] - table["lower"]) / 2).dropna()
    half_widths = half_widths[half_widths > 0]
    scale = half_widths.median() if len(half_widths) else table["mean"].abs().max() / 100
    for digits in range(4):
        if scale * 10**digits >= 1:
            return digits if digits or scale >= 10 else 1
    return 4


def _padded(rows: list[list[str]], left: list[bool]) -> list[list[str]]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return [
        [
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(row, widths, left, strict=True)
        ]
        for row in rows
    ]


def _text(rows: list[list[str]], left: list[bool], note: str) -> str:
    header, *body = ["  ".join(row).rstrip() for row in _padded(rows, left)]
    return "\n".join([header, "-" * max(map(len, [header, *body])), *body, "", textwrap.fill(note, 79), ""])


def _markdown(rows: list[list[str]], left: list[bool], note: str) -> str:
    escaped = [[cell.replace("|", "\\|") for cell in row] for row in rows]
    header, *body = _padded(escaped, left)
    rule = [
        ":" + "-" * (len(cell) - 1) if to_left else "-" * (len(cell) - 1) + ":"
        for cell, to_left in zip(header, left, strict=True)
    ]
    return "\n".join(["| " + " | ".join(row) + " |" for row in (header, rule, *body)] + ["", note, ""])


def _latex(rows: list[list[str]], left: list[bool], note: str) -> str:
    header, *body = [" & ".join(map(_escaped, row)) + r" \\" for row in rows]
    columns = "".join("l" if to_left else "r" for to_left in left)
    lines = [f"% {note}", rf"\begin{{tabular}}{{{columns}}}", r"\toprule", header, r"\midrule", *body]
    return "\n".join([*lines, r"\bottomrule", r"\end{tabular}", ""])


def _escaped(text: str) -> str:
    """Return text for LaTeX; a minus sign of a number becomes one."""
    special = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
    special |= {letter: "\\" + letter for letter in "&%$#_{}"} | {"√": r"$\surd$"}
    plain = "".join(special.get(letter, letter) for letter in text)
    numeric = text.strip("[]").replace(", ", "").replace("-", "").replace(".", "").isdigit()
    return "$" + plain + "$" if numeric and "-" in text else plain
