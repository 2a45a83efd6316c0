"""Losses that an adaptive adversary chooses, with the policies of the episode in sight."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tabpo.arrays import Array, namespace
from tabpo.environments.checks import check_number
from tabpo.environments.losses_base import Adversary, Indices, Noise, check_noise
from tabpo.mdp import TabularMDP


@dataclass(frozen=True)
class AdaptiveLosses:
    """Adaptive adversary: in every episode, at every step and state, the likeliest action costs most.

    Of every (h, s), the action that the episode's policy plays with the largest probability (the lowest of several
    such) has mean ``high``, all others ``low``. The losses are each run's own, and so is the best fixed policy in
    hindsight that its regret compares with. Whatever a learner plays, its expected loss is at least
    ``low + (high - low) / A`` a step. The adversary chooses afresh in every episode, so that every episode but the
    first is a switch (for adversarial delays).

    Parameters
    ----------
    high : float, in [low, 1]
    low : float, in [0, 1]
    noise : "none" or "bernoulli"
    """

    high: float = 1.0
    low: float = 0.0
    noise: Noise = "none"

    def __post_init__(self) -> None:
        check_number("low", self.low, 0, 1)
        check_number("high", self.high, self.low, 1)
        check_noise(self.noise)

    def realise(self, mdp: TabularMDP, n_episodes: int, rng: np.random.Generator) -> Adversary:
        """Return the adversary; see :class:`LossSequence`."""
        return _LikeliestAction(self, np.arange(1, n_episodes, dtype=np.int64))


@dataclass(frozen=True, eq=False)
class _LikeliestAction:
    sequence: AdaptiveLosses
    switches: Indices

    @property
    def noise(self) -> Noise:
        return self.sequence.noise

    def respond(self, k: int, policy: Array) -> Array:
        xp = namespace(policy)
        actions = xp.arange(policy.shape[2], device=getattr(policy, "device", None))[None, None, :, None]
        likeliest = xp.astype(actions == xp.argmax(policy, axis=2, keepdims=True), policy.dtype)
        return self.sequence.high * likeliest + self.sequence.low * (1.0 - likeliest)
