"""A metric after the last episode against a numeric setting, such as the step size or the number of episodes."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from tabpo.errors import InvalidInputError, unknown
from tabpo.figures.axes import Scale
from tabpo.figures.canvas import PaperFigure, Width
from tabpo.figures.curves import METRICS, Curve, Facet, HasCurves, curves_of, distinct, facets, looks_of, metric_label
from tabpo.figures.delay import moment
from tabpo.figures.palette import Look, without_values
from tabpo.figures.points import Points, Scales, points_figure, points_of
from tabpo.statistics import Method

LABELS = {"mdp": "mdp", "losses": "losses", "delays": "delays", "learner": "learner"}
"""The label that a setting belongs to, by the beginning of the setting's name."""

WORDS = {
    "n_episodes": "Episodes $K$",
    "learner.step_size": r"Step size $\eta$",
    "learner.step_scale": "Multiple of the tuned step size",
    "learner.exploration": r"Implicit exploration $\gamma$",
    "learner.bonus_scale": "Multiple of the bonus",
    "losses.gap": "Gap of the losses",
    "losses.budget": "Corruption $C$",
    "losses.best_loss": "Loss of the best policy, $L^*/K$",
    "delays.delay": "Delay (episodes)",
    "delays.mean": "Mean delay (episodes)",
    "mdp.horizon": "Horizon $H$",
    "mdp.n_states": "States $S$",
    "mdp.n_actions": "Actions $A$",
}
"""What axes call settings; any other is called by its name."""


def regret_against_setting(
    results: HasCurves | Iterable[Curve],
    *,
    setting: str,
    metric: str = "regret",
    scale: Scale = "linear",
    log_setting: bool | None = None,
    method: Method = "t",
    level: float = 0.95,
    slopes: Sequence[float] | None = None,
    across: Sequence[str] = ("delays",),
    down: Sequence[str] = ("mdp", "losses", "n_episodes"),
    share_y: bool = True,
    width: Width | float | None = None,
    **filters: Any,
) -> PaperFigure:
    """Return the figure of a metric after the last episode against a numeric setting, with a line per learner.

    A point is the mean over runs with its pointwise interval; the marker at a line's lowest mean is filled. A
    learner without the setting is drawn as a level over the whole width, with its interval as a band.

    Parameters
    ----------
    results : Results or iterable of Curve
    setting : str
        A numeric column of the manifest, such as ``"learner.step_size"``, ``"delays.mean"`` or ``"n_episodes"``; the
        end of its name, such as ``"step_size"``, is enough where no other ends so. What a learner computes itself
        (a step size that is tuned) counts too.
    metric : str
        As in :func:`tabpo.figures.regret`.
    scale : "linear", "log" or "symlog"
        Of the y axis.
    log_setting : bool, optional
        Logarithmic x axis; default: where all values are above 0 and the largest is at least four times the least.
    method : "t", "bootstrap" or "percentile"
    level : float in (0, 1)
    slopes : sequence of float, optional
        Dashed reference slopes on log-log axes, with which the legend of a single panel tells the fitted ones; default
        1/2, and none for a learner's settings, in which regret has no rate.
    across, down, share_y, width, **filters
        As in :func:`tabpo.figures.regret`.

    Raises
    ------
    InvalidInputError
        If an option is unknown, no learner has the setting as a number, or nothing is left to draw.
    """
    found = curves_of(results, metric, **filters)
    column = column_of(found, setting)
    all_facets, points = _points(results, found, column, tuple(across), tuple(down))
    x = np.concatenate([one.x for inside in points for one in inside])
    x = x[np.isfinite(x)]
    log_x = bool(x.min() > 0 and x.max() >= 4 * x.min()) if log_setting is None else log_setting
    when = moment(found)
    words = {
        "x": WORDS.get(column, column),
        "y": metric_label(metric),
        "zero": f"{setting} at or below 0",
        "when": when,
        "caption": f"{METRICS[metric]} {when} against {column}",
    }
    of_learner = column.startswith("learner.")
    chosen = (() if of_learner else (1 / 2,)) if slopes is None else tuple(slopes)
    scales = Scales(log_x, scale, method, level, chosen, mark_lowest=of_learner)
    return points_figure(all_facets, points, scales, words, share_y, width)


