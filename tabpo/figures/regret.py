"""Regret curves over episodes, with bands over runs."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from tabpo.errors import InvalidInputError
from tabpo.figures.axes import (
    Scale,
    frame_log_axes,
    label_axes,
    label_rows,
    negligible,
    panels,
    reference_slopes,
    set_scale,
    smallest_drawn,
)
from tabpo.figures.canvas import PaperFigure, Width, legends_below, style
from tabpo.figures.curves import (
    METRICS,
    Band,
    Curve,
    Facet,
    HasCurves,
    band_of,
    band_words,
    curves_of,
    distinct,
    facets,
    looks_of,
    metric_label,
    note_handles,
)
from tabpo.figures.palette import Look

Array = NDArray[np.float64]

MOST_LEARNERS = 20
USUAL_SLOPES = (1 / 2, 2 / 3, 1.0)


def regret(
    results: HasCurves | Iterable[Curve],
    *,
    metric: str = "regret",
    scale: Scale = "linear",
    log_episodes: bool | None = None,
    first_episode: int = 0,
    highest: float | None = None,
    band: Band = "t",
    level: float = 0.95,
    slopes: Sequence[float] | None = None,
    across: Sequence[str] = ("delays",),
    down: Sequence[str] = ("mdp", "losses", "n_episodes"),
    share_y: bool = True,
    width: Width | float | None = None,
    **filters: Any,
) -> PaperFigure:
    """Return the figure of cumulative regret: a panel per environment, a curve per learner, a band over runs.

    Parameters
    ----------
    results : Results or iterable of Curve
    metric : str
        ``"regret"`` against each checkpoint's own best policy, ``"regret_per_root"``, the same over the root of the
        number of episodes, ``"final_regret"`` against the best policy of all episodes, ``"expected_loss"`` or
        ``"sampled_loss"``.
    scale : "linear", "log" or "symlog"
        Of the y axis. A log axis cannot show what is not positive: such points are left out, a band is cut at
        the axis, and the legend says so. ``"symlog"`` shows everything, linear about 0.
    log_episodes : bool, optional
        Logarithmic x axis; default: where the y axis is not linear. With a linear y axis, what grows like the
        logarithm of the episodes is then a straight line.
    first_episode : int
        Checkpoints before it are left out: on a log axis, they are most of the width.
    highest : float, above 0, optional
        A linear y axis ends there, and the legend names the learners that leave it.
    band : "t", "bootstrap", "percentile", "simultaneous" or "none"
        Pointwise intervals, or the band that holds the whole mean curve; the legend names it.
    level : float in (0, 1)
    slopes : sequence of float, optional
        Dashed reference slopes on log-log axes; default 1/2, 2/3 and 1, an empty sequence for none.
    across, down : sequences of str
        The labels whose combinations make columns and rows of panels.
    share_y : bool
        Panels of a row share the y axis.
    width : "one-column" (3.25 in), "two-column" (6.75 in) or inches
    **filters
        Which results to draw, such as ``learner=["dapo", "d_oppo"]`` or ``mdp="FrozenLake"``.

    Raises
    ------
    InvalidInputError
        If an option is unknown, nothing is left to draw, or there are more learners than a figure can tell
        apart.
    """
    found = [starting(one, first_episode) for one in curves_of(results, metric, **filters)]
    log_x = scale != "linear" if log_episodes is None else log_episodes
    options = CurveOptions(scale, log_x, band, level, USUAL_SLOPES if slopes is None else tuple(slopes), highest)
    y = metric_label(metric)
    return _figure(results, found, options, y, METRICS[metric], (tuple(across), tuple(down)), share_y, width)


def per_episode_regret(
    results: HasCurves | Iterable[Curve],
    *,
    metric: str = "regret",
    scale: Scale = "linear",
    log_episodes: bool = True,
    first_episode: int = 0,
    band: Band = "t",
    level: float = 0.95,
    slopes: Sequence[float] | None = None,
    across: Sequence[str] = ("delays",),
    down: Sequence[str] = ("mdp", "losses", "n_episodes"),
    share_y: bool = True,
    width: Width | float | None = None,
    **filters: Any,
) -> PaperFigure:
    """Return the figure of regret per episode, R_t / t, which goes to 0 for a learner without regret.

    Parameters and errors as in :func:`regret`; the reference slopes of a log-log figure are -1/2, -1/3 by
    default.
    """
    found = [_per_episode(starting(one, first_episode)) for one in curves_of(results, metric, **filters)]
    chosen = tuple(slopes) if slopes is not None else (-1 / 2, -1 / 3)
    options = CurveOptions(scale, log_episodes, band, level, chosen)
    y = "Regret per episode $R_t/t$ (loss units)" if "regret" in metric else "Mean loss per episode (loss units)"
    name = f"{METRICS[metric]} per episode"
    return _figure(results, found, options, y, name, (tuple(across), tuple(down)), share_y, width)


def starting(curve: Curve, first_episode: int) -> Curve:
    """Return a curve from an episode on; raise an InvalidInputError if nothing is left."""
    kept = curve.episodes >= first_episode
    if not kept.any():
        raise InvalidInputError(
            f"first_episode = {first_episode} lies beyond the last checkpoint, {curve.episodes[-1]:g}; nothing is left"
        )
    return replace(curve, episodes=curve.episodes[kept], values=curve.values[kept])


def _per_episode(curve: Curve) -> Curve:
    return replace(curve, values=curve.values / curve.episodes[:, None])


@dataclass(frozen=True)
class CurveOptions:
    """How curves are drawn.

    Attributes
    ----------
    scale, log_x, band, level, highest
        As ``scale``, ``log_episodes``, ... of :func:`regret`.
    slopes : tuple of float
        Dashed reference slopes, on log-log axes only.
    """

    scale: str
    log_x: bool
    band: str
    level: float
    slopes: tuple[float, ...] = ()
    highest: float | None = None

    def __post_init__(self) -> None:
        if self.highest is not None and (self.scale != "linear" or not self.highest > 0):
            raise InvalidInputError(
                f"highest ends a linear axis above 0, got highest={self.highest!r} with scale={self.scale!r}"
            )


def _figure(
    source: Any,
    found: list[Curve],
    options: CurveOptions,
    y: str,
    name: str,
    layout: tuple[tuple[str, ...], tuple[str, ...]],
    share_y: bool,
    width: Width | float | None,
) -> PaperFigure:
    learners = distinct(one.learner for one in found)
    if len(learners) > MOST_LEARNERS:
        raise InvalidInputError(
            f"{len(learners)} learners are more than a figure can tell apart (at most {MOST_LEARNERS}); "
            f"choose some, such as learner={learners[:2]}"
        )
    looks = looks_of(source, found)
    all_facets = list(facets(found, *layout))
    with style():
        figure, all_axes = panels(all_facets, width, share_y)
        notes: list[str] = []
        for facet, axes in zip(all_facets, all_axes, strict=True):
            notes += draw_curves(axes, facet, looks, options)
        frame_log_axes(all_axes, [smallest_drawn(means_of(facet)) for facet in all_facets])
        label_axes(all_axes, "Episode", y)
        words = band_words(found, options.band, options.level)
        handles: list[Artist] = [Line2D([], [], label=learner, **looks[learner].line_style()) for learner in learners]
        notes = distinct(notes)
        shaded = options.band != "none" and any(one.n_runs > 1 for one in found)
        middle = legends_below(figure, handles, note_handles([words], shaded), note_handles(notes, False))
        label_rows(figure, all_axes, y, middle)
    figure.caption = " ".join([f"{name}: mean over runs, {words}.", *(f"{one}." for one in notes)])
    return figure


def draw_curves(axes: Axes, facet: Facet, looks: dict[str, Look], options: CurveOptions) -> list[str]:
    """Draw a panel's curves and return what the legend must say about what is not seen."""
    bands = [band_of(one.values, options.band, options.level) for one in facet.curves]
    heights = means_of(facet)
    linear = set_scale(axes, options.scale, heights, options.log_x)
    floor = negligible(heights)
    # matplotlib drops a band's polygon where a corner has no logarithm: cut it below the axis instead.
    cut = 1e-6 * smallest_drawn(heights)
    notes = [f"axis linear within ±{linear:g}"] if linear else []
    for place, (curve, (mean, lower, upper)) in enumerate(zip(facet.curves, bands, strict=True)):
        if options.scale == "log":
            notes += _hidden(curve.learner, mean <= floor)
            mean, upper = (np.where(line > floor, line, np.nan) for line in (mean, upper))
            lower = np.where(lower > floor, lower, cut)
        look, n_drawn = looks[curve.learner], int(np.isfinite(mean).sum())
        if n_drawn == 0:
            continue
        # Few markers, and those of different curves side by side.
        every = (0.04 + 0.36 * place / len(facet.curves), 0.36) if n_drawn > 8 else None
        axes.plot(curve.episodes, mean, markevery=every, zorder=3, **look.line_style())
        if np.isfinite(upper).any():
            axes.fill_between(curve.episodes, lower, upper, color=look.colour, alpha=0.2, linewidth=0, zorder=2)
    if options.slopes and options.scale == "log" and options.log_x:
        x = np.concatenate([one.episodes for one in facet.curves])
        reference_slopes(axes, options.slopes, x, heights)
    if options.highest is not None:
        _end_axis(axes, options.highest)
        for curve, (mean, _, _) in zip(facet.curves, bands, strict=True):
            if mean.max() > options.highest:
                notes.append(f"{curve.learner}: leaves the axis, up to {mean.max():.4g}")
    return notes


def _end_axis(axes: Axes, highest: float) -> None:
    """End a linear y axis at the top, with a margin below what is drawn in it and in the panels that share it."""
    lowest = min(float(one.dataLim.y0) for one in axes.get_shared_y_axes().get_siblings(axes))
    axes.set_ylim(lowest - 0.05 * (highest - lowest), highest)


def means_of(facet: Facet) -> Array:
    """Return the means over runs of all of a panel's curves, (N,)."""
    return np.concatenate([one.values.mean(-1) for one in facet.curves])


def _hidden(learner: str, hidden: NDArray[np.bool_]) -> list[str]:
    """Return the sentence on what a log axis cannot show."""
    if not hidden.any():
        return []
    return [f"{learner}: not drawn where at or below 0"]
