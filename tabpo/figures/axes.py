"""Panels, scales and reference slopes, shared by the figures of regret."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from fractions import Fraction
from typing import Any, Literal

import numpy as np
from matplotlib.axes import Axes
from matplotlib.gridspec import SubplotSpec
from matplotlib.ticker import LogFormatterSciNotation, LogLocator, NullFormatter, SymmetricalLogLocator
from numpy.typing import NDArray

from tabpo.errors import InvalidInputError, unknown
from tabpo.figures.canvas import PaperFigure, Width, inches, new_figure
from tabpo.figures.curves import Facet

Scale = Literal["linear", "log", "symlog"]
SCALES = ("linear", "log", "symlog")
MOST_ACROSS = 4


def panels(all_facets: Sequence[Facet], width: Width | float | None, share_y: bool) -> tuple[PaperFigure, list[Axes]]:
    """Return a figure and the panel of each facet, with the titles written.

    Without a width, one panel is one column wide and several take the page's width. A single row of more than
    four panels is wrapped.
    """
    n_rows = 1 + max(one.row for one in all_facets)
    n_columns = 1 + max(one.column for one in all_facets)
    places = [(one.row, one.column) for one in all_facets]
    wrapped = n_rows == 1 and n_columns > MOST_ACROSS
    if wrapped:
        across = math.ceil(n_columns / math.ceil(n_columns / MOST_ACROSS))
        places = [divmod(column, across) for _, column in places]
        n_rows, n_columns = math.ceil(n_columns / across), across
    total = inches(width if width is not None else "one-column" if n_rows * n_columns == 1 else "two-column")
    panel_width = (total - 0.45) / n_columns
    panel_height = max(1.1, panel_width * (0.68 if n_columns < 3 else 0.8))
    figure = new_figure(total, n_rows * panel_height + 0.35 + 0.17 * (n_columns > 1))
    grid = figure.subplots(
        n_rows, n_columns, squeeze=False, sharex="col", sharey=("all" if wrapped else "row") if share_y else False
    )
    used = [grid[place] for place in places]
    for facet, axes, place in zip(all_facets, used, places, strict=True):
        _write_titles(axes, facet, place, wrapped, max(one.column for one in all_facets))
    for place in np.ndindex(n_rows, n_columns):
        if place not in places:
            grid[place].remove()
    for axes in used:  # a removed neighbour takes its tick labels along
        below = (_place(axes).rowspan.stop, _place(axes).colspan.start)
        axes.tick_params(labelbottom=below not in places)
    return figure, used


def _write_titles(axes: Axes, facet: Facet, place: tuple[int, int], wrapped: bool, last: int) -> None:
    if facet.column_title and (place[0] == 0 or wrapped):
        axes.set_title(facet.column_title)
    if facet.row_title and facet.column == last:
        axes.annotate(
            facet.row_title, (1, 0.5), (3, 0), xycoords="axes fraction", textcoords="offset points",
            rotation=270, ha="left", va="center", fontsize=8, annotation_clip=False,
        )  # fmt: skip


def label_axes(all_axes: Sequence[Axes], x: str, y: str) -> None:
    """Write the x label under each column and, if there is one row of panels, the y label at its left."""
    n_rows = _n_rows(all_axes)
    for axes in all_axes:
        if axes.xaxis.get_tick_params()["labelbottom"]:
            axes.set_xlabel(x)
        if n_rows == 1 and _place(axes).is_first_col():
            axes.set_ylabel(y)


def label_rows(figure: PaperFigure, all_axes: Sequence[Axes], y: str, middle: float) -> None:
    """Write the y label once for several rows, at the given share of the figure's height."""
    if _n_rows(all_axes) > 1:
        figure.supylabel(y, y=middle)


def _n_rows(all_axes: Sequence[Axes]) -> int:
    return int(_place(all_axes[0]).get_gridspec().nrows)


def _place(axes: Axes) -> SubplotSpec:
    place = axes.get_subplotspec()
    if place is None:
        raise TypeError("a panel must come from Figure.subplots")
    return place


