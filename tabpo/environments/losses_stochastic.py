"""Stochastic loss sequences: Bernoulli losses with a gap, corrupted ones, and ones that are hard to learn from."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal, get_args

import numpy as np

from tabpo.environments.checks import check_number
from tabpo.environments.losses_base import (
    ConstantMeans,
    Indices,
    ListedMeans,
    RealisedLosses,
    check_gap,
    means_with_gap,
    random_best_actions,
)
from tabpo.errors import InvalidInputError, unknown
from tabpo.mdp import TabularMDP, positive_integer

Attack = Literal["worst", "reversed"]


@dataclass(frozen=True)
class BernoulliLosses:
    """Stochastic: Bernoulli losses with one best action, drawn at random, per step and state.

    The best action's mean is ``base - gap``, every other's ``base``. Playing the best actions is optimal whatever
    the transitions, and ``gap`` is the advantage Q(a) - V of every other action: the gap of regret bounds. The best
    policy's loss in K episodes, L* of first-order bounds, is ``H K (base - gap)`` whatever the transitions: small for
    a ``base`` little above the gap, and 0 for ``base = gap``.

    Parameters
    ----------
    gap : float, in [0, base]
    base : float, in [0, 1]
    """

    gap: float = 0.2
    base: float = 0.5

    def __post_init__(self) -> None:
        check_gap(self.base, self.gap)

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses:
        """Return the losses; see :class:`LossSequence`."""
        best = random_best_actions(mdp, rng)
        return ConstantMeans(means_with_gap(best, mdp.n_actions, self.base, self.gap), "bernoulli")


@dataclass(frozen=True)
class CorruptedLosses:
    """Stochastic with a corruption budget: an adversary makes the best action look worst in some episodes.

    Without corruption these are the losses l of :class:`BernoulliLosses` (the same best actions for the same
    generator). In a corrupted episode the means are w: 1 for the best actions and 0 for all others, or, if the attack
    only reverses the roles, ``base`` for the best actions and ``base - gap`` for all others. In the last corrupted
    one they are ``l + x (w - l)`` with the x that meets the budget exactly. The corruption is

        C = sum over k of max over (h, s, a) of ``|l^k(h, s, a) - l(h, s, a)|``,

    the one of Lykouris et al. (2018), taken over means and over all steps; to reverse N episodes takes ``C = N gap``.
    Here every step has the same maximum, so that the corruption that adds the steps' maxima (as in Jin et al., 2021)
    is H C, and :meth:`self_bounding_constant` is 2 H C. Regret counts the corrupted losses.

    Parameters
    ----------
    budget : float, at least 0
        C.
    gap, base : float
        As in :class:`BernoulliLosses`.
    episodes : increasing ints, optional
        Which episodes the adversary may use, in this order; by default the first ones.
    attack : "worst" or "reversed"
        What the means w are.

    References
    ----------
    Lykouris, Mirrokni and Paes Leme (2018), "Stochastic bandits robust to adversarial corruptions".
    Jin, Huang and Luo (2021), "The best of both worlds: stochastic and adversarial episodic MDPs with unknown
    transition".
    """

    budget: float
    gap: float = 0.2
    base: float = 0.5
    episodes: tuple[int, ...] | None = None
    attack: Attack = "worst"

    def __post_init__(self) -> None:
        check_number("budget", self.budget, 0)
        check_gap(self.base, self.gap)
        if self.attack not in get_args(Attack):
            raise unknown("attack", self.attack, get_args(Attack))
        if self.attack == "reversed" and self.budget > 0 and self.gap == 0:
            raise InvalidInputError(f"without a gap there is nothing to reverse for a budget of {self.budget:g}")
        if self.episodes is not None:
            episodes = tuple(positive_integer("episodes: each", k, at_least=0) for k in self.episodes)
            if any(later <= earlier for earlier, later in pairwise(episodes)):
                raise InvalidInputError(f"episodes must increase, got {list(episodes)}")
            object.__setattr__(self, "episodes", episodes)

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses:
        """Return the losses; raise an InvalidInputError if the episodes are too few to spend the budget."""
        if mdp.n_actions < 2:
            raise InvalidInputError("corrupted losses need an MDP with at least 2 actions, this one has 1")
        best = random_best_actions(mdp, rng)
        clean = means_with_gap(best, mdp.n_actions, self.base, self.gap)
        if self.attack == "worst":
            attacked = means_with_gap(best, mdp.n_actions, 0.0, -1.0)
        else:
            attacked = means_with_gap(best, mdp.n_actions, self.base - self.gap, -self.gap)
        per_episode = float(np.abs(attacked - clean).max())
        share = self.budget / per_episode if self.budget else 0.0
        n_corrupted = math.ceil(share * (1 - 1e-12))  # 153.6 / 0.3 stands for 512, whatever its rounding
        last_share = min(share - (n_corrupted - 1), 1.0)
        means = np.stack([clean, attacked, clean + last_share * (attacked - clean)])
        corrupted = self._corrupted(n_corrupted, n_episodes, per_episode)
        which = np.zeros(n_episodes, dtype=np.int8)
        which[corrupted] = 1
        which[corrupted[-1:]] = 2
        switches = np.flatnonzero(np.diff(which > 0)) + 1
        return ListedMeans(means, "bernoulli", switches, which)

    def self_bounding_constant(self, horizon: int) -> float:
        """Return the constant of the self-bounding regime in which the losses lie, ``2 H C``.

        Regret is at least ``gap`` times the expected number of steps at which other than the best actions are played,
        minus this constant; in general it is ``2 sum_k sum_h max_{s, a} |l^k_h(s, a) - l_h(s, a)|``.
        """
        return 2 * horizon * self.budget

    def _corrupted(self, n_corrupted: int, n_episodes: int, per_episode: float) -> Indices:
        if self.episodes is None:
            allowed = np.arange(min(n_corrupted, n_episodes))
        else:
            allowed = np.array([k for k in self.episodes if k < n_episodes], dtype=np.int64)
        if len(allowed) < n_corrupted:
            raise InvalidInputError(
                f"a corruption budget of {self.budget:g} needs {n_corrupted} episodes of at most {per_episode:g} each, "
                f"and {len(allowed)} of the {n_episodes} can be corrupted; lower the budget"
            )
        return allowed[:n_corrupted]


@dataclass(frozen=True)
class HardLosses:
    """Lower bound: Bernoulli losses with a hidden best action per step and state and a gap too small to find it.

    Means are 1/2, less ``min(scale * sqrt(S (A - 1) / K), 1/4)`` for the best actions. Per step, a state is met in
    about K / S episodes, so each (h, s) is a bandit of that many rounds; with n rounds and A arms, gaps of
    ``sqrt((A - 1) / (4 n))`` make every learner pay at least ``sqrt((A - 1) n) / 27`` (Lattimore and Szepesvari,
    Theorem 15.2, for Gaussian losses; Auer et al. for Bernoulli ones). That gap is ``scale = 1/2``, and the sum over
    H S bandits is of order ``H sqrt(S A K)``. States that are met less often than others are harder still.

    Parameters
    ----------
    scale : float, at least 0

    References
    ----------
    Auer, Cesa-Bianchi, Freund and Schapire (2002), "The nonstochastic multiarmed bandit problem", Theorem 5.1.
    Lattimore and Szepesvari (2020), "Bandit algorithms", Theorem 15.2.
    """

    scale: float = 0.5

    def __post_init__(self) -> None:
        check_number("scale", self.scale, 0)

    def gap(self, mdp: TabularMDP, n_episodes: int) -> float:
        """Return the gap for an MDP and a number of episodes."""
        return min(self.scale * math.sqrt(mdp.n_states * (mdp.n_actions - 1) / n_episodes), 0.25)

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> RealisedLosses:
        """Return the losses; see :class:`LossSequence`."""
        best = random_best_actions(mdp, rng)
        return ConstantMeans(means_with_gap(best, mdp.n_actions, 0.5, self.gap(mdp, n_episodes)), "bernoulli")
