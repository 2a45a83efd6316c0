"""What a loss sequence is, and the forms in which losses are held during a simulation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, get_args, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from tabpo.environments.checks import check_number
from tabpo.errors import InvalidInputError, unknown
from tabpo.mdp import Array, TabularMDP

Noise = Literal["none", "bernoulli"]
Indices = NDArray[np.int64]


class RealisedLosses(Protocol):
    """The losses of one simulation: oblivious, and the same for all its runs."""

    @property
    def noise(self) -> Noise:
        """What the learner sees: the mean itself, or an independent Bernoulli draw with that mean."""

    @property
    def switches(self) -> Indices:
        """First episodes of new regimes, increasing; may be empty."""

    def mean(self, k: int) -> Array:
        """Return the mean losses of episode ``k``, (H, S, A) in [0, 1]; called with k = 0, 1, 2, ... in order."""


@runtime_checkable
class Adversary(Protocol):
    """Realised losses that adapt: chosen with the policy of the episode in sight (not its actions), each run's own."""

    @property
    def noise(self) -> Noise:
        """As of :class:`RealisedLosses`."""

    @property
    def switches(self) -> Indices:
        """As of :class:`RealisedLosses`; the same for all runs."""

    def respond(self, k: int, policy: Any) -> Any:
        """Return the mean losses of episode ``k``, (H, S, A, R) in [0, 1], for the policies (H, S, A, R) of its runs.

        Called with k = 0, 1, 2, ... in order. A run's losses depend on that run's policies only. Policies may be
        arrays of any library (see :mod:`tabpo.arrays`), and are not written to.
        """


class LossSequence(Protocol):
    """A recipe for the losses of a simulation."""

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses | Adversary:
        """Return the losses of ``n_episodes`` episodes, or the adversary that chooses them as the episodes are played.

        Both are functions of the generator's numbers.
        """


def no_switches() -> Indices:
    """Return an empty array of episodes."""
    return np.empty(0, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ConstantMeans:
    """The same mean losses (H, S, A) in every episode."""

    means: Array
    noise: Noise = "none"
    switches: Indices = field(default_factory=no_switches)

    def mean(self, k: int) -> Array:
        """Return the mean losses (H, S, A)."""
        return self.means


@dataclass(frozen=True, eq=False)
class ListedMeans:
    """Mean losses (N, H, S, A) in memory, and which of the N each of the K episodes has.

    ``which=None`` stands for 0, 1, 2, ...
    """

    means: Array
    noise: Noise = "none"
    switches: Indices = field(default_factory=no_switches)
    which: NDArray[np.integer] | None = None

    def mean(self, k: int) -> Array:
        """Return the mean losses (H, S, A) of episode ``k``."""
        means: Array = self.means[k if self.which is None else self.which[k]]
        return means


class MeansInOrder(ABC):
    """Mean losses that are made one after the other from a generator's numbers, and not kept.

    Memory does not grow with K. Asking for an earlier position starts again from a copy of the generator, so that
    every position has one value, in whatever order they are asked for.
    """

    def __init__(self, rng: np.random.Generator, noise: Noise, switches: Indices | None = None) -> None:
        self.noise: Noise = noise
        self.switches = no_switches() if switches is None else switches
        self._origin = deepcopy(rng)
        self._position = -1

    def mean(self, k: int) -> Array:
        """Return the mean losses (H, S, A) of episode ``k``."""
        position = self._position_of(k)
        if self._position < 0 or position < self._position:
            self._rng = deepcopy(self._origin)
            self._means = self._first()
            self._position = 0
        while self._position < position:
            self._means = self._next()
            self._position += 1
        return self._means

    def _position_of(self, k: int) -> int:
        return k

    @abstractmethod
    def _first(self) -> Array:
        """Return the means at position 0."""

    @abstractmethod
    def _next(self) -> Array:
        """Return the means at the next position."""


def check_noise(noise: object) -> None:
    """Raise an InvalidInputError unless ``noise`` is one of the known kinds."""
    if noise not in get_args(Noise):
        raise unknown("noise", noise, get_args(Noise))


def random_best_actions(mdp: TabularMDP, rng: np.random.Generator) -> Indices:
    """Return an action (H, S) drawn uniformly for each step and state."""
    return rng.integers(mdp.n_actions, size=(mdp.horizon, mdp.n_states))


def means_with_gap(best: Indices, n_actions: int, base: float, gap: float) -> Array:
    """Return losses (H, S, A): ``base - gap`` for the best actions (H, S), ``base`` for all others.

    Whatever the transitions, playing the best actions is optimal, and every other action costs ``gap`` once: its
    advantage over the best one, Q(a) - V, is ``gap`` at every step and state.
    """
    means = np.full((*best.shape, n_actions), float(base))
    np.put_along_axis(means, best[..., None], float(base) - float(gap), axis=-1)
    return means


def check_gap(base: float, gap: float) -> None:
    """Raise an InvalidInputError unless ``base`` and ``base - gap`` are in [0, 1] and the gap is not negative."""
    check_number("base", base, 0, 1)
    check_number("gap", gap, 0, 1)
    if gap > base:
        raise InvalidInputError(f"gap must be at most base = {base:g} (the best loss is base - gap), got {gap:g}")
