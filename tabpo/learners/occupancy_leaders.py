"""The occupancy measure of a regularised leader, for one model."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabpo.learners.occupancy_programmes import flow_curvature, flow_imbalance, reachable_states, solve

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class LeaderPoint:
    """A point of the dual of :class:`RegularisedLeader`."""

    value: float
    imbalance: Floats
    occupancy: Floats
    weights: Floats
    transitions: Floats

    def hessian(self) -> Floats:
        """Return the second derivatives: the pairs weigh as the inverse of the regulariser's curvature."""
        return flow_curvature(self.weights, self.transitions)


class RegularisedLeader:
    """The occupancy measure of least loss and regulariser, for one model.

    ``argmin_q <q, L> - root_weight sum sqrt(q) + barrier_weight sum ln(1/q)`` over the occupancy measures (Jin, Luo
    2020; Jin, Huang, Luo 2021). At multipliers v every pair minimises on its own, with the loss
    ``z = L_h(s,a) - v_h(s) + sum_s' p_h(s'|s,a) v_{h+1}(s')``: its ``y = 1/sqrt(q)`` is the positive root of
    ``barrier_weight y^2 + root_weight y / 2 = z``.

    Parameters
    ----------
    transitions : (H, S, A, S)
    initial : (S,)
    """

    def __init__(self, transitions: Floats, initial: Floats) -> None:
        self.transitions, self.initial = transitions[:-1], initial
        self.reachable = reachable_states(self.transitions, initial)
        self._inside = np.broadcast_to(self.reachable[:, :, None], transitions.shape[:3])

    def __call__(
        self, losses: Floats, root_weight: float, barrier_weight: float, start: Floats
    ) -> tuple[Floats, Floats]:
        """Return the measure q (H, S, A), 0 at unreachable states, and its multipliers.

        Parameters
        ----------
        losses : (H, S, A)
            L, of any sign.
        root_weight, barrier_weight : float, at least 0, not both 0
            1/eta and beta.
        start : (H, S)
            Multipliers to begin from, such as those of a similar programme; zeros will do.

        Raises
        ------
        TabpoError
            If the dual was not solved to the tolerance.
        """
        remaining = np.arange(len(losses), 0, -1.0)[:, None]  # H - h: subtracted from v it adds 1 to every z

        def dual(v: Floats, power: float) -> LeaderPoint | None:
            return self._at(v, power * losses, root_weight, barrier_weight)

        def enter(v: Floats, power: float) -> Floats:
            # At the solution q <= 1, and hence z >= barrier_weight + root_weight / 2.
            least = self._reduced(v, power * losses)[self._inside].min()
            entered: Floats = v - max(barrier_weight + root_weight / 2.0 - least, 0.0) * remaining
            return entered

        v, point = solve(dual, start, enter)
        return point.occupancy, v

    def _reduced(self, v: Floats, losses: Floats) -> Floats:
        """Return z."""
        z: Floats = losses - v[:, :, None]
        z[:-1] += np.einsum("hsax,hx->hsa", self.transitions, v[1:])
        return z

    def _at(self, v: Floats, losses: Floats, root_weight: float, barrier_weight: float) -> LeaderPoint | None:
        z = self._reduced(v, losses)[self._inside]
        if z.min() <= 0:
            return None
        half = root_weight / 2.0
        y = 2.0 * z / (half + np.sqrt(half**2 + 4.0 * barrier_weight * z))
        occupancy, weights = np.zeros(losses.shape), np.zeros(losses.shape)
        occupancy[self._inside] = y**-2
        weights[self._inside] = 1.0 / (half / 2.0 * y**3 + barrier_weight * y**4)
        conjugate = np.sum(root_weight / y - 2.0 * barrier_weight * np.log(y) - z / y**2)
        return LeaderPoint(
            float(conjugate - self.initial @ v[0]),
            flow_imbalance(occupancy, self.transitions, self.initial),
            occupancy,
            weights,
            self.transitions,
        )
