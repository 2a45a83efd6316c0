"""UOB-REPS for unknown transitions (Jin, Jin, Luo, Sra, Yu, ICML 2020), and with delays (Jin et al., NeurIPS 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabpo.confidence import ConfidenceSettings
from tabpo.errors import InvalidInputError
from tabpo.learners.models import LearnedTransitions, RadiusName
from tabpo.learners.occupancy_projections import SetProjection, conditional_policy
from tabpo.learners.protocol import Arrivals, Problem, per_run

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class UOBREPSParameters:
    """Parameters of :class:`UOBREPS`.

    Attributes
    ----------
    step_size : float or (R,), positive
        eta; ``sqrt(ln(H^2 S A / delta) / (S A K + sqrt(H S A) D))`` if None. Without delays it is that of Jin, Jin,
        Luo, Sra, Yu (2020); the term in D balances ``H ln(.) / eta`` and ``eta H sqrt(H S A) D``, for the rate
        ``(H S A)^(1/4) H sqrt(D)`` of the delayed version (derived).
    exploration : float or (R,), at least 0
        gamma; the step size if None.
    adapt : bool
        False divides by the upper occupancy of the acting policy only. Without delays there is no difference.
    radius : str
        Radius of the confidence sets, a key of :data:`tabpo.confidence.RADII`.
    failure_probability : float in (0, 1)
        delta; ``1 / K^3`` if None.
    width_scale : float or (R,), positive
        Multiplies the radius. The theory has 1.
    refresh : "epoch" or "episode"
        When the sets follow the counts.
    counts : "immediate" or "lagged"
        Whether a trajectory is counted when it is seen, or when its losses arrive.
    """

    step_size: float | list[float] | None = None
    exploration: float | list[float] | None = None
    adapt: bool = True
    radius: RadiusName = "uob_reps"
    failure_probability: float | None = None
    width_scale: float | list[float] = 1.0
    refresh: Literal["epoch", "episode"] = "epoch"
    counts: Literal["immediate", "lagged"] = "immediate"

    def model(self, problem: Problem) -> LearnedTransitions:
        """Return the confidence sets.

        Raises
        ------
        InvalidInputError
            If a width is 0: a successor seen for the first time would be infinitely far, in relative entropy, from the
            model that excluded it.
        """
        if not np.all(np.asarray(self.width_scale) > 0):
            raise InvalidInputError(
                f"width_scale must be positive for uob_reps, got {self.width_scale!r}; o_reps knows the transitions"
            )
        delta = max(problem.n_episodes, 2) ** -3.0 if self.failure_probability is None else self.failure_probability
        settings = ConfidenceSettings(
            radius=self.radius,
            failure_probability=delta,
            width_scale=self.width_scale,
            refresh=self.refresh,
            counts=self.counts,
        )
        return LearnedTransitions(problem, settings)

    def resolve(self, problem: Problem, failure_probability: float) -> tuple[Floats, Floats]:
        """Return (step_size, exploration), arrays (R,), for the problem's sizes and delta."""
        H, S, A = problem.mdp.shape
        K, D = problem.n_episodes, problem.total_delay
        default = np.sqrt(np.log(H * H * S * A / failure_probability) / (S * A * K + np.sqrt(H * S * A) * D))
        step_size = per_run("step_size", default if self.step_size is None else self.step_size, problem, positive=True)
        exploration = step_size if self.exploration is None else self.exploration
        return step_size, per_run("exploration", exploration, problem)


class UOBREPS:
    """Mirror descent over the occupancy measures of all plausible transitions, with optimistic estimates.

    Estimates divide by upper occupancies u, the greatest over the confidence set. One convex programme for each run and
    batch of arrivals, with (H, S) unknowns in its dual: for small sizes. The first state's distribution is known.
    """

    Parameters = UOBREPSParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        if problem.xp is not np:
            raise InvalidInputError("uob_reps solves its programme with NumPy: simulate it with NumPy arrays")
        self.parameters = UOBREPSParameters(**parameters)
        self.model = self.parameters.model(problem)
        self.step_size, self.exploration = self.parameters.resolve(
            problem, self.model.sets.settings.failure_probability
        )
        H, S, A = problem.mdp.shape
        R = problem.n_runs
        # q^1_h(s,a,s') is uniform at every step, but for the distribution of the first state
        self.log_occupancy = np.full((R, H, S, A), -np.log(S * A))
        with np.errstate(divide="ignore"):
            self.log_occupancy[:, 0] = np.log(problem.mdp.initial / A)[:, None]
        self.log_transitions = np.full((R, H - 1, S, A, S), -np.log(S))
        self.projections: dict[int, SetProjection] = {}
        self._refresh(range(R))
        self.policy = self._policy()

    def act(self, k: int) -> Floats:
        """Return pi^k(a|s) = q^k(s,a) / sum_a q^k(s,a), shape (H, S, A, R)."""
        return self.policy

    def notes(self, k: int) -> Floats:
        """Return u^k(s), the upper occupancy (H, S, R) of pi^k over P^k."""
        upper: Floats = self.model.occupancy_bounds(self.policy)[0]
        self.upper = upper
        return upper

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Make one mirror-descent step with the whole batch of arrivals F^k, over the set P^{k+1}."""
        H, S, A, R = self.policy.shape
        losses = np.zeros((H, S, A, R))
        h, run = np.ogrid[:H, :R]
        for j in arrivals:
            # chat^j = c^j 1{visited} / (max(u^j, u^k) + gamma),  u(s,a) = u(s) pi(a|s)
            visited = (h, j.states, j.actions, run)
            probability = j.notes[h, j.states, run] * j.policy[visited]
            if self.parameters.adapt:
                probability = np.maximum(probability, self.upper[h, j.states, run] * self.policy[visited])
            losses[visited] += j.losses / (probability + self.exploration)
        refreshed, _ = observe(self.model, arrivals)
        self._refresh(refreshed)
        # q^{k+1} = argmin_q eta <q, sum_{j in F^k} chat^j> + KL(q | q^k) over the measures of transitions in P^{k+1}
        moved: Sequence[int] = range(R) if arrivals else refreshed
        for r in moved:
            weights = self.log_occupancy[r] - self.step_size[r] * losses[..., r]
            self.log_occupancy[r], self.log_transitions[r] = self.projections[r](weights, self.log_transitions[r])
        if moved:
            self.policy = self._policy()

    def _refresh(self, runs: Sequence[int]) -> None:
        """Take over the sets in force; after the last step there is no next state."""
        if not runs:
            return
        lowest, highest = self.model.sets.bounds()
        for r in runs:
            within = (np.ascontiguousarray(bound[:-1, ..., r]) for bound in (lowest, highest))
            self.projections[r] = SetProjection(self.model.initial, *within)

    def _policy(self) -> Floats:
        return conditional_policy(np.ascontiguousarray(np.moveaxis(self.log_occupancy, 0, -1)))

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        sets = {name: value for name, value in self.model.settings.items() if name != "bias_scale"}
        return {"step_size": self.step_size, "exploration": self.exploration, **sets}


def observe(model: LearnedTransitions, arrivals: Arrivals) -> tuple[list[int], list[int]]:
    """Count what became known; return the runs whose sets are new, and those among them that begin an epoch."""
    counts = model.sets.counts
    seen, epochs = counts.n_trajectories, counts.n_epochs
    model.observe(arrivals)
    begun = np.flatnonzero(counts.n_epochs > epochs).tolist()
    every = model.sets.settings.refresh == "episode" and counts.n_trajectories > seen
    return (list(range(len(epochs))) if every else begun), begun
