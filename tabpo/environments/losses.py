"""Loss sequences: the mean losses of every episode, chosen before the first one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.errors import InvalidInputError, unknown
from tabpo.mdp import Array, TabularMDP, unit_interval

Noise = Literal["none", "bernoulli"]


class RealisedLosses(Protocol):
    """The losses of one simulation: oblivious, and the same for all its runs."""

    @property
    def noise(self) -> Noise:
        """What the learner sees: the mean itself, or an independent Bernoulli draw with that mean."""

    @property
    def switches(self) -> NDArray[np.int64]:
        """First episodes of new regimes, increasing; may be empty."""

    def mean(self, k: int) -> Array:
        """Return the mean losses of episode ``k``, (H, S, A) in [0, 1]; called with k = 0, 1, 2, ... in order."""


class LossSequence(Protocol):
    """A recipe for the losses of a simulation."""

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses:
        """Return the losses of ``n_episodes`` episodes, a function of the generator's numbers."""


def no_switches() -> NDArray[np.int64]:
    """Return an empty array of episodes."""
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ConstantLosses:
    """The same mean losses (H, S, A) in every episode."""

    means: Array
    noise: Noise = "none"
    switches: NDArray[np.int64] = field(default_factory=no_switches)

    def mean(self, k: int) -> Array:
        """Return the mean losses (H, S, A)."""
        return self.means


@dataclass(frozen=True, eq=False)
class ListedLosses:
    """Mean losses (K, H, S, A) that are all in memory."""

    means: Array
    noise: Noise = "none"
    switches: NDArray[np.int64] = field(default_factory=no_switches)

    def mean(self, k: int) -> Array:
        """Return the mean losses (H, S, A) of episode ``k``."""
        return self.means[k]


@dataclass(frozen=True, eq=False)
class ArrayLosses:
    """A given array: (H, S, A) for every episode, or (K, H, S, A), one per episode.

    Parameters
    ----------
    losses : array-like, (H, S, A) or (at least K, H, S, A), in [0, 1]
    noise : "none" or "bernoulli"
    """

    losses: ArrayLike
    noise: Noise = "none"

    def __post_init__(self) -> None:
        if self.noise not in ("none", "bernoulli"):
            raise unknown("noise", self.noise, ("none", "bernoulli"))
        axes = "k h s a" if np.ndim(self.losses) == 4 else "h s a"
        object.__setattr__(self, "losses", unit_interval("losses", self.losses, axes))

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses:
        """Return the array's losses; raise an InvalidInputError if its shape does not fit."""
        losses = np.asarray(self.losses)
        if losses.shape[-3:] != mdp.shape:
            raise InvalidInputError(f"losses must end in (H, S, A) = {mdp.shape}, got shape {losses.shape}")
        if losses.ndim == 3:
            return ConstantLosses(losses, self.noise)
        if losses.shape[0] < n_episodes:
            raise InvalidInputError(f"losses has {losses.shape[0]} episodes, but n_episodes is {n_episodes}")
        return ListedLosses(losses[:n_episodes], self.noise)


LOSSES: dict[str, Callable[..., LossSequence]] = {"array": ArrayLosses}
