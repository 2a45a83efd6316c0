"""Regret after the last episode against the total delay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from tabpo.errors import InvalidInputError, unknown
from tabpo.figures.axes import frame_log_axes, label_axes, label_rows, panels, reference_slopes
from tabpo.figures.canvas import PaperFigure, Width, legends_below, style
from tabpo.figures.curves import (
    METRICS,
    Curve,
    Facet,
    HasCurves,
    band_words,
    curves_of,
    distinct,
    facets,
    looks_of,
    note_handles,
)
from tabpo.figures.palette import Look
from tabpo.statistics import Method, Slope, interval, log_log_slope

Array = NDArray[np.float64]
Abscissa = Literal["total_delay", "episodes_plus_delay"]

ABSCISSAS: dict[str, str] = {
    "total_delay": "Total delay $D$ (episodes)",
    "episodes_plus_delay": "$K + D$ (episodes)",
}


@dataclass(frozen=True, eq=False)
class _Points:
    """A learner in one environment: values (N, R) after the last episode at N delays, the delays increasing."""

    learner: str
    x: Array
    values: list[Array]

    def slope(self, level: float) -> Slope | None:
        """Return the fitted growth rate over the delays above 0, or None where there is none to fit."""
        n_runs = min(len(runs) for runs in self.values)
        positive = self.x > 0
        x, table = self.x[positive], np.array([runs[:n_runs] for runs in self.values])[positive]
        if np.unique(x).size < 2 or (table <= 0).any():
            return None
        return log_log_slope(x, table, (x.min(), x.max()), level)


def regret_against_delay(
    results: HasCurves | Iterable[Curve],
    *,
    metric: str = "regret",
    abscissa: Abscissa = "total_delay",
    method: Method = "t",
    level: float = 0.95,
    slopes: Sequence[float] = (1 / 2,),
    across: Sequence[str] = ("mdp",),
    down: Sequence[str] = ("losses", "n_episodes"),
    share_y: bool = True,
    width: Width | float | None = None,
    **filters: Any,
) -> PaperFigure:
    """Return the figure of regret after the last episode against the total delay, on log-log axes.

    A point is the mean over runs with its pointwise interval, a line joins a learner's points, and the legend
    gives the fitted slope of :func:`delay_slopes` where there is one panel. A total delay of 0, or regret
    that is not above 0, has no place on the axes; the legend says so.

    Parameters
    ----------
    results : Results or iterable of Curve
        With ``total_delay``.
    metric : str
        As in :func:`tabpo.figures.regret`.
    abscissa : "total_delay" or "episodes_plus_delay"
        D, or K + D, in whose root the upper bounds grow and which shows D = 0 too.
    method : "t", "bootstrap" or "percentile"
    level : float in (0, 1)
    slopes : sequence of float
        Dashed reference slopes.
    across, down, share_y, width, **filters
        As in :func:`tabpo.figures.regret`.

    Raises
    ------
    InvalidInputError
        If an option is unknown, or nothing is left to draw.
    """
    found = curves_of(results, metric, **filters)
    looks = looks_of(results, found)
    all_facets = list(facets(found, tuple(across), tuple(down)))
    points = [_points_of(facet, abscissa) for facet in all_facets]
    single = len(all_facets) == 1
    lengths = distinct(one.n_episodes for one in found)
    when = f"after {lengths[0]} episodes" if len(lengths) == 1 else "after the last episode"
    with style():
        figure, all_axes = panels(all_facets, width, share_y)
        notes: list[str] = []
        smallest = []
        for inside, axes in zip(points, all_axes, strict=True):
            lowest, said = _draw_panel(axes, inside, looks, method, level, slopes)
            smallest.append(lowest)
            notes += said
        if not np.isfinite(smallest).all():
            raise InvalidInputError(
                "a panel has no point with a positive delay and positive regret to show on log axes"
            )
        frame_log_axes(all_axes, smallest)
        y = f"{METRICS[metric]} (loss units)"
        label_axes(all_axes, ABSCISSAS[abscissa], y)
        words, notes = band_words(found, method, level), distinct(notes)
        handles: list[Artist] = [
            Line2D([], [], label=_label(learner, points, level, single), **looks[learner].line_style())
            for learner in distinct(one.learner for one in found)
        ]
        middle = legends_below(
            figure, handles, note_handles([f"{when}; bars: {words}"], False), note_handles(notes, False)
        )
        label_rows(figure, all_axes, y, middle)
    figure.caption = " ".join(
        [f"{METRICS[metric]} {when} against the delay: mean over runs, bars: {words}.", *(f"{n}." for n in notes)]
    )
    return figure


def delay_slopes(
    results: HasCurves | Iterable[Curve],
    *,
    metric: str = "regret",
    abscissa: Abscissa = "total_delay",
    level: float = 0.95,
    **filters: Any,
) -> pd.DataFrame:
    """Return how fast regret grows with the total delay: fitted slopes on log-log axes, one row per learner.

    The slope is fitted per run over the delays above 0 (:func:`tabpo.statistics.log_log_slope`), its interval
    is over runs.

    Parameters and errors as in :func:`regret_against_delay`.

    Returns
    -------
    DataFrame
        With columns ``mdp``, ``losses``, ``n_episodes``, ``learner``, ``delays`` (how many), ``slope``,
        ``lower``, ``upper``, ``runs``; NaN where there is no slope to fit (fewer than two delays above 0, or
        a run whose regret is not above 0).
    """
    rows = []
    for facet in facets(curves_of(results, metric, **filters), ("mdp", "losses", "n_episodes"), ()):
        first = facet.curves[0]
        for one in _points_of(facet, abscissa):
            slope = one.slope(level)
            mean, lower, upper = (slope.mean, slope.lower, slope.upper) if slope else (np.nan,) * 3
            rows.append(
                {
                    "mdp": first.mdp,
                    "losses": first.losses,
                    "n_episodes": first.n_episodes,
                    "learner": one.learner,
                    "delays": len(one.x),
                    "slope": mean,
                    "lower": lower,
                    "upper": upper,
                    "runs": min(len(runs) for runs in one.values),
                }
            )
    return pd.DataFrame(rows)


def _points_of(facet: Facet, abscissa: str) -> list[_Points]:
    if abscissa not in ABSCISSAS:
        raise unknown("abscissa", abscissa, ABSCISSAS)
    found = []
    for learner in distinct(one.learner for one in facet.curves):
        curves = [one for one in facet.curves if one.learner == learner]
        for one in curves:
            if not np.isfinite(one.total_delay):
                raise InvalidInputError(f"the curve of {learner!r} has no total_delay to be drawn against")
        offset = [one.n_episodes if abscissa == "episodes_plus_delay" else 0 for one in curves]
        x = np.array([one.total_delay for one in curves], dtype=np.float64) + offset
        order = np.argsort(x, kind="stable")
        found.append(_Points(learner, x[order], [curves[place].values[-1] for place in order]))
    return found


def _label(learner: str, points: list[list[_Points]], level: float, single: bool) -> str:
    if not single:
        return learner
    slope = next(one for one in points[0] if one.learner == learner).slope(level)
    return learner if slope is None else f"{learner}, slope {slope}".replace(" (single run, no interval)", "")


def _draw_panel(
    axes: Axes,
    points: list[_Points],
    looks: dict[str, Look],
    method: Method,
    level: float,
    slopes: Sequence[float],
) -> tuple[float, list[str]]:
    """Draw a panel's points; return the lowest height to show and what the legend must say about the others."""
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.margins(x=0.06)
    notes: list[str] = []
    all_x, all_heights, bottoms = [], [], []
    for one in points:
        found = [interval(runs, level, method) for runs in one.values]
        mean, lower, upper = (np.array([float(part[i]) for part in found]) for i in range(3))
        if (one.x <= 0).any():
            notes.append("total delay 0 has no place on the log axis")
        if (mean <= 0).any():
            notes.append(f"{one.learner}: not drawn where at or below 0")
        shown = (one.x > 0) & (mean > 0)
        # A bar that reaches below 0 ends at the axis.
        down = np.where(lower > 0, mean - lower, mean * (1 - 1e-6))
        bars = np.nan_to_num(np.array([np.where(np.isnan(lower), 0, down), upper - mean]))
        axes.errorbar(
            one.x[shown], mean[shown], yerr=bars[:, shown], elinewidth=0.8, zorder=3,
            **looks[one.learner].line_style(),
        )  # fmt: skip
        all_x.append(one.x[shown])
        all_heights.append(mean[shown])
        bottoms.append((mean - bars[0])[shown & (lower > 0)])
        bottoms.append(mean[shown] / 2 if np.any(lower <= 0) else mean[shown])
    x, heights = np.concatenate(all_x), np.concatenate(all_heights)
    if heights.size and x.max() > x.min():
        reference_slopes(axes, slopes, x, heights)
    return float(np.concatenate(bottoms).min(initial=np.inf)), notes
