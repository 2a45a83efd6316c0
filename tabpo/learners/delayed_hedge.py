"""Delayed Hedge over all deterministic policies, transitions known (Jin et al., NeurIPS 2022; tiny sizes)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tabpo import kernels
from tabpo.arrays import Array
from tabpo.errors import InvalidInputError
from tabpo.learners.protocol import Arrivals, Problem, per_run

MOST_POLICIES = 10**5


@dataclass(frozen=True)
class DelayedHedgeParameters:
    """Parameters of :class:`DelayedHedge`.

    Attributes
    ----------
    step_size : float or (R,), positive
        eta; ``sqrt(S ln A / (H (S A K + D)))`` if None, which balances ``H S ln A / eta`` (the entropy of A^(H S)
        policies) with the second moments ``eta H^2 (S A K + D)`` (section 8b of the specification; derived).
    exploration : float or (R,), at least 0
        gamma; the step size if None.
    """

    step_size: float | list[float] | None = None
    exploration: float | list[float] | None = None

    def resolve(self, problem: Problem) -> tuple[Array, Array]:
        """Return (step_size, exploration), arrays (R,), for the problem's sizes."""
        H, S, A = problem.mdp.shape
        default = np.sqrt(S * np.log(max(A, 2)) / (H * (S * A * problem.n_episodes + problem.total_delay)))
        step_size = per_run("step_size", default if self.step_size is None else self.step_size, problem, positive=True)
        exploration = step_size if self.exploration is None else self.exploration
        return step_size, per_run("exploration", exploration, problem)


class DelayedHedge:
    """Exponential weights over the A^(H S) deterministic policies; the yardstick without computational limits.

    The mixture is played as the Markov policy of the same occupancy, which has the same expected losses.
    """

    Parameters = DelayedHedgeParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        if problem.xp is not np:
            raise InvalidInputError("delayed_hedge keeps its weights in NumPy: simulate it with NumPy arrays")
        self.step_size, self.exploration = DelayedHedgeParameters(**parameters).resolve(problem)
        self.shape = (*problem.mdp.shape, problem.n_runs)
        occupancies = deterministic_occupancies(problem)
        self.occupancies = kernels.SharedMatrix(occupancies)
        self.mixing = kernels.SharedMatrix(occupancies.T)
        # The kernel's weights are per (h, s): here one "state" with a policy as an action.
        self.log_weights = np.zeros((1, 1, len(occupancies), problem.n_runs))
        self.weights = np.full_like(self.log_weights, 1.0 / len(occupancies))

    def act(self, k: int) -> Array:
        """Return the Markov policy of the mixture's occupancy, shape (H, S, A, R); uniform where it never comes."""
        mixture = kernels.product(self.mixing, self.weights[0, 0]).reshape(self.shape)
        totals = np.zeros((*self.shape[:2], 1, self.shape[3]))
        for a in range(self.shape[2]):  # in order, however many runs there are
            totals[:, :, 0] += mixture[:, :, a]
        reached = totals > 0
        return np.where(reached, mixture / np.where(reached, totals, 1.0), 1.0 / self.shape[2])

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Charge every policy its estimated loss for the whole batch of arrivals F^k."""
        if not arrivals:
            return
        losses = np.zeros(self.shape)
        for j in arrivals:
            # chat^j = c^j 1{visited} / (q^j + gamma)
            visited = kernels.importance_weighted(
                j.losses, j.policy, j.policy, j.state_occupancy, j.states, j.actions, self.exploration, False
            )
            losses = kernels.add_at_trajectory(losses, j.states, j.actions, visited)
        # w(pi) ~ exp(-eta sum_{arrived j} <q^pi, chat^j>)
        policy_losses = kernels.product(self.occupancies, losses.reshape(-1, self.shape[3]))
        self.log_weights, self.weights = kernels.exponential_weights(
            self.log_weights, policy_losses[None, None], self.step_size
        )

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {"step_size": self.step_size, "exploration": self.exploration}


def deterministic_occupancies(problem: Problem) -> Array:
    """Return the state-action occupancy of each deterministic policy, shape (A^(H S), H S A).

    Raises
    ------
    InvalidInputError
        If there are more than 10^5 deterministic policies.
    """
    H, S, A = problem.mdp.shape
    if A ** (H * S) > MOST_POLICIES:
        raise InvalidInputError(
            f"delayed_hedge keeps a weight for each of the A^(H S) = {A}^{H * S} deterministic policies; "
            f"it is for at most {MOST_POLICIES:,}"
        )
    number = A ** (H * S)
    digits = np.arange(number) // A ** np.arange(H * S)[:, None] % A  # policy number in base A, a digit for each (h, s)
    actions = digits.reshape(H, S, 1, number)
    policies = (actions == np.arange(A)[None, None, :, None]).astype(np.float64)
    reach = kernels.state_occupancy(problem.mdp.transitions, problem.mdp.initial, policies)
    return (reach[:, :, None] * policies).reshape(-1, number).T
