"""Figures of a metric after the last episode against a number: points with bars, a line per learner."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from tabpo.errors import InvalidInputError
from tabpo.figures.axes import frame_log_axes, label_axes, label_rows, panels, reference_slopes, set_scale
from tabpo.figures.canvas import PaperFigure, Width, legends_below, style
from tabpo.figures.curves import Curve, Facet, band_words, distinct, note_handles
from tabpo.figures.palette import LOOKS, Look
from tabpo.statistics import Method, Slope, interval, log_log_slope

Array = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Points:
    """A learner in one environment: the runs' values after the last episode at N abscissas, which increase.

    Attributes
    ----------
    learner : str
    x : array (N,)
        NaN alone: the learner has no such setting, and its one value is drawn as a level.
    values : list of N arrays (R,)
    look : Look
    """

    learner: str
    x: Array
    values: list[Array]
    look: Look

    @property
    def is_level(self) -> bool:
        """The learner does not have the setting."""
        return bool(np.isnan(self.x).all())

    def slope(self, level: float) -> Slope | None:
        """Return the fitted growth rate over the abscissas above 0, or None where there is none to fit."""
        n_runs = min(len(runs) for runs in self.values)
        positive = self.x > 0
        x, table = self.x[positive], np.array([runs[:n_runs] for runs in self.values])[positive]
        if np.unique(x).size < 2 or (table <= 0).any():
            return None
        return log_log_slope(x, table, (x.min(), x.max()), level)


def points_of(learner: str, curves: Sequence[Curve], x: Sequence[float], look: Look) -> Points:
    """Return a learner's points in the order of their abscissas, one per curve."""
    abscissas = np.array(x, dtype=np.float64)
    order = np.argsort(abscissas, kind="stable")
    return Points(learner, abscissas[order], [curves[place].values[-1] for place in order], look)


@dataclass(frozen=True)
class Scales:
    """How the axes are, and what the interval is.

    Attributes
    ----------
    log_x : bool
    y : "linear", "log" or "symlog"
    method : "t", "bootstrap" or "percentile"
    level : float
    slopes : sequence of float
        Dashed reference slopes, and the fitted slopes in the legend of a single panel; on log-log axes only.
    mark_lowest : bool
        Fill the marker of each line's lowest mean.
    """

    log_x: bool
    y: str
    method: Method
    level: float
    slopes: Sequence[float] = ()
    mark_lowest: bool = False

    @property
    def log_log(self) -> bool:
        """Both axes are logarithmic."""
        return self.log_x and self.y == "log"


def points_figure(
    all_facets: Sequence[Facet],
    all_points: Sequence[Sequence[Points]],
    scales: Scales,
    words: Mapping[str, str],
    share_y: bool,
    width: Width | float | None,
) -> PaperFigure:
    """Return the figure of a panel per facet with its points.

    Parameters
    ----------
    all_facets : sequence of Facet
    all_points : sequence of sequences of Points
        Of each facet.
    scales : Scales
    words : mapping
        ``x``, ``y``: the axes' labels; ``zero``: what an abscissa of 0 is called; ``when``: when it is measured;
        ``caption``: the caption's beginning.
    share_y, width
        As in :func:`tabpo.figures.regret`.

    Raises
    ------
    InvalidInputError
        If a panel has nothing to show on its axes.
    """
    with style():
        figure, all_axes = panels(all_facets, width, share_y)
        notes: list[str] = []
        smallest = []
        for inside, axes in zip(all_points, all_axes, strict=True):
            lowest, said = draw_points(axes, inside, scales, words["zero"])
            smallest.append(lowest)
            notes += said
        if scales.y == "log":
            frame_log_axes(all_axes, smallest)
        label_axes(all_axes, words["x"], words["y"])
        curves = [one for facet in all_facets for one in facet.curves]
        bars, notes = band_words(curves, scales.method, scales.level), distinct(notes)
        first = [f"{words['when']}; bars: {bars}", *(["filled: lowest mean"] if scales.mark_lowest else [])]
        middle = legends_below(
            figure, _handles(all_points, scales), note_handles(first, False), note_handles(notes, False)
        )
        label_rows(figure, all_axes, words["y"], middle)
    figure.caption = " ".join([f"{words['caption']}: mean over runs, bars: {bars}.", *(f"{one}." for one in notes)])
    return figure


