"""What figures draw: one curve per grid point of a sweep, with its band over runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

import numpy as np
from matplotlib.patches import Patch
from numpy.typing import ArrayLike, NDArray

from tabpo.errors import InvalidInputError, unknown
from tabpo.figures.palette import Look, looks, without_values
from tabpo.statistics import METHODS, interval, simultaneous_band

Array = NDArray[np.float64]
Metric = Literal["regret", "regret_per_root", "final_regret", "expected_loss", "sampled_loss"]
Band = Literal["t", "bootstrap", "percentile", "simultaneous", "none"]

METRICS: dict[str, str] = {
    "regret": "Cumulative regret",
    "regret_per_root": "Regret / √t",
    "final_regret": "Regret against the final comparator",
    "expected_loss": "Cumulative expected loss",
    "sampled_loss": "Cumulative sampled loss",
}
"""What can be drawn, with the words for its axis; all in units of loss."""

DERIVED: dict[str, tuple[str, Callable[[Array], Array]]] = {"regret_per_root": ("regret", np.sqrt)}
"""Metrics that are another one over a function of the number of episodes: flat where that is how the other grows."""

BANDS: dict[str, str] = {name: f"pointwise {words}" for name, words in METHODS.items()}
BANDS |= {"simultaneous": "simultaneous bootstrap band", "none": "mean"}


def metric_label(metric: str) -> str:
    """Return what an axis calls a metric."""
    return f"{METRICS[metric]} (loss units)".replace("√t", r"$\sqrt{t}$")


class HasCurves(Protocol):
    """The part of :class:`tabpo.sweep.results.Results` that figures need."""

    def curves(self, metric: str = ..., **filters: Any) -> Iterable[tuple[Any, ArrayLike, ArrayLike]]:
        """Yield (key, episodes (C,), values (C, R)) per grid point."""


@dataclass(frozen=True, eq=False)
class Curve:
    """One learner in one environment: a value per checkpoint and run.

    Parameters
    ----------
    learner : str
        Its label; the colour follows it.
    episodes : array-like (C,)
        Completed episodes at each checkpoint, increasing.
    values : array-like (C, R) or (C,)
    mdp, losses, delays : str
        Labels; what varies among the curves makes the panels.
    n_episodes : int
        K; default: the last checkpoint.
    total_delay : float
        D = sum of the delays, in episodes.
    kind : str
        The registered name of the learner, where the label says something else.
    settings : mapping
        By column name, such as ``learner.step_size``.
    """

    learner: str
    episodes: Array
    values: Array
    mdp: str = ""
    losses: str = ""
    delays: str = ""
    n_episodes: int = 0
    total_delay: float = float("nan")
    kind: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        episodes = np.asarray(self.episodes, dtype=np.float64)
        values = np.asarray(self.values, dtype=np.float64)
        values = values[:, None] if values.ndim == 1 else values
        if episodes.ndim != 1 or episodes.size == 0 or values.shape[:1] != episodes.shape or values.ndim != 2:
            raise InvalidInputError(
                f"the curve of {self.learner!r} needs episodes (C,) and values (C, R), "
                f"got {episodes.shape} and {values.shape}"
            )
        if (np.diff(episodes) <= 0).any():
            raise InvalidInputError(f"the checkpoints of the curve of {self.learner!r} must increase")
        for name, value in (("episodes", episodes), ("values", values)):
            object.__setattr__(self, name, value)
        object.__setattr__(self, "n_episodes", self.n_episodes or int(episodes[-1]))
        object.__setattr__(self, "kind", self.kind or self.learner)

    @property
    def law(self) -> str:
        """The label of the delays without the numbers that a grid runs over: the delay law."""
        return without_values(self.delays)

    @property
    def n_runs(self) -> int:
        """R."""
        return int(self.values.shape[1])


def curves_of(source: HasCurves | Iterable[Curve], metric: str = "regret", **filters: Any) -> list[Curve]:
    """Return the curves of a sweep's results, or those given, as a list.

    Curves that are given hold the regret, or what else the metric derives from.

    Raises
    ------
    InvalidInputError
        If the metric is unknown or nothing is left to draw.
    """
    if metric not in METRICS:
        raise unknown("metric", metric, METRICS)
    stored, divisor = DERIVED.get(metric, (metric, np.ones_like))
    if hasattr(source, "curves"):
        found = [_curve(*one) for one in source.curves(stored, **filters)]
    else:
        found = [one for one in source if _passes(one, filters)]
    if not found:
        chosen = ", ".join(f"{name}={value!r}" for name, value in filters.items())
        raise InvalidInputError("there is no finished curve to draw" + (f" with {chosen}" if chosen else ""))
    return [replace(one, values=one.values / divisor(one.episodes)[:, None]) for one in found]


def looks_of(source: Any, curves: Iterable[Curve], dropped: Sequence[str] = ()) -> dict[str, Look]:
    """Return the learners' looks: those that they have in a figure of all of the source's learners.

    A figure of some learners so shows each as the figure of all of them does. ``dropped`` are grid parameters whose
    values the curves' labels have lost, since an axis shows them.
    """
    told = {one.learner: (one.kind, one.settings) for one in curves}
    manifest = getattr(source, "manifest", None)
    if manifest is not None and "learner" in manifest:
        columns = [str(name) for name in manifest.columns if str(name).startswith("learner.")]
        rows = manifest[["learner", *columns]].drop_duplicates("learner")
        for label, *values in rows.itertuples(index=False, name=None):
            settings = dict(zip(columns, values, strict=True))
            name = without_values(str(label), *dropped) if dropped else str(label)
            told[name] = (str(settings.get("learner.kind", label)), settings)
    kinds, all_settings = zip(*told.values(), strict=True) if told else ((), ())
    return looks(told, kinds, all_settings)


def band_of(values: Array, band: str, level: float) -> tuple[Array, Array, Array]:
    """Return (mean, lower, upper) over runs, the last axis of ``values`` (C, R); NaN bounds for no band."""
    if band not in BANDS:
        raise unknown("band", band, BANDS)
    if band == "simultaneous":
        return simultaneous_band(values, level)
    if band == "none":
        mean = values.mean(-1)
        return mean, np.full_like(mean, np.nan), np.full_like(mean, np.nan)
    return interval(values, level, band)  # type: ignore[arg-type]


def band_words(curves: Iterable[Curve], band: str, level: float) -> str:
    """Return what a legend says about the band: its kind, level and number of runs."""
    counts = sorted({one.n_runs for one in curves})
    runs = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]}–{counts[-1]}"
    if counts[-1] == 1:
        return "single run, no interval"
    if band == "none":
        return f"mean of {runs} runs"
    return f"{percent(level)} {BANDS[band]}, {runs} runs"


def note_handles(words: Iterable[str], shaded: bool) -> list[Patch]:
    """Return legend entries of words alone, or after a patch as grey as the bands."""
    face = {"facecolor": "0.75", "alpha": 0.6} if shaded else {"facecolor": "none"}
    return [Patch(edgecolor="none", label=one, **face) for one in words]


def percent(level: float) -> str:
    """Return a level in percent, such as ``95%``."""
    return f"{100 * level:.6g}%"


def distinct(values: Iterable[Any]) -> list[Any]:
    """Return the different values in order of first appearance."""
    return list(dict.fromkeys(values))


def _curve(key: Any, episodes: ArrayLike, values: ArrayLike) -> Curve:
    names = ("learner", "mdp", "losses", "delays", "n_episodes", "total_delay", "learner.kind")
    told = {name: _entry(key, name) for name in names}
    kind = told.pop("learner.kind")
    given = {name: value for name, value in told.items() if value is not None}
    settings = key if isinstance(key, Mapping) else getattr(key, "settings", {})
    return Curve(episodes=episodes, values=values, kind=kind or "", settings=settings, **given)  # type: ignore[arg-type]


def _entry(key: Any, name: str) -> Any:
    if isinstance(key, Mapping):
        return key.get(name)
    told = getattr(key, name, None)
    return told if told is not None else getattr(key, "settings", {}).get(name)


def _passes(curve: Curve, filters: Mapping[str, Any]) -> bool:
    for name, wanted in filters.items():
        if not hasattr(curve, name):
            raise unknown("filter", name, Curve.__dataclass_fields__)
        allowed = wanted if isinstance(wanted, (list, tuple, set)) else [wanted]
        if getattr(curve, name) not in allowed:
            return False
    return True


@dataclass(frozen=True)
class Facet:
    """A panel's place and what is in it."""

    row: int
    column: int
    row_title: str
    column_title: str
    curves: tuple[Curve, ...]


def facets(curves: list[Curve], across: tuple[str, ...], down: tuple[str, ...]) -> Iterator[Facet]:
    """Yield a panel per combination of the labels; labels that do not vary are left out of the titles.

    Parameters
    ----------
    curves : list of Curve
    across, down : names of the curves' labels
        Their combinations make the columns and the rows. Panels that nothing belongs to are left out.
    """
    columns = distinct(tuple(getattr(one, name) for name in across) for one in curves)
    rows = distinct(tuple(getattr(one, name) for name in down) for one in curves)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            inside = tuple(
                one
                for one in curves
                if tuple(getattr(one, name) for name in down) == row
                and tuple(getattr(one, name) for name in across) == column
            )
            if inside:
                yield Facet(i, j, _title(down, row, rows), _title(across, column, columns), inside)


def _title(names: tuple[str, ...], labels: tuple[Any, ...], all_labels: list[tuple[Any, ...]]) -> str:
    words = []
    for place, (name, label) in enumerate(zip(names, labels, strict=True)):
        if len({other[place] for other in all_labels}) > 1:
            words.append(f"K = {label:,}".replace(",", "\u2009") if name == "n_episodes" else str(label))
    return ", ".join(words)