def setting_slopes(
    results: HasCurves | Iterable[Curve],
    *,
    setting: str,
    metric: str = "regret",
    level: float = 0.95,
    **filters: Any,
) -> pd.DataFrame:
    """Return how fast a metric grows with a setting: fitted slopes on log-log axes, one row per line of the figure.

    Parameters and errors as in :func:`regret_against_setting`.

    Returns
    -------
    DataFrame
        With columns ``mdp``, ``losses``, ``delays``, ``learner``, ``points`` (how many), ``slope``, ``lower``,
        ``upper``, ``runs``; NaN where there is no slope to fit.
    """
    found = curves_of(results, metric, **filters)
    column = column_of(found, setting)
    rows = []
    for facet, inside in zip(
        *_points(results, found, column, ("mdp", "losses", "delays"), ("n_episodes",)), strict=True
    ):
        first = facet.curves[0]
        for one in inside:
            slope = one.slope(level)
            mean, lower, upper = (slope.mean, slope.lower, slope.upper) if slope else (np.nan,) * 3
            told = {name: getattr(first, name) for name in ("mdp", "losses", "delays")}
            told |= {"learner": one.learner, "points": len(one.x), "slope": mean, "lower": lower, "upper": upper}
            rows.append(told | {"runs": min(len(runs) for runs in one.values)})
    return pd.DataFrame(rows)


def column_of(curves: Iterable[Curve], setting: str) -> str:
    """Return the full name of a setting that some curve has as a number.

    Raises
    ------
    InvalidInputError
        If there is none, or its end names several.
    """
    if setting in ("n_episodes", "total_delay"):
        return setting
    numeric = distinct(
        name for one in curves for name in one.settings if value_of(one, name) is not None and "." in name
    )
    if setting in numeric:
        return setting
    ending = [name for name in numeric if name.endswith(f".{setting}")]
    if len(ending) > 1:
        raise InvalidInputError(f"the setting {setting!r} could be {' or '.join(map(repr, ending))}; write one of them")
    if not ending:
        raise unknown("numeric setting", setting, ["n_episodes", "total_delay", *numeric])
    return str(ending[0])


def value_of(curve: Curve, column: str) -> float | None:
    """Return a setting of a curve as a number, None where it has none."""
    value = getattr(curve, column) if column in ("n_episodes", "total_delay") else curve.settings.get(column)
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (numbers.Real, np.number)):
        return None
    return float(value) if np.isfinite(float(value)) else None


def _points(
    source: Any, found: list[Curve], column: str, across: tuple[str, ...], down: tuple[str, ...]
) -> tuple[list[Facet], list[list[Points]]]:
    """Return the panels and their points; labels are freed of the setting's values, so that these make no panels."""
    across, down = (tuple(name for name in names if name != column) for names in (across, down))
    found = freed(found, column)
    keys = (column.partition(".")[2],) if column.startswith("learner.") else ()
    all_looks = looks_of(source, found, keys)
    all_facets = list(facets(found, across, down))
    return all_facets, [points_along(facet.curves, column, all_looks) for facet in all_facets]


def freed(curves: list[Curve], column: str) -> list[Curve]:
    """Return the curves with labels that are free of a setting's values."""
    section, _, key = column.partition(".")
    label = LABELS.get(section) if key else None
    if label is None:
        return curves
    words = [{label: without_values(getattr(one, label), key)} for one in curves]
    return [replace(one, **told) for one, told in zip(curves, words, strict=True)]  # type: ignore[arg-type]


def points_along(all_curves: Sequence[Curve], column: str, all_looks: dict[str, Look]) -> list[Points]:
    """Return the points of each learner of a panel against a setting; raise if it has two at one value."""
    found = []
    for learner in distinct(one.learner for one in all_curves):
        curves = [one for one in all_curves if one.learner == learner]
        values = [value_of(one, column) for one in curves]
        x = [np.nan if value is None else value for value in values]
        if len(set(x)) < len(x) and not np.isnan(x).any():
            raise InvalidInputError(
                f"the line of {learner!r} has two points at {column} = {next(v for v in x if x.count(v) > 1):g}; "
                "choose among them with a filter"
            )
        found.append(points_of(learner, curves, x, all_looks[learner]))
    return found