def set_scale(axes: Axes, scale: str, heights: NDArray[np.float64], log_x: bool) -> float:
    """Set the axes' scales for the values drawn; return the half-width of symlog's linear part, else 0.

    Parameters
    ----------
    axes : Axes
    scale : "linear", "log" or "symlog"
        Of the y axis.
    heights : array
        The means that are drawn.
    log_x : bool
    """
    if scale not in SCALES:
        raise unknown("scale", scale, SCALES)
    if log_x:
        axes.set_xscale("log")
        _few_ticks(axes, "x")
    largest = float(np.abs(heights).max()) if heights.size else 0.0
    if scale == "log":
        positive = heights[heights > negligible(heights)]
        if positive.size == 0:
            raise InvalidInputError("nothing is above 0 and a log axis has nothing to show; use scale='symlog'")
        axes.set_yscale("log")
        _few_ticks(axes, "y")
    if scale == "symlog":
        linear = 10.0 ** (math.floor(math.log10(largest)) - 2) if largest > 0 else 1.0
        axes.set_yscale("symlog", linthresh=linear, linscale=0.5)
        axes.yaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=linear))
        axes.axhline(0, color="0.6", linewidth=0.6, zorder=1)
        return linear
    if scale == "linear" and heights.size and heights.min() < -negligible(heights):
        axes.axhline(0, color="0.6", linewidth=0.6, zorder=1)
    return 0.0


def frame_log_axes(all_axes: Sequence[Axes], smallest: Sequence[float]) -> None:
    """Fit log y axes to what is drawn from ``smallest`` (one number per panel) up, shared ones together."""
    for axes in all_axes:
        if axes.get_yscale() != "log":
            continue
        shared = axes.get_shared_y_axes()
        together = [i for i, other in enumerate(all_axes) if other is axes or shared.joined(axes, other)]
        bottom = min(smallest[i] for i in together) / 1.4
        top = max(all_axes[i].dataLim.y1 for i in together)
        axes.set_ylim(bottom, top * (top / bottom) ** 0.03)


def _few_ticks(axes: Axes, which: str) -> None:
    axis = axes.xaxis if which == "x" else axes.yaxis
    axis.set_major_locator(LogLocator(base=10, numticks=6))
    axis.set_minor_locator(LogLocator(base=10, subs=tuple(np.arange(2, 10)), numticks=12))
    # Less than a decade may hold no power of ten: then 2, 3 and 6 are labelled too, as far as there is room.
    few = LogFormatterSciNotation(base=10, labelOnlyBase=False, minor_thresholds=(1.2, 0.5))
    axis.set_minor_formatter(few if which == "y" else NullFormatter())


def negligible(heights: NDArray[np.float64]) -> float:
    """Return what counts as 0 on a log axis: rounding, next to the largest value."""
    return 1e-9 * float(np.abs(heights).max()) if heights.size else 0.0


def smallest_drawn(heights: NDArray[np.float64]) -> float:
    """Return the smallest value that a log axis shows."""
    return float(np.min(heights, where=heights > negligible(heights), initial=np.inf))


def reference_slopes(axes: Axes, slopes: Iterable[float], x: NDArray[np.float64], heights: NDArray[np.float64]) -> None:
    """Draw dashed lines of given slopes on log-log axes, fanning out from above the curves to the right edge.

    A falling line stops at the lowest point drawn.

    Parameters
    ----------
    axes : Axes
    slopes : iterable of float
    x, heights : arrays (N,)
        All points drawn.
    """
    drawn = heights > negligible(heights)
    if not drawn.any():
        return
    end, first = float(x.max()), float(x[drawn].min())
    start = min(np.sqrt(first * end), end / 10)
    if start < first:
        return
    near = drawn & (x >= start / 1.5) & (x <= start * 1.5)
    if not near.any():  # few points: those at the next abscissa
        near = drawn & (x == x[drawn & (x > start)].min())
    base, lowest = 1.5 * float(heights[near].max()), float(heights[drawn].min())
    for slope in slopes:
        last, top = end, base * (end / start) ** slope
        where: dict[str, Any] = {"xytext": (2, 0), "ha": "left", "va": "center"}
        if top < lowest:  # a steeply falling line ends where it would leave the curves' range
            last, top = start * (lowest / base) ** (1 / slope), lowest
            where = {"xytext": (0, -2), "ha": "center", "va": "top"}
        axes.plot([start, last], [base, top], color="0.45", linewidth=0.7, linestyle=(0, (3, 2)), zorder=1.5)
        axes.annotate(
            slope_words(slope), (last, top), **where, textcoords="offset points", fontsize=6, color="0.35",
            annotation_clip=False,
        )  # fmt: skip


def slope_words(slope: float) -> str:
    """Return a slope as a fraction where it is one: ``2/3``."""
    fraction = Fraction(slope).limit_denominator(12)
    words = str(fraction) if abs(fraction - slope) < 1e-6 else f"{slope:.3g}"
    return words.replace("-", "\N{MINUS SIGN}")
