"""O-REPS with the delay-adapted estimator and known transitions (Jin et al., NeurIPS 2022; small sizes)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tabpo.errors import InvalidInputError
from tabpo.learners.occupancy_projections import OccupancyProjection, conditional_policy
from tabpo.learners.protocol import Arrivals, Problem, per_run

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class OREPSParameters:
    """Parameters of :class:`OREPS`.

    Attributes
    ----------
    step_size : float or (R,), positive
        eta; ``sqrt(ln(S A) / (S A K + sqrt(H S A) D))`` if None, which balances the terms of the rate
        ``H sqrt(S A K) + (H S A)^(1/4) H sqrt(D)`` (section 8b of the specification; derived).
    exploration : float or (R,), at least 0
        gamma; the step size if None.
    adapt : bool
        False divides by the acting occupancy only.
    """

    step_size: float | list[float] | None = None
    exploration: float | list[float] | None = None
    adapt: bool = True

    def resolve(self, problem: Problem) -> tuple[Floats, Floats]:
        """Return (step_size, exploration), arrays (R,), for the problem's sizes."""
        H, S, A = problem.mdp.shape
        K, D = problem.n_episodes, problem.total_delay
        default = np.sqrt(np.log(max(S * A, 2)) / (S * A * K + np.sqrt(H * S * A) * D))
        step_size = per_run("step_size", default if self.step_size is None else self.step_size, problem, positive=True)
        exploration = step_size if self.exploration is None else self.exploration
        return step_size, per_run("exploration", exploration, problem)


class OREPS:
    """Mirror descent over occupancy measures with relative entropy; each step is a convex programme solved by its dual.

    One dual problem in (H, S) unknowns for each run and batch of arrivals: for small sizes.
    """

    Parameters = OREPSParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        if problem.xp is not np:
            raise InvalidInputError("o_reps solves its dual with NumPy: simulate it with NumPy arrays")
        self.parameters = OREPSParameters(**parameters)
        self.step_size, self.exploration = self.parameters.resolve(problem)
        self.projection = OccupancyProjection(problem.mdp.transitions, problem.mdp.initial)
        # q^1 is the occupancy of largest entropy.
        first = self.projection(np.zeros(problem.mdp.shape))
        self.log_occupancy = np.repeat(first[..., None], problem.n_runs, axis=-1)
        self.policy = conditional_policy(self.log_occupancy)

    def act(self, k: int) -> Floats:
        """Return pi^k(a|s) = q^k(s,a) / sum_a q^k(s,a), shape (H, S, A, R)."""
        return self.policy

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Make one mirror-descent step with the whole batch of arrivals F^k."""
        if not arrivals:
            return
        occupancy = np.exp(self.log_occupancy)  # q^k
        losses = np.zeros_like(occupancy)
        h, run = np.ogrid[: losses.shape[0], : losses.shape[-1]]
        for j in arrivals:
            # chat^j = c^j 1{visited} / (max(q^j, q^k) + gamma)
            visited = (h, j.states, j.actions, run)
            probability = j.state_occupancy[h, j.states, run] * j.policy[visited]
            if self.parameters.adapt:
                probability = np.maximum(probability, occupancy[visited])
            losses[visited] += j.losses / (probability + self.exploration)
        # q^{k+1} = argmin_q eta <q, sum_{j in F^k} chat^j> + KL(q | q^k) over the occupancy measures
        for r in range(losses.shape[-1]):
            tilted = self.log_occupancy[..., r] - self.step_size[r] * losses[..., r]
            self.log_occupancy[..., r] = self.projection(tilted)
        self.policy = conditional_policy(self.log_occupancy)

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {"step_size": self.step_size, "exploration": self.exploration}
