"""Figures whose panels show different things of the same learners, under one legend."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

from tabpo.errors import InvalidInputError
from tabpo.figures.axes import Scale, frame_log_axes, smallest_drawn
from tabpo.figures.canvas import PaperFigure, Width, inches, legends_below, new_figure, style
from tabpo.figures.curves import (
    Curve,
    Facet,
    HasCurves,
    Metric,
    band_words,
    curves_of,
    distinct,
    looks_of,
    metric_label,
    note_handles,
)
from tabpo.figures.palette import Look
from tabpo.figures.points import Scales, draw_points
from tabpo.figures.regret import CurveOptions, draw_curves, means_of, starting
from tabpo.figures.setting import WORDS, column_of, freed, points_along
from tabpo.statistics import Method


@dataclass(frozen=True, eq=False)
class Panel:
    """What one panel of a mosaic shows: curves over the episodes, or values after the last one against a setting.

    Parameters
    ----------
    title : str
    results : Results or iterable of Curve
        With one curve per learner, or per learner and value of the setting.
    setting : str, optional
        As in :func:`tabpo.figures.regret_against_setting`; without one, the panel is as :func:`tabpo.figures.regret`.
    metric, scale, slopes
        As in both.
    log_x : bool
    first_episode, highest
        As in :func:`tabpo.figures.regret`; of a panel without a setting.
    filters : mapping
        Which results, such as ``{"losses": "stochastic"}``.
    """

    title: str
    results: HasCurves | Iterable[Curve]
    setting: str | None = None
    metric: Metric = "regret"
    scale: Scale = "linear"
    slopes: Sequence[float] = ()
    log_x: bool = False
    first_episode: int = 0
    highest: float | None = None
    filters: Mapping[str, Any] = field(default_factory=dict)


def mosaic(
    panels: Sequence[Panel],
    *,
    columns: int = 3,
    method: Method = "t",
    level: float = 0.95,
    width: Width | float = "two-column",
) -> PaperFigure:
    """Return one figure of several panels (a), (b), ..., each with axes of its own, in rows from left to right.

    A learner is recognised by its label, and looks the same in all panels.

    Parameters
    ----------
    panels : sequence of Panel
    columns : int, at least 1
        Panels in a row.
    method : "t", "bootstrap" or "percentile"
        Of the pointwise intervals over runs: bands around curves, bars at values.
    level : float in (0, 1)
    width : "one-column" (3.25 in), "two-column" (6.75 in) or inches

    Raises
    ------
    InvalidInputError
        If there is no panel, a panel has nothing to draw or two curves of one learner, or an option is unknown.
    """
    if not panels or columns < 1:
        raise InvalidInputError(f"a mosaic needs a panel and a column, got {len(panels)} and {columns}")
    found = [_curves_of(panel) for panel in panels]
    everything = [one for curves in found for one in curves]
    looks = looks_of(None, everything)
    with style():
        figure, all_axes = _grid(len(panels), min(columns, len(panels)), inches(width))
        notes: list[str] = []
        titles: list[str] = []
        for place, (panel, curves, axes) in enumerate(zip(panels, found, all_axes, strict=True)):
            letter = f"({chr(ord('a') + place)})"
            titles.append(f"{letter} {panel.title}")
            axes.set_title(titles[-1])
            notes += [f"{letter} {note}" for note in _draw(axes, panel, curves, looks, method, level)]
        learners = distinct(one.learner for one in everything)
        handles: list[Artist] = [Line2D([], [], label=learner, **looks[learner].line_style()) for learner in learners]
        words = f"{_shapes(panels)}: {band_words(everything, method, level)}"
        shaded = any(panel.setting is None for panel in panels) and any(one.n_runs > 1 for one in everything)
        legends_below(figure, handles, note_handles([words], shaded), note_handles(notes, False))
    figure.caption = " ".join([f"{'; '.join(titles)}. Means over runs; {words}.", *(f"{one}." for one in notes)])
    return figure


def _shapes(panels: Sequence[Panel]) -> str:
    """Return how the intervals are drawn."""
    shapes = {"bands": any(one.setting is None for one in panels), "bars": any(one.setting for one in panels)}
    return " and ".join(shape for shape, there in shapes.items() if there)


def _curves_of(panel: Panel) -> list[Curve]:
    found = curves_of(panel.results, panel.metric, **panel.filters)
    if panel.setting is not None:
        return freed(found, column_of(found, panel.setting))
    learners = [one.learner for one in found]
    repeated = next((one for one in learners if learners.count(one) > 1), None)
    if repeated is not None:
        raise InvalidInputError(
            f"panel {panel.title!r} has {learners.count(repeated)} curves of {repeated!r}; choose one with filters"
        )
    return [starting(one, panel.first_episode) for one in found]


def _grid(n_panels: int, columns: int, width: float) -> tuple[PaperFigure, list[Axes]]:
    rows = math.ceil(n_panels / columns)
    panel_width = width / columns - 0.35
    figure = new_figure(width, rows * (max(1.1, 0.78 * panel_width) + 0.5))
    grid = figure.subplots(rows, columns, squeeze=False).ravel().tolist()
    for axes in grid[n_panels:]:
        axes.remove()
    return figure, grid[:n_panels]


def _draw(
    axes: Axes, panel: Panel, curves: list[Curve], looks: dict[str, Look], method: Method, level: float
) -> list[str]:
    axes.set_ylabel(metric_label(panel.metric))
    if panel.setting is None:
        axes.set_xlabel("Episode")
        facet = Facet(0, 0, "", "", tuple(curves))
        options = CurveOptions(panel.scale, panel.log_x, method, level, tuple(panel.slopes), panel.highest)
        notes, smallest = draw_curves(axes, facet, looks, options), smallest_drawn(means_of(facet))
    else:
        column = column_of(curves, panel.setting)
        axes.set_xlabel(WORDS.get(column, column))
        scales = Scales(panel.log_x, panel.scale, method, level, panel.slopes)
        smallest, notes = draw_points(axes, points_along(curves, column, looks), scales, f"{column} at or below 0")
    frame_log_axes([axes], [smallest])
    return notes
