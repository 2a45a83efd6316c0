"""EXP3.P, EXP3 with regret bounds of high probability (Auer et al. 2002; Bubeck, Cesa-Bianchi 2012)."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tabpo import regularizers
from tabpo.arrays import Array
from tabpo.errors import InvalidInputError
from tabpo.learners.bandits.arms import add_to_played, of_played, zeros_per_arm
from tabpo.learners.protocol import Arrivals, Problem, per_run


@dataclass(frozen=True)
class EXP3PParameters:
    """Parameters of :class:`EXP3P`. What is None takes the value of Theorem 3.2.

    Attributes
    ----------
    failure_probability : float, in (0, 1)
        delta, the one that the bias is tuned to. None tunes it to all at once, and to the expected regret.
    step_size : float or (R,), positive
        eta; ``0.95 sqrt(ln A / (A K))`` if None.
    exploration : float or (R,), in (0, 1]
        gamma, the share of uniform play; ``1.05 sqrt(A ln A / K)``, at most 1, if None.
    bias : float or (R,), in [0, 1]
        beta, what is added to all gains before they are weighted: it makes the estimates optimistic. If None,
        ``sqrt(ln(A / delta) / (A K))``, at most 1; ``sqrt(ln A / (A K))`` without delta.
    """

    failure_probability: float | None = None
    step_size: float | list[float] | None = None
    exploration: float | list[float] | None = None
    bias: float | list[float] | None = None

    def __post_init__(self) -> None:
        delta = self.failure_probability
        if delta is not None and not 0 < delta < 1:
            raise InvalidInputError(f"failure_probability must be between 0 and 1, or left out, got {delta!r}")

    def resolve(self, problem: Problem) -> tuple[Array, Array, Array]:
        """Return (step_size, exploration, bias), arrays (R,), for the problem's sizes."""
        A, K = problem.n_actions, problem.n_episodes
        log_arms = math.log(max(A, 2))  # a single arm is played whatever the parameters
        delta = 1.0 if self.failure_probability is None else self.failure_probability
        default_step = 0.95 * math.sqrt(log_arms / (A * K))
        default_exploration = min(1.05 * math.sqrt(A * log_arms / K), 1.0)
        default_bias = min(math.sqrt((log_arms - math.log(delta)) / (A * K)), 1.0)
        step_size = per_run("step_size", _or(self.step_size, default_step), problem, positive=True)
        exploration = per_run("exploration", _or(self.exploration, default_exploration), problem, positive=True)
        bias = per_run("bias", _or(self.bias, default_bias), problem)
        for name, values in (("exploration", exploration), ("bias", bias)):
            if bool(problem.xp.any(values > 1)):
                raise InvalidInputError(f"{name} must be at most 1, got {float(problem.xp.max(values)):g}")
        return step_size, exploration, bias


def _or(value: Any, default: float) -> Any:
    return default if value is None else value


class EXP3P:
    """Bandits (H = S = 1): EXP3 with uniform play and optimistic estimates, for regret bounds of high probability.

    Works with gains, 1 minus the losses. With A arms and losses in [0, 1], also of an adversary that reacts, the regret
    over K episodes is at most ``5.15 sqrt(A K ln(A / delta))`` with probability 1 - delta; without delta it is at most
    ``5.15 sqrt(A K ln A) + sqrt(A K / ln A) ln(1 / delta)`` with probability 1 - delta for each delta, and
    ``5.15 sqrt(A K ln A) + sqrt(A K / ln A)`` in expectation. That is without delays; delayed gains enter when they
    arrive, weighted by the policy that played.

    Raises
    ------
    InvalidInputError
        If the problem has more than one step or state, or a parameter is out of its range.

    References
    ----------
    Bubeck and Cesa-Bianchi (2012), "Regret analysis of stochastic and nonstochastic multi-armed bandit problems",
    Figure 3.1 and Theorems 3.2 and 3.3; after Auer, Cesa-Bianchi, Freund and Schapire (2002).
    """

    Parameters = EXP3PParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.gains = zeros_per_arm(problem, "exp3_p")  # Ghat
        self.step_size, self.exploration, self.bias = EXP3PParameters(**parameters).resolve(problem)

    def act(self, k: int) -> Array:
        """Return p_t, shape (1, 1, A, R)."""
        # p_t = (1 - gamma) exp(eta Ghat_{t-1}) / Z + gamma / A
        weights = regularizers.shannon(-self.gains, self.step_size, axis=2)
        return (1.0 - self.exploration) * weights + self.exploration / self.gains.shape[2]

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Add the gain estimates of all arrivals."""
        for j in arrivals:
            # ghat_a = (1{a played} g_a + beta) / p_a,  g = 1 - l
            biased = self.gains + self.bias / j.policy
            self.gains = add_to_played(biased, j, (1.0 - j.losses) / of_played(j.policy, j))

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {"step_size": self.step_size, "exploration": self.exploration, "bias": self.bias}
