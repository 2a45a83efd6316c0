"""OPPO, optimistic policy optimization with full information (Cai, Yang, Jin, Wang, ICML 2020)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tabpo import kernels
from tabpo.arrays import Array
from tabpo.learners.empirical import EmpiricalModel, OptimismParameters, transition_bonus
from tabpo.learners.pomd import mirror_descent_step
from tabpo.learners.protocol import Arrivals, Problem, per_run


@dataclass(frozen=True)
class OPPOParameters(OptimismParameters):
    """Parameters of :class:`OPPO`.

    Attributes
    ----------
    step_size : float or (R,), positive
        alpha; ``sqrt(2 ln A / (H^2 K))`` if None.
    failure_probability : float in (0, 1)
        delta.
    bonus_scale : float or (R,), at least 0
        Multiplies the bonus.
    """

    step_size: float | list[float] | None = None

    def resolve(self, problem: Problem) -> tuple[Array, Array]:
        """Return (step_size, bonus_scale), arrays (R,), for the problem's sizes."""
        step_size = mirror_descent_step(problem) if self.step_size is None else self.step_size
        return (
            per_run("step_size", step_size, problem, positive=True),
            per_run("bonus_scale", self.bonus_scale, problem),
        )


class OPPO:
    """Exponential weights on optimistic action values; transitions are unknown, the losses of all actions arrive.

    The tabular case, whose bonus is that of the transitions' L1 balls (section 8d of the formulas page): regret
    Õ(S H^2 sqrt(A K)), adversarial losses included. Losses that arrive late are evaluated for the policy that played
    them, through the transitions counted by then.
    """

    Parameters = OPPOParameters
    returns_new_policies = True
    full_information = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.problem, self.parameters = problem, OPPOParameters(**parameters)
        self.step_size, self.bonus_scale = self.parameters.resolve(problem)
        self.model = EmpiricalModel(problem)
        shape = (*problem.mdp.shape, problem.n_runs)
        self.log_weights = problem.xp.zeros(shape)
        self.policy = problem.xp.full(shape, 1.0 / problem.n_actions)

    def act(self, k: int) -> Array:
        """Return pi^k, shape (H, S, A, R)."""
        return self.policy

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Make one multiplicative step with the whole batch of arrivals F^k; then count."""
        if len(arrivals):
            bonus = self.bonus()
            # Q^j_h = max{0, l^j_h - b_h + p_h V^j_{h+1}},  V^j_h = <pi^j_h, Q^j_h>
            q_values = sum(self.model.optimistic_values(j.loss_table - bonus, j.policy) for j in arrivals)
            # pi^{k+1} ~ pi^k exp(-alpha sum_{j in F^k} Q^j)
            self.log_weights, self.policy = kernels.exponential_weights(self.log_weights, q_values, self.step_size)
        self.model.observe(arrivals)

    def bonus(self) -> Array:
        """Return b^p, shape (H, S, A, R)."""
        delta = self.parameters.failure_probability / 3
        return self.bonus_scale * transition_bonus(self.problem, self.model.visits, delta)

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {
            "step_size": self.step_size,
            "bonus_scale": self.bonus_scale,
            "failure_probability": self.parameters.failure_probability,
        }