def _handles(all_points: Sequence[Sequence[Points]], scales: Scales) -> list[Artist]:
    looks = {one.learner: one.look for inside in all_points for one in inside}
    handles: list[Artist] = []
    for learner, look in looks.items():
        label = learner
        if len(all_points) == 1 and scales.log_log and scales.slopes:
            slope = next(one for one in all_points[0] if one.learner == learner).slope(scales.level)
            label += "" if slope is None else f", slope {slope}".replace(" (single run, no interval)", "")
        levels = all(one.is_level for inside in all_points for one in inside if one.learner == learner)
        handles.append(Line2D([], [], label=label, **(look.line_style() | ({"marker": ""} if levels else {}))))
    return handles


def draw_points(axes: Axes, points: Sequence[Points], scales: Scales, zero: str) -> tuple[float, list[str]]:
    """Draw a panel's points; return the lowest height to show and what the legend must say about the others."""
    found = [_bars(one, scales) for one in points]
    visible = [mean[one.x > 0] if scales.log_x and not one.is_level else mean for one, (mean, _, _) in
               zip(points, found, strict=True)]  # fmt: skip
    heights = np.concatenate([np.empty(0), *visible])
    if not heights.size or (scales.y == "log" and not (heights > 0).any()):
        raise InvalidInputError(
            f"a panel has no point that its axes can show: {zero}, and regret at or below 0, has no place on log axes"
        )
    notes = set_panel_scales(axes, heights, scales)
    axes.margins(x=0.06)
    all_x, all_heights, bottoms = [], [], []
    for one, (mean, lower, upper) in zip(points, found, strict=True):
        notes += _not_shown(one, mean, scales, zero)
        shown = (mean > 0) | (scales.y != "log")
        if one.is_level:
            _draw_level(axes, one.look, mean, lower, upper)
        else:
            shown &= (one.x > 0) | (not scales.log_x)
            _draw_line(axes, one, mean, lower, upper, shown, scales)
            if one.look not in (LOOKS["uniform"], LOOKS["optimal"]):  # these learn nothing, and have no rate
                all_x.append(one.x[shown])
                all_heights.append(mean[shown])
        bottoms.append(np.where(lower > 0, lower, mean / 2)[shown])
    if scales.log_log and all_x:
        x, heights = np.concatenate(all_x), np.concatenate(all_heights)
        if x.size and x.max() > x.min():
            reference_slopes(axes, scales.slopes, x, heights)
    return float(np.concatenate(bottoms).min(initial=np.inf)), notes


def set_panel_scales(axes: Axes, heights: Array, scales: Scales) -> list[str]:
    """Set a panel's scales and return what the legend says about a symlog axis."""
    linear = set_scale(axes, scales.y, heights, scales.log_x)
    return [f"axis linear within ±{linear:g}"] if linear else []


def _bars(one: Points, scales: Scales) -> tuple[Array, Array, Array]:
    found = [interval(runs, scales.level, scales.method) for runs in one.values]
    mean, lower, upper = (np.array([float(part[i]) for part in found]) for i in range(3))
    return mean, np.where(np.isnan(lower), mean, lower), np.where(np.isnan(upper), mean, upper)


def _not_shown(one: Points, mean: Array, scales: Scales, zero: str) -> Iterable[str]:
    if scales.log_x and (one.x <= 0).any():
        yield f"{zero} has no place on the log axis"
    if scales.y == "log" and (mean <= 0).any():
        yield f"{one.learner}: not drawn where at or below 0"


def _draw_line(
    axes: Axes, one: Points, mean: Array, lower: Array, upper: Array, shown: NDArray[np.bool_], scales: Scales
) -> None:
    # On a log axis, a bar that reaches below 0 ends at the axis.
    down = np.where((lower > 0) | (scales.y != "log"), mean - lower, mean * (1 - 1e-6))
    bars = np.array([down, upper - mean])[:, shown]
    drawn: dict[str, Any] = one.look.line_style() | {"markersize": 3.5}
    axes.errorbar(one.x[shown], mean[shown], yerr=bars, elinewidth=0.8, zorder=3, **drawn)
    if scales.mark_lowest and shown.sum() > 1:
        place = np.flatnonzero(shown)[np.argmin(mean[shown])]
        lowest = drawn | {"markerfacecolor": one.look.colour, "linestyle": "", "markersize": 4.5}
        axes.plot(one.x[place], mean[place], zorder=4, **lowest)


def _draw_level(axes: Axes, look: Look, mean: Array, lower: Array, upper: Array) -> None:
    axes.axhline(mean[0], color=look.colour, linestyle=look.line, zorder=2.5)
    axes.axhspan(lower[0], upper[0], color=look.colour, alpha=0.15, linewidth=0, zorder=2)
