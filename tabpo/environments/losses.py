"""Loss sequences: the mean losses of every episode, chosen before the first one or by an adversary as they are played.

A loss sequence is a small frozen object with a method ``realise(mdp, n_episodes, rng)``; what it returns hands out
the mean losses episode by episode, or answers the policies of every episode with losses. What is random about it comes
from the generator and from nothing else.
"""

from __future__ import annotations

import math
import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.environments.losses_adaptive import AdaptiveLosses
from tabpo.environments.losses_base import (
    Adversary,
    ConstantMeans,
    ListedMeans,
    LossSequence,
    Noise,
    RealisedLosses,
    check_noise,
)
from tabpo.environments.losses_changing import (
    RandomWalkLosses,
    SinusoidalLosses,
    StochasticallyConstrainedLosses,
    SwitchingLosses,
)
from tabpo.environments.losses_stochastic import BernoulliLosses, CorruptedLosses, HardLosses
from tabpo.environments.tables import TABLES, existing_file, read_columns, whole_numbers
from tabpo.errors import InvalidInputError, nearest
from tabpo.mdp import TabularMDP, unit_interval

ARRAY_FILES = (".npy", ".npz")
INDEX_COLUMNS = ("step", "state", "action")


@dataclass(frozen=True)
class EnvironmentLosses:
    """The MDP's own losses, the same in every episode.

    Parameters
    ----------
    noise : "none" or "bernoulli"
    """

    noise: Noise = "none"

    def __post_init__(self) -> None:
        check_noise(self.noise)

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses:
        """Return the losses; raise an InvalidInputError if the MDP has none."""
        if mdp.losses is None:
            raise InvalidInputError(f"the MDP {mdp.name!r} has no losses of its own; choose a loss sequence")
        return ConstantMeans(mdp.losses, self.noise)


@dataclass(frozen=True, eq=False)
class ArrayLosses:
    """A given array: (H, S, A) for every episode, or (K, H, S, A), one per episode.

    Parameters
    ----------
    losses : array-like, (H, S, A) or (at least K, H, S, A), in [0, 1]
        Of more than K episodes the first K are used.
    noise : "none" or "bernoulli"
    """

    losses: ArrayLike
    noise: Noise = "none"

    def __post_init__(self) -> None:
        check_noise(self.noise)
        object.__setattr__(self, "losses", _checked("losses", self.losses))

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses:
        """Return the losses; raise an InvalidInputError if the array's shape does not fit."""
        return _from_array("losses", np.asarray(self.losses), self.noise, mdp, n_episodes)


@dataclass(frozen=True)
class FileLosses:
    """A file with losses: an array (.npy, .npz), or a table (.csv, .parquet) with a row per loss.

    A table has the columns ``step``, ``state``, ``action`` and ``loss``, and ``episode`` if the losses change;
    all count from 0. Each combination occurs once. An array is as in :class:`ArrayLosses`.

    Parameters
    ----------
    path : str or Path
    noise : "none" or "bernoulli"
    key : str, optional
        Which array of an .npz file; needed if it has several.
    """

    path: str | Path
    noise: Noise = "none"
    key: str | None = None

    def __post_init__(self) -> None:
        check_noise(self.noise)
        existing_file(self.path, (*ARRAY_FILES, *TABLES))

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses:
        """Return the losses; raise an InvalidInputError if the file does not hold losses that fit."""
        path = existing_file(self.path, (*ARRAY_FILES, *TABLES))
        if path.suffix.lower() in ARRAY_FILES:
            losses = _checked(f"the array in {path.name!r}", _stored_array(path, self.key))
        else:
            losses = _checked(f"the loss in {path.name!r}", _tabulated(path, mdp))
        return _from_array(f"the array in {path.name!r}", losses, self.noise, mdp, n_episodes)


def _checked(name: str, values: ArrayLike) -> NDArray[np.float64]:
    return unit_interval(name, values, "k h s a" if np.ndim(values) == 4 else "h s a")


