"""Delayed OPPO (Lancewicki, Rosenberg, Mansour, AAAI 2022): optimistic values, and no delay adaptation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tabpo import kernels
from tabpo.arrays import Array, namespace
from tabpo.errors import InvalidInputError
from tabpo.learners.models import RadiusName, TransitionParameters
from tabpo.learners.protocol import Arrivals, Feedback, Problem, per_run


@dataclass(frozen=True)
class DOPPOParameters(TransitionParameters):
    """Parameters of :class:`DOPPO`.

    Attributes
    ----------
    transitions, width_scale, refresh, counts
        See :class:`tabpo.learners.models.TransitionParameters`; ``bias_scale`` is not used.
    radius : str
        ``"delayed_uob_reps"``, as DAPO's.
    failure_probability : float in (0, 1)
        delta; 0.1: the regret bound holds with probability 1 - delta for the delta of one's choice.
    feedback : "bandit" or "full"
        Whether the losses of the trajectory arrive, or those of all actions.
    step_size : float or (R,), positive
        eta. If None, ``1 / (H (A^(3/2) K + H^2 D)^(2/3))`` with bandit feedback (section 8a of the specification,
        recalled), and ``sqrt(ln A / (K + D)) / H`` with full information (derived: it balances ``H ln A / eta`` and
        ``eta H^3 (K + D)``).
    exploration : float or (R,), at least 0
        gamma; ``2 step_size A H`` if None. Not used with full information.
    step_scale : float, positive
        Multiplies the default step size.
    """

    radius: RadiusName = "delayed_uob_reps"
    failure_probability: float | None = 0.1
    feedback: Literal["bandit", "full"] = "bandit"
    step_size: float | list[float] | None = None
    exploration: float | list[float] | None = None
    step_scale: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.feedback not in ("bandit", "full"):
            raise InvalidInputError(f"feedback must be 'bandit' or 'full', got {self.feedback!r}")

    def resolve(self, problem: Problem) -> tuple[Array, Array]:
        """Return (step_size, exploration), arrays (R,), for the problem's sizes."""
        H, _, A = problem.mdp.shape
        K, D = problem.n_episodes, problem.total_delay
        if self.feedback == "bandit":
            default = 1 / (H * (A**1.5 * K + H**2 * D) ** (2 / 3))
        else:
            default = math.sqrt(math.log(max(A, 2)) / (K + D)) / H
        step_scale = per_run("step_scale", self.step_scale, problem, positive=True)
        step_size = step_scale * default if self.step_size is None else self.step_size
        step_size = per_run("step_size", step_size, problem, positive=True)
        exploration = 2 * A * H * step_size if self.exploration is None else self.exploration
        # Without width the upper bound of the occupancy may be 0 where the trajectory went.
        may_vanish = self.transitions == "unknown" and not np.all(self.width_scale)
        return step_size, per_run("exploration", exploration, problem, positive=may_vanish)


class DOPPO:
    """Exponential weights on optimistic action values of the losses, as if feedback were fresh.

    The baseline that DAPO improves on: the estimator is of the losses, not of the action values, the values are
    computed through the model, and neither the delay-adapted ratio nor a bonus is used. With unknown transitions the
    estimator divides by the upper occupancy bound u^j of the acting episode's confidence set, and the values are the
    least over the set in force when the feedback arrives (section 8a of the specification).
    """

    Parameters = DOPPOParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.parameters = DOPPOParameters(**parameters)
        self.step_size, self.exploration = self.parameters.resolve(problem)
        self.full_information = self.parameters.feedback == "full"
        H, S, A = problem.mdp.shape
        self.model = self.parameters.model(problem)
        self.log_weights = problem.xp.zeros((H, S, A, problem.n_runs))
        self.policy = problem.xp.full((H, S, A, problem.n_runs), 1.0 / A)

    def act(self, k: int) -> Array:
        """Return pi^k, shape (H, S, A, R)."""
        return self.policy

    def notes(self, k: int) -> Array | None:
        """Return u^k, which the estimator of episode k will need; None if the occupancy is known, or not needed."""
        if self.parameters.transitions == "known" or self.full_information:
            return None
        return self.model.occupancy_bounds(self.policy)[0]

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Make one multiplicative step with the whole batch of arrivals F^k; then count, and refresh the sets."""
        gains = None
        for j in arrivals:
            # -Q^j = -chat^j + max_{p in P^k} p <pi^j, -Q^j>
            gain, _ = self.model.bonus_values(self.minus_losses(j), j.policy)
            gains = gain if gains is None else gains + gain
        if gains is not None:
            # pi^{k+1} ~ pi^k exp(-eta sum_{j in F^k} Q^j)
            self.log_weights, self.policy = kernels.exponential_weights(self.log_weights, gains, -self.step_size)
        self.model.observe(arrivals)

    def minus_losses(self, j: Feedback) -> Array:
        """Return -chat^j, shape (H, S, A, R); with full information -c^j, (H, S, A, 1 or R)."""
        if self.full_information:
            table: Array = j.loss_table
            return -table
        # chat^j = c^j 1{visited} / (u^j pi^j + gamma)
        upper = j.state_occupancy if j.notes is None else j.notes
        visited = kernels.importance_weighted(
            j.losses, j.policy, j.policy, upper, j.states, j.actions, self.exploration, False
        )
        return kernels.add_at_trajectory(namespace(j.policy).zeros_like(j.policy), j.states, j.actions, -visited)

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {"step_size": self.step_size, "exploration": self.exploration, **self.model.settings}
