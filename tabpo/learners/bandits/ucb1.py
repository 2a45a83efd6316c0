"""UCB1, the arm of the least optimistic loss (Auer, Cesa-Bianchi, Fischer, Machine Learning 2002)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tabpo.arrays import Array, namespace
from tabpo.learners.bandits.arms import add_to_played, zeros_per_arm
from tabpo.learners.protocol import Arrivals, Problem, per_run


@dataclass(frozen=True)
class UCB1Parameters:
    """Parameters of :class:`UCB1`.

    Attributes
    ----------
    width_scale : float or (R,), at least 0
        Multiplies the confidence widths ``sqrt(2 ln t / N)``.
    """

    width_scale: float | list[float] = 1.0

    def resolve(self, problem: Problem) -> Array:
        """Return the width scale, shape (R,)."""
        return per_run("width_scale", self.width_scale, problem)


class UCB1:
    """Bandits (H = S = 1): plays the arm whose mean loss could be lowest; the baseline for stochastic losses.

    With A arms and independent losses in [0, 1] the regret after T episodes is at most the sum over arms with a gap of
    ``8 ln T / gap + (1 + pi^2 / 3) gap``; adversarial losses can make it linear, since the policy is deterministic.

    Delayed losses count when they arrive. Until every arm of a run has a loss, the run plays the arms in turn, arm k
    modulo A in episode k: without delays that is each arm once. Ties go to the lowest arm.

    Raises
    ------
    InvalidInputError
        If the problem has more than one step or state, or the scale is negative.

    References
    ----------
    Auer, Cesa-Bianchi and Fischer (2002), "Finite-time analysis of the multiarmed bandit problem", Figure 1 and
    Theorem 1, for rewards.
    """

    Parameters = UCB1Parameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.losses = zeros_per_arm(problem, "ucb1")
        self.counts = zeros_per_arm(problem, "ucb1")  # N, of losses that have arrived
        self.width_scale = UCB1Parameters(**parameters).resolve(problem)

    def act(self, k: int) -> Array:
        """Return the policy that plays the chosen arm, shape (1, 1, A, R)."""
        xp = namespace(self.losses)
        heard = self.counts > 0
        counts = xp.where(heard, self.counts, 1.0)
        # argmin_a mean_a - sqrt(2 ln t / N_a) after t = k episodes
        width = self.width_scale * xp.sqrt(2.0 * math.log(max(k, 1)) / counts)
        best = xp.argmin(self.losses / counts - width, axis=2, keepdims=True)
        n_arms = self.losses.shape[2]
        arm = xp.where(xp.all(heard, axis=2, keepdims=True), best, k % n_arms)
        arms = xp.arange(n_arms, device=getattr(self.losses, "device", None))
        return xp.astype(arms[:, None] == arm, self.losses.dtype)

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Count the losses of all arrivals."""
        for j in arrivals:
            self.losses = add_to_played(self.losses, j, j.losses)
            self.counts = add_to_played(self.counts, j, namespace(j.losses).ones_like(j.losses))

    @property
    def settings(self) -> dict[str, Any]:
        """The width scale."""
        return {"width_scale": self.width_scale}
