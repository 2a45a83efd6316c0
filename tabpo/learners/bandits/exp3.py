"""EXP3, exponential weights on importance-weighted losses (Auer et al. 2002; Bubeck, Cesa-Bianchi 2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from tabpo import regularizers
from tabpo.arrays import Array
from tabpo.errors import InvalidInputError
from tabpo.learners.bandits.arms import add_to_played, of_played, zeros_per_arm
from tabpo.learners.protocol import Arrivals, Problem, per_run


@dataclass(frozen=True)
class EXP3Parameters:
    """Parameters of :class:`EXP3`.

    Attributes
    ----------
    schedule : "fixed" or "anytime"
        fixed: one step size for all K episodes. anytime: ``step_size / sqrt(t)`` at round t = 1, 2, ...; K is not read.
    step_size : float or (R,), positive
        eta, or eta_1 of the anytime schedule. If None, ``sqrt(2 ln A / (A K))`` and ``sqrt(ln A / A)``.
    step_scale : float or (R,), positive
        Multiplies the default step size.
    """

    schedule: Literal["fixed", "anytime"] = "fixed"
    step_size: float | list[float] | None = None
    step_scale: float | list[float] = 1.0

    def __post_init__(self) -> None:
        if self.schedule not in ("fixed", "anytime"):
            raise InvalidInputError(f"schedule must be 'fixed' or 'anytime', got {self.schedule!r}")

    def resolve(self, problem: Problem) -> Array:
        """Return the step size of the first episode, shape (R,), for the problem's sizes."""
        if self.step_size is not None:
            return per_run("step_size", self.step_size, problem, positive=True)
        A, K = problem.n_actions, problem.n_episodes
        log_arms = math.log(max(A, 2))  # a single arm is played whatever the step size
        default = math.sqrt(2 * log_arms / (A * K) if self.schedule == "fixed" else log_arms / A)
        return default * per_run("step_scale", self.step_scale, problem, positive=True)


class EXP3:
    """Bandits (H = S = 1): exponential weights on importance-weighted losses; the baseline for adversarial losses.

    The form for losses, without uniform play. With A arms and losses in [0, 1], whatever they are, the regret is at
    most ``sqrt(2 A K ln A)`` with the fixed step size, and ``2 sqrt(A T ln A)`` after T episodes, for each T, with the
    anytime schedule. That is without delays; delayed losses enter when they arrive, weighted by the policy that played.

    Raises
    ------
    InvalidInputError
        If the problem has more than one step or state, or a parameter is out of its range.

    References
    ----------
    Bubeck and Cesa-Bianchi (2012), "Regret analysis of stochastic and nonstochastic multi-armed bandit problems",
    Theorem 3.1; eta_t is in the policy of round t, as in its proof. The form for gains: Auer, Cesa-Bianchi, Freund and
    Schapire (2002), "The nonstochastic multiarmed bandit problem".
    """

    Parameters = EXP3Parameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.parameters = EXP3Parameters(**parameters)
        self.losses = zeros_per_arm(problem, "exp3")  # Lhat
        self.first_step_size = self.parameters.resolve(problem)

    def step_size(self, k: int) -> Array:
        """Return eta_t of episode k, round t = k + 1; shape (R,)."""
        if self.parameters.schedule == "fixed":
            return self.first_step_size
        return self.first_step_size / math.sqrt(k + 1)

    def act(self, k: int) -> Array:
        """Return p_t, shape (1, 1, A, R)."""
        # p_t ~ exp(-eta_t Lhat_{t-1})
        return regularizers.shannon(self.losses, self.step_size(k), axis=2)

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Add the loss estimates of all arrivals."""
        for j in arrivals:
            # lhat_a = 1{a played} l_a / p_a
            self.losses = add_to_played(self.losses, j, j.losses / of_played(j.policy, j))

    @property
    def settings(self) -> dict[str, Any]:
        """The schedule, and the step size of the first episode."""
        return {"schedule": self.parameters.schedule, "step_size": self.first_step_size}
