"""Loss sequences that change: a best policy that switches or stays while all means move, smooth drift, random walks."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tabpo.environments.checks import check_number
from tabpo.environments.losses_base import (
    Indices,
    MeansInOrder,
    Noise,
    RealisedLosses,
    check_gap,
    check_noise,
    means_with_gap,
    no_switches,
    random_best_actions,
)
from tabpo.errors import InvalidInputError
from tabpo.mdp import Array, TabularMDP, positive_integer


@dataclass(frozen=True)
class SwitchingLosses:
    """Adversarial: the best action of every step and state changes at each switch.

    In a regime the best actions' mean is ``base - gap`` and every other's ``base``. At a switch each best action is
    replaced by another one, drawn uniformly.

    Parameters
    ----------
    period : int, at least 1, optional
        Switch every so many episodes.
    n_switches : int, at least 0, optional
        Switch so often, at equal distances: at episodes ``i K // (n_switches + 1)``. Give one of the two.
    gap, base : float
        As in :class:`BernoulliLosses`.
    noise : "none" or "bernoulli"
    """

    period: int | None = None
    n_switches: int | None = None
    gap: float = 0.2
    base: float = 0.5
    noise: Noise = "none"

    def __post_init__(self) -> None:
        if (self.period is None) == (self.n_switches is None):
            raise InvalidInputError(
                f"give either period or n_switches, got period={self.period} and n_switches={self.n_switches}"
            )
        if self.period is not None:
            positive_integer("period", self.period)
        if self.n_switches is not None:
            positive_integer("n_switches", self.n_switches, at_least=0)
        check_gap(self.base, self.gap)
        check_noise(self.noise)

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses:
        """Return the losses; raise an InvalidInputError if the best action cannot change so often."""
        switches = self._switches(n_episodes)
        if len(switches) and mdp.n_actions < 2:
            raise InvalidInputError("switching losses need an MDP with at least 2 actions, this one has 1")
        return _Regimes(rng, self, mdp, switches)

    def _switches(self, n_episodes: int) -> Indices:
        if self.period is not None:
            return np.arange(self.period, n_episodes, self.period, dtype=np.int64)
        n_switches = self.n_switches or 0
        if n_switches >= n_episodes:
            raise InvalidInputError(f"n_switches must be below n_episodes = {n_episodes}, got {n_switches}")
        return np.arange(1, n_switches + 1, dtype=np.int64) * n_episodes // (n_switches + 1)


class _Regimes(MeansInOrder):
    """One regime after the other; a position is a regime."""

    def __init__(self, rng: np.random.Generator, sequence: SwitchingLosses, mdp: TabularMDP, switches: Indices) -> None:
        super().__init__(rng, sequence.noise, switches)
        self._sequence, self._mdp = sequence, mdp

    def _position_of(self, k: int) -> int:
        return int(np.searchsorted(self.switches, k, side="right"))

    def _first(self) -> Array:
        self._best = random_best_actions(self._mdp, self._rng)
        return self._regime()

    def _next(self) -> Array:
        step = self._rng.integers(1, self._mdp.n_actions, size=self._best.shape)
        self._best = (self._best + step) % self._mdp.n_actions
        return self._regime()

    def _regime(self) -> Array:
        return means_with_gap(self._best, self._mdp.n_actions, self._sequence.base, self._sequence.gap)


@dataclass(frozen=True)
class StochasticallyConstrainedLosses:
    """Stochastically constrained adversary: all means jump together in ever longer phases, gaps stay.

    The best action of every step and state is drawn uniformly and stays the best. Phase n = 0, 1, 2, ... lasts
    ``first * growth**n`` episodes, rounded. In even phases the best actions' mean is 0 and every other's ``gap``, in
    odd ones they are ``1 - gap`` and 1. The advantage Q(a) - V of every other action is ``gap`` in each episode, so
    that policies have the regret that they have under :class:`BernoulliLosses` with this gap: the self-bounding regime
    with corruption 0. But a learner that compares losses of different phases is misled.

    Parameters
    ----------
    gap : float, in [0, 1]
    growth : float, at least 1
        Of the phases' lengths.
    first : int, at least 1
        Episodes of the first phase.
    noise : "none" or "bernoulli"

    References
    ----------
    Wei and Luo (2018), "More adaptive algorithms for adversarial bandits", for the regime.
    Zimmert and Seldin (2021), "Tsallis-INF: an optimal algorithm for stochastic and adversarial bandits", experiments,
    for these phases in bandits.
    """

    gap: float = 0.3
    growth: float = 1.6
    first: int = 1
    noise: Noise = "none"

    def __post_init__(self) -> None:
        check_number("gap", self.gap, 0, 1)
        check_number("growth", self.growth, 1)
        positive_integer("first", self.first)
        check_noise(self.noise)

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses:
        """Return the losses; see :class:`LossSequence`."""
        best = random_best_actions(mdp, rng)
        means = np.stack([means_with_gap(best, mdp.n_actions, base, self.gap) for base in (self.gap, 1.0)])
        return _Phases(means, self.noise, self._switches(n_episodes))

    def _switches(self, n_episodes: int) -> Indices:
        starts, end, length = [], self.first, float(self.first)
        while end < n_episodes:
            starts.append(end)
            length *= self.growth
            end += round(min(length, n_episodes))
        return np.array(starts, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class _Phases:
    """Two means (2, H, S, A) that take turns, the other one after every switch."""

    means: Array
    noise: Noise
    switches: Indices

    def mean(self, k: int) -> Array:
        means: Array = self.means[np.searchsorted(self.switches, k, side="right") % 2]
        return means


@dataclass(frozen=True)
class SinusoidalLosses:
    """Smooth drift: every mean is a sinusoid in the episode, with a phase of its own drawn at random.

    The mean of (h, s, a) in episode k is ``base + amplitude sin(2 pi k / period + phase(h, s, a))``.

    Parameters
    ----------
    period : float, above 0
        In episodes.
    amplitude : float, in [0, min(base, 1 - base)]
    base : float, in [0, 1]
    noise : "none" or "bernoulli"
    """

    period: float
    amplitude: float = 0.3
    base: float = 0.5
    noise: Noise = "none"

    def __post_init__(self) -> None:
        check_number("period", self.period, 0, open_below=True)
        check_number("base", self.base, 0, 1)
        check_number("amplitude", self.amplitude, 0, min(self.base, 1 - self.base))
        check_noise(self.noise)

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses:
        """Return the losses; see :class:`LossSequence`."""
        return _Sinusoids(self, rng.uniform(0, 2 * math.pi, mdp.shape))


@dataclass(frozen=True, eq=False)
class _Sinusoids:
    sequence: SinusoidalLosses
    phases: Array

    @property
    def noise(self) -> Noise:
        return self.sequence.noise

    @property
    def switches(self) -> Indices:
        return no_switches()

    def mean(self, k: int) -> Array:
        angle = 2 * math.pi * math.fmod(k, self.sequence.period) / self.sequence.period
        return self.sequence.base + self.sequence.amplitude * np.sin(self.phases + angle)


@dataclass(frozen=True)
class RandomWalkLosses:
    """Rough drift: every mean is a Gaussian random walk over the episodes, reflected at 0 and 1.

    Walks start uniformly in [0, 1], the law that reflection keeps: every mean is uniform in every episode.

    Parameters
    ----------
    sigma : float, at least 0
        Standard deviation of a step, per episode.
    noise : "none" or "bernoulli"
    """

    sigma: float = 0.01
    noise: Noise = "none"

    def __post_init__(self) -> None:
        check_number("sigma", self.sigma, 0)
        check_noise(self.noise)

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses:
        """Return the losses; see :class:`LossSequence`."""
        return _RandomWalks(rng, self, mdp)


class _RandomWalks(MeansInOrder):
    """One step per episode; a position is an episode."""

    def __init__(self, rng: np.random.Generator, sequence: RandomWalkLosses, mdp: TabularMDP) -> None:
        super().__init__(rng, sequence.noise)
        self._sigma, self._shape = sequence.sigma, mdp.shape

    def _first(self) -> Array:
        return self._rng.random(self._shape)

    def _next(self) -> Array:
        moved = self._means + self._sigma * self._rng.standard_normal(self._shape)
        reflected: Array = 1 - np.abs(1 - np.mod(moved, 2.0))  # mirrors at 0 and 1, however far the step went
        return reflected
