"""Delayed OPPO with known transitions (Lancewicki, Rosenberg, Mansour, AAAI 2022): no delay adaptation."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tabpo import kernels
from tabpo.arrays import Array, namespace
from tabpo.learners.protocol import Arrivals, Problem, per_run


@dataclass(frozen=True)
class DOPPOParameters:
    """Parameters of :class:`DOPPO`.

    Attributes
    ----------
    step_size : float or (R,), positive
        eta; ``1 / (H (A^(3/2) K + H^2 D)^(2/3))`` if None (section 8a of the specification, recalled).
    exploration : float or (R,), at least 0
        gamma; ``2 step_size A H`` if None.
    step_scale : float, positive
        Multiplies the default step size.
    """

    step_size: float | list[float] | None = None
    exploration: float | list[float] | None = None
    step_scale: float = 1.0

    def resolve(self, problem: Problem) -> tuple[Array, Array]:
        """Return (step_size, exploration), arrays (R,), for the problem's sizes."""
        H, _, A = problem.mdp.shape
        K, D = problem.n_episodes, problem.total_delay
        default = per_run("step_scale", self.step_scale, problem, positive=True) / (
            H * (A**1.5 * K + H**2 * D) ** (2 / 3)
        )
        step_size = per_run("step_size", default if self.step_size is None else self.step_size, problem, positive=True)
        exploration = 2 * A * H * step_size if self.exploration is None else self.exploration
        return step_size, per_run("exploration", exploration, problem)


class DOPPO:
    """Exponential weights on action values of estimated losses, as if feedback were fresh; transitions known.

    The baseline that DAPO improves on: the estimator is of the losses, not of the action values, the values are
    computed through the model, and neither the delay-adapted ratio nor a bonus is used.
    """

    Parameters = DOPPOParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        self.parameters = DOPPOParameters(**parameters)
        self.step_size, self.exploration = self.parameters.resolve(problem)
        H, S, A = problem.mdp.shape
        self.transitions = kernels.prepare(problem.mdp.transitions, problem.xp)
        self.log_weights = problem.xp.zeros((H, S, A, problem.n_runs))
        self.policy = problem.xp.full((H, S, A, problem.n_runs), 1.0 / A)

    def act(self, k: int) -> Array:
        """Return pi^k, shape (H, S, A, R)."""
        return self.policy

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Make one multiplicative step with the whole batch of arrivals F^k."""
        if not arrivals:
            return
        gradient = namespace(self.policy).zeros_like(self.policy)
        for j in arrivals:
            # chat^j = c^j 1{visited} / (mu^j pi^j + gamma)
            visited = kernels.importance_weighted(
                j.losses, j.policy, j.policy, j.state_occupancy, j.states, j.actions, self.exploration, False
            )
            losses = kernels.add_at_trajectory(
                namespace(self.policy).zeros_like(self.policy), j.states, j.actions, visited
            )
            # Q^j = chat^j + p <pi^j, Q^j>
            q_values, _ = kernels.q_values(self.transitions, losses, j.policy)
            gradient = gradient + q_values
        # pi^{k+1} ~ pi^k exp(-eta sum_{j in F^k} Q^j)
        self.log_weights, self.policy = kernels.exponential_weights(self.log_weights, gradient, self.step_size)

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {"step_size": self.step_size, "exploration": self.exploration}