def _from_array(
    name: str, losses: NDArray[np.float64], noise: Noise, mdp: TabularMDP, n_episodes: int
) -> RealisedLosses:
    if losses.shape[-3:] != mdp.shape:
        raise InvalidInputError(
            f"{name} must have the shape (H, S, A) = {mdp.shape}, or (K, H, S, A), got {losses.shape}"
        )
    if losses.ndim == 3:
        return ConstantMeans(losses, noise)
    if len(losses) < n_episodes:
        raise InvalidInputError(f"{name} has losses for {len(losses)} episodes, but n_episodes is {n_episodes}")
    return ListedMeans(losses[:n_episodes], noise)


def _stored_array(path: Path, key: str | None) -> NDArray[Any]:
    try:
        with path.open("rb") as file:  # NumPy leaves a file that it opened itself open if it is no archive
            stored = np.load(file, allow_pickle=False)
            return stored if isinstance(stored, np.ndarray) else stored[_array_name(path, list(stored.files), key)]
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{path.name!r} cannot be read as a NumPy array: {error}") from None


def _array_name(path: Path, names: list[str], key: str | None) -> str:
    if key is None and len(names) == 1:
        return names[0]
    if key is None or key not in names:
        raise InvalidInputError(
            f"{path.name!r} holds the arrays {names}; key must name one, got {key!r}{nearest(str(key), names)}"
        )
    return key


def _tabulated(path: Path, mdp: TabularMDP) -> NDArray[np.float64]:
    """Return a table's losses as an array (H, S, A), or (K, H, S, A) if it has episodes."""
    columns = read_columns(path, (*INDEX_COLUMNS, "loss"), optional=("episode",))
    limits = dict(zip(INDEX_COLUMNS, mdp.shape, strict=True))
    n_rows = len(columns["loss"])
    if "episode" in columns:
        whole_numbers(path, "episode", columns["episode"], n_rows)
        limits = {"episode": int(columns["episode"].max()) + 1, **limits}
    shape = tuple(limits.values())
    index = [whole_numbers(path, name, columns[name], limit) for name, limit in limits.items()]
    flat = np.ravel_multi_index(index, shape)
    order = np.argsort(flat, kind="stable")
    # With one row each, the sorted positions are 0, 1, 2, ...; the first deviation is a missing or a second row.
    wrong = np.flatnonzero(flat[order] != np.arange(n_rows))
    if len(wrong) or n_rows != math.prod(shape):
        first = int(wrong[0]) if len(wrong) else n_rows
        twice = first < n_rows and flat[order[first]] < first
        at = np.unravel_index(first - 1 if twice else first, shape)
        where = ", ".join(f"{name} {int(i)}" for name, i in zip(limits, at, strict=True))
        raise InvalidInputError(f"{path.name!r} has {'two rows' if twice else 'no row'} for {where}; it needs one")
    return columns["loss"][order].reshape(shape)


LOSSES: dict[str, Callable[..., LossSequence]] = {
    "adaptive": AdaptiveLosses,
    "array": ArrayLosses,
    "bernoulli": BernoulliLosses,
    "corrupted": CorruptedLosses,
    "environment": EnvironmentLosses,
    "file": FileLosses,
    "hard": HardLosses,
    "random_walk": RandomWalkLosses,
    "sinusoidal": SinusoidalLosses,
    "stochastically_constrained": StochasticallyConstrainedLosses,
    "switching": SwitchingLosses,
}

__all__ = [
    "LOSSES",
    "AdaptiveLosses",
    "Adversary",
    "ArrayLosses",
    "BernoulliLosses",
    "CorruptedLosses",
    "EnvironmentLosses",
    "FileLosses",
    "HardLosses",
    "LossSequence",
    "Noise",
    "RandomWalkLosses",
    "RealisedLosses",
    "SinusoidalLosses",
    "StochasticallyConstrainedLosses",
    "SwitchingLosses",
]
