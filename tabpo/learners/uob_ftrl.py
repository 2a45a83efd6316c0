"""UOB-FTRL: the regularised leader among occupancy measures (Jin, Luo, NeurIPS 2020; Jin, Huang, Luo, NeurIPS 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from tabpo.confidence import ConfidenceSets
from tabpo.errors import InvalidInputError
from tabpo.kernels.plain_boxes import bernstein_radius
from tabpo.learners.models import LearnedTransitions, TransitionParameters
from tabpo.learners.occupancy_leaders import RegularisedLeader
from tabpo.learners.occupancy_projections import conditional_policy
from tabpo.learners.protocol import Arrivals, Problem, per_run
from tabpo.learners.uob_reps import observe

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class UOBFTRLParameters(TransitionParameters):
    """Parameters of :class:`UOBFTRL`: those of :class:`tabpo.learners.models.TransitionParameters`, and one more.

    Attributes
    ----------
    transitions : "known" or "unknown"
        With known ones there is no bonus and no restart.
    barrier_weight : float or (R,), at least 0
        beta; ``128 H^4`` if None, ``64 H`` for known transitions (recalled). Both are far too large to learn much in a
        few thousand episodes.
    width_scale : float or (R,), positive
        Multiplies the radius epsilon.
    bias_scale : float or (R,), at least 0
        Multiplies the bonus ``H min(1, sum epsilon)``.
    """

    transitions: Literal["known", "unknown"] = "unknown"
    barrier_weight: float | list[float] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.transitions == "unknown" and not np.all(np.asarray(self.width_scale) > 0):
            raise InvalidInputError(
                f"width_scale must be positive for uob_ftrl, got {self.width_scale!r}: a state that no plausible "
                "model reaches has no estimate"
            )

    def resolve(self, problem: Problem) -> Floats:
        """Return barrier_weight, an array (R,), for the problem's horizon."""
        default = 64.0 * problem.horizon if self.transitions == "known" else 128.0 * problem.horizon**4
        weight = default if self.barrier_weight is None else self.barrier_weight
        barrier_weight: Floats = per_run("barrier_weight", weight, problem)
        return barrier_weight


class UOBFTRL:
    """Follow the leader regularised by square roots and a barrier, among the measures of the empirical model.

    At the start of each epoch of the counts a run begins afresh with the new empirical model. Estimates divide by upper
    occupancies u, the greatest over the confidence set. With delays, for which there is no theorem, the leader follows
    the losses that arrived since the epoch began, whenever their episodes were, and t - t_i counts them.

    One convex programme for each run and batch of arrivals, with (H, S) unknowns in its dual: for small sizes. The
    first state's distribution is known.
    """

    Parameters = UOBFTRLParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        if problem.xp is not np:
            raise InvalidInputError("uob_ftrl solves its programme with NumPy: simulate it with NumPy arrays")
        self.parameters = UOBFTRLParameters(**parameters)
        self.barrier_weight = self.parameters.resolve(problem)
        self.bias_scale = per_run("bias_scale", self.parameters.bias_scale, problem)
        self.model = self.parameters.model(problem)
        self.initial = problem.mdp.initial
        shape = (problem.n_runs, *problem.mdp.shape)
        self.losses, self.occupancy, self.bonus = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        self.multipliers = np.zeros(shape[:3])
        self.arrived = np.zeros(problem.n_runs)  # t - t_i
        self.leaders: dict[int, RegularisedLeader] = {}
        everyone = range(problem.n_runs)
        if isinstance(self.model, LearnedTransitions):
            self._refresh(self.model.sets, everyone)
        else:
            self.leaders = dict.fromkeys(everyone, RegularisedLeader(problem.mdp.transitions, self.initial))
        self._lead(everyone)

    def act(self, k: int) -> Floats:
        """Return pi_t(a|s) = qhat_t(s,a) / sum_a qhat_t(s,a), shape (H, S, A, R)."""
        return self.policy

    def notes(self, k: int) -> Floats:
        """Return u_t(s), the upper occupancy (H, S, R) of pi_t; the occupancy itself if transitions are known."""
        upper: Floats = self.model.occupancy_bounds(self.policy)[0]
        return upper

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Add the estimates of what arrives, then count what became known; where an epoch begins, begin afresh."""
        R, H, _, _ = self.losses.shape
        h, run = np.ogrid[:H, :R]
        for j in arrivals:
            # lhat = l 1{visited} / u - H min(1, sum_s' epsilon),  u(s,a) = u(s) pi(a|s)
            upper = j.notes[h, j.states, run] * j.policy[h, j.states, j.actions, run]
            self.losses[run, h, j.states, j.actions] += j.losses / upper
            self.losses -= self.bonus
            self.arrived += 1.0
        moved: Sequence[int] = range(R) if arrivals else ()
        if isinstance(self.model, LearnedTransitions):
            refreshed, begun = observe(self.model, arrivals)
            self._refresh(self.model.sets, refreshed)
            for sums in (self.losses, self.arrived):
                sums[begun] = 0.0
            moved = moved or refreshed
        self._lead(moved)

    def _refresh(self, sets: ConfidenceSets, runs: Sequence[int]) -> None:
        """Take over the empirical model and its radii; after the last step there is no next state to be wrong about."""
        if not runs:
            return
        counts, constants = sets.counts, sets.constants
        centre = counts.centre()
        radius = bernstein_radius(
            centre, counts.visits, constants.root, constants.linear, constants.offset, sets.log_term, sets.width_scale
        )
        H = len(centre)
        for r in runs:
            width = np.ascontiguousarray(radius[:-1, ..., r]).sum(axis=-1)
            self.bonus[r, :-1] = self.bias_scale[r] * H * np.minimum(1.0, width)
            self.leaders[r] = RegularisedLeader(np.ascontiguousarray(centre[..., r]), self.initial)

    def _lead(self, runs: Sequence[int]) -> None:
        """Find the leader of each run.

        ``qhat_t = argmin_q <q, sum lhat> - (1/eta_t) sum sqrt(q) + beta sum ln(1/q)`` over the occupancy measures of
        the empirical model, ``1/eta_t = sqrt(t - t_i + 1)``.
        """
        for r in runs:
            self.occupancy[r], self.multipliers[r] = self.leaders[r](
                self.losses[r],
                float(np.sqrt(self.arrived[r] + 1.0)),
                float(self.barrier_weight[r]),
                self.multipliers[r],
            )
        if runs:
            occupancy = np.ascontiguousarray(np.moveaxis(self.occupancy, 0, -1))
            with np.errstate(divide="ignore"):
                self.policy = conditional_policy(np.log(occupancy))

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {
            "transitions": self.parameters.transitions,
            "barrier_weight": self.barrier_weight,
            **self.model.settings,
        }
