"""Policies that do not learn: the ends of the scale in a regret figure."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabpo import planning
from tabpo.errors import InvalidInputError
from tabpo.learners.protocol import Arrivals, Problem


class _Fixed:
    """Plays one policy in all episodes."""

    returns_new_policies = True

    def __init__(self, problem: Problem, policy: NDArray[np.float64]) -> None:
        repeated = np.repeat(policy[..., None], problem.n_runs, axis=-1)
        self.policy = problem.xp.asarray(repeated)

    def act(self, k: int) -> Any:
        """Return the policy, shape (H, S, A, R)."""
        return self.policy

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Learn nothing."""


class Uniform(_Fixed):
    """Every action with probability 1/A, always."""

    def __init__(self, problem: Problem) -> None:
        super().__init__(problem, planning.uniform_policy(*problem.mdp.shape))


class Optimal(_Fixed):
    """The best fixed policy of all K episodes, known in advance; its final regret is 0."""

    def __init__(self, problem: Problem) -> None:
        if problem.best_policy is None:
            raise InvalidInputError("the optimal policy needs problem.best_policy, which tabpo.simulate provides")
        super().__init__(problem, problem.best_policy())
