"""Regret after the last episode against the total delay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from tabpo.errors import InvalidInputError, unknown
from tabpo.figures.canvas import PaperFigure, Width
from tabpo.figures.curves import METRICS, Curve, Facet, HasCurves, curves_of, distinct, facets, looks_of, metric_label
from tabpo.figures.palette import Look
from tabpo.figures.points import Points, Scales, points_figure, points_of
from tabpo.statistics import Method

Abscissa = Literal["total_delay", "episodes_plus_delay"]

ABSCISSAS: dict[str, str] = {
    "total_delay": "Total delay $D$ (episodes)",
    "episodes_plus_delay": "$K + D$ (episodes)",
}


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
        As in :func:`tabpo.figures.regret`; ``"law"`` is the label of the delays without the numbers of its grid, and
        makes a panel per delay law.

    Raises
    ------
    InvalidInputError
        If an option is unknown, or nothing is left to draw.
    """
    found = curves_of(results, metric, **filters)
    looks = looks_of(results, found)
    all_facets = list(facets(found, tuple(across), tuple(down)))
    points = [_points_of(facet, abscissa, looks) for facet in all_facets]
    when = moment(found)
    words = {
        "x": ABSCISSAS[abscissa],
        "y": metric_label(metric),
        "zero": "total delay 0",
        "when": when,
        "caption": f"{METRICS[metric]} {when} against the delay",
    }
    scales = Scales(True, "log", method, level, tuple(slopes))
    return points_figure(all_facets, points, scales, words, share_y, width)


def moment(curves: Iterable[Curve]) -> str:
    """Return the words for when final values are measured."""
    lengths = distinct(one.n_episodes for one in curves)
    return f"after {lengths[0]} episodes" if len(lengths) == 1 else "after the last episode"


def delay_slopes(
    results: HasCurves | Iterable[Curve],
    *,
    metric: str = "regret",
    abscissa: Abscissa = "total_delay",
    level: float = 0.95,
    across: Sequence[str] = ("mdp",),
    down: Sequence[str] = ("losses", "n_episodes"),
    **filters: Any,
) -> pd.DataFrame:
    """Return how fast regret grows with the total delay: fitted slopes on log-log axes, one row per panel and learner.

    The slope is fitted per run over the delays above 0 (:func:`tabpo.statistics.log_log_slope`), its interval
    is over runs.

    Parameters and errors as in :func:`regret_against_delay`.

    Returns
    -------
    DataFrame
        With columns ``mdp``, ``losses``, ``n_episodes`` (and others that make panels), ``learner``, ``delays`` (how
        many), ``slope``, ``lower``, ``upper``, ``runs``; NaN where there is no slope to fit (fewer than two delays
        above 0, or a run whose regret is not above 0).
    """
    rows = []
    found = curves_of(results, metric, **filters)
    looks = looks_of(results, found)
    names = distinct(["mdp", "losses", "n_episodes", *across, *down])
    for facet in facets(found, tuple(across), tuple(down)):
        first = facet.curves[0]
        for one in _points_of(facet, abscissa, looks):
            slope = one.slope(level)
            mean, lower, upper = (slope.mean, slope.lower, slope.upper) if slope else (np.nan,) * 3
            rows.append(
                {name: getattr(first, name) for name in names}
                | {
                    "learner": one.learner,
                    "delays": len(one.x),
                    "slope": mean,
                    "lower": lower,
                    "upper": upper,
                    "runs": min(len(runs) for runs in one.values),
                }
            )
    return pd.DataFrame(rows)


def _points_of(facet: Facet, abscissa: str, looks: dict[str, Look]) -> list[Points]:
    if abscissa not in ABSCISSAS:
        raise unknown("abscissa", abscissa, ABSCISSAS)
    found = []
    for learner in distinct(one.learner for one in facet.curves):
        curves = [one for one in facet.curves if one.learner == learner]
        for one in curves:
            if not np.isfinite(one.total_delay):
                raise InvalidInputError(f"the curve of {learner!r} has no total_delay to be drawn against")
        offset = [one.n_episodes if abscissa == "episodes_plus_delay" else 0 for one in curves]
        x = [one.total_delay + more for one, more in zip(curves, offset, strict=True)]
        found.append(points_of(learner, curves, x, looks[learner]))
    return found
