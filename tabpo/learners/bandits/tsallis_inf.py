"""Tsallis-INF, best of both worlds for bandits (Zimmert, Seldin, JMLR 2021)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from tabpo import regularizers
from tabpo.arrays import Array, namespace
from tabpo.errors import InvalidInputError
from tabpo.learners.bandits.arms import add_to_played, of_played, zeros_per_arm
from tabpo.learners.protocol import Arrivals, Feedback, Problem, per_run

FIRST_STEP_SIZE = {"importance_weighted": 2.0, "reduced_variance": 4.0}
"""eta_1, with eta_t = eta_1 / sqrt(t): Theorem 1 of the paper."""


@dataclass(frozen=True)
class TsallisINFParameters:
    """Parameters of :class:`TsallisINF`.

    Attributes
    ----------
    estimator : "importance_weighted" or "reduced_variance"
        Of the losses. reduced_variance puts a baseline of 1/2 under the losses of likely arms.
    step_scale : float or (R,), positive
        Multiplies the step sizes of the paper, ``2 / sqrt(t)`` for the importance-weighted and ``4 / sqrt(t)`` for the
        reduced-variance estimator.
    """

    estimator: Literal["importance_weighted", "reduced_variance"] = "importance_weighted"
    step_scale: float | list[float] = 1.0

    def __post_init__(self) -> None:
        if self.estimator not in FIRST_STEP_SIZE:
            raise InvalidInputError(
                f"estimator must be 'importance_weighted' or 'reduced_variance', got {self.estimator!r}"
            )

    def resolve(self, problem: Problem) -> Array:
        """Return eta_1, shape (R,)."""
        return FIRST_STEP_SIZE[self.estimator] * per_run("step_scale", self.step_scale, problem, positive=True)


class TsallisINF:
    """Bandits (H = S = 1): regularised leader with 1/2-Tsallis entropy; neither K nor the regime need be known.

    With A arms and losses in [0, 1], whatever they are, the regret after T episodes, for each T, is at most
    ``4 sqrt(A T) + 1`` with importance weights and ``2 sqrt(A T) + 14 A ln T + 16`` with reduced variance (Theorem 1,
    which prints ``10 A ln T`` where its proof has 14); for stochastic losses it is of the order of ``ln T / gap``,
    summed over the arms. That is without delays; delayed losses enter when they arrive, weighted by the policy that
    played.

    Raises
    ------
    InvalidInputError
        If the problem has more than one step or state, or a parameter is out of its range.

    References
    ----------
    Zimmert and Seldin (2021), "Tsallis-INF: an optimal algorithm for stochastic and adversarial bandits", Algorithm 1.
    """

    Parameters = TsallisINFParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.parameters = TsallisINFParameters(**parameters)
        self.losses = zeros_per_arm(problem, "tsallis_inf")  # Lhat
        self.first_step_size = self.parameters.resolve(problem)

    def step_size(self, k: int) -> Array:
        """Return eta_t of episode k, round t = k + 1; shape (R,)."""
        return self.first_step_size / math.sqrt(k + 1)

    def act(self, k: int) -> Array:
        """Return w_t, shape (1, 1, A, R)."""
        # w_t = argmin <w, Lhat_{t-1}> - (4 / eta_t) sum_a (sqrt(w_a) - w_a / 2): tabpo's step size is half of eta_t
        return regularizers.tsallis(self.losses, self.step_size(k) / 2, axis=2)

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Add the loss estimates of all arrivals."""
        for j in arrivals:
            # lhat_a = 1{a played} (l_a - B_a) / w_a + B_a
            baseline = self._baseline(j)
            estimate = (j.losses - of_played(baseline, j)) / of_played(j.policy, j)
            self.losses = add_to_played(self.losses + baseline, j, estimate)

    def _baseline(self, j: Feedback) -> Array:
        """Return B, which does not depend on the arm played; shape (1, 1, A, R)."""
        xp = namespace(j.policy)
        if self.parameters.estimator == "importance_weighted":
            return xp.zeros_like(j.policy)
        # B_a = 1{w_a >= eta_j^2} / 2
        return 0.5 * xp.astype(j.policy >= self.step_size(j.episode) ** 2, j.policy.dtype)

    @property
    def settings(self) -> dict[str, Any]:
        """The estimator, and the step size of the first episode."""
        return {"estimator": self.parameters.estimator, "first_step_size": self.first_step_size}
