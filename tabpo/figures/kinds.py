"""The kinds of figure that a config's ``[figure]`` table and the command line name, and their options."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tabpo.errors import InvalidInputError, nearest, unknown
from tabpo.figures.axes import SCALES
from tabpo.figures.canvas import WIDTHS, PaperFigure
from tabpo.figures.curves import BANDS, METRICS, Curve, HasCurves
from tabpo.figures.delay import ABSCISSAS, regret_against_delay
from tabpo.figures.regret import per_episode_regret, regret
from tabpo.figures.setting import regret_against_setting
from tabpo.statistics import METHODS

KINDS: dict[str, Callable[..., PaperFigure]] = {
    "regret": regret,
    "per-episode": per_episode_regret,
    "delay": regret_against_delay,
    "setting": regret_against_setting,
}

CHOICES: dict[str, Iterable[str]] = {
    "metric": METRICS,
    "scale": SCALES,
    "band": BANDS,
    "method": METHODS,
    "abscissa": ABSCISSAS,
}
EXAMPLES = {"setting": ", such as learner.step_size or n_episodes"}
FILTERS = ("mdp", "losses", "delays", "learner", "n_episodes", "partial")


def draw(results: HasCurves | Iterable[Curve], kind: str = "regret", **options: Any) -> PaperFigure:
    """Return a figure by the name of its kind: ``"regret"``, ``"per-episode"``, ``"delay"`` or ``"setting"``.

    Parameters
    ----------
    results : Results or iterable of Curve
    kind : str
    **options
        Of :func:`tabpo.figures.regret`, :func:`~tabpo.figures.per_episode_regret`,
        :func:`~tabpo.figures.regret_against_delay` or :func:`~tabpo.figures.regret_against_setting`.

    Raises
    ------
    InvalidInputError
        If the kind or an option does not exist, or as the figure's function says.
    """
    check(kind, options)
    return KINDS[kind](results, **options)


def check(kind: str, options: Mapping[str, Any]) -> None:
    """Raise a sentence if the kind, an option's name or its choice does not exist; before a long sweep, say.

    Raises
    ------
    InvalidInputError
    """
    if not isinstance(kind, str) or kind not in KINDS:
        raise unknown("kind of figure", kind, KINDS)
    parameters = {
        name: one for name, one in inspect.signature(KINDS[kind]).parameters.items() if one.kind is one.KEYWORD_ONLY
    }
    known = list(parameters)
    for name, one in parameters.items():
        if one.default is one.empty and name not in options:
            raise InvalidInputError(f"figure {kind!r} needs the option {name!r}{EXAMPLES.get(name, '')}")
    for name, value in options.items():
        # A dotted name filters by a setting, such as learner.step_size.
        if name not in known and name not in FILTERS and "." not in name:
            listed = f"(options: {', '.join(known)}; filters: {', '.join(FILTERS)})"
            raise InvalidInputError(
                f"unknown option {name!r} of figure {kind!r}{nearest(name, [*known, *FILTERS])} {listed}"
            )
        if name in CHOICES and value not in CHOICES[name]:
            raise unknown(name, value, CHOICES[name])
        if name == "width" and isinstance(value, str) and value not in WIDTHS:
            raise unknown("figure width", value, WIDTHS)
        if name == "level" and not (isinstance(value, float) and 0 < value < 1):
            raise InvalidInputError(f"level must lie between 0 and 1, such as 0.95, got {value!r}")
