"""The occupancy measure nearest to another in relative entropy, for known transitions or a set of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tabpo.learners.occupancy_programmes import flow_curvature, flow_imbalance, reachable_states, solve

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class Rows:
    """What the pairs (h, s, a) before the last step make of the multipliers of the next states.

    Attributes
    ----------
    values : (H - 1, S, A)
        ``max_p -<p, v_{h+1}> - KL(p | previous p)`` over the pair's distributions p.
    transitions, log_transitions : (H - 1, S, A, S)
        The maximising p.
    free : bool, (H - 1, S, A, S)
        Entries strictly between their bounds: those that move with the multipliers.
    """

    values: Floats
    transitions: Floats
    log_transitions: Floats
    free: Booleans

    def spread(self, occupancy: Floats) -> Floats:
        """Return the second derivatives (H - 1, S, S) of ``sum occupancy * values``."""
        H, S, A, _ = self.transitions.shape
        p = np.where(self.free, self.transitions, 0.0).reshape(H, S * A, S)
        mass = p.sum(axis=2, keepdims=True)
        weighted = occupancy.reshape(H, S * A, 1) * p
        spread: Floats = -(weighted / np.where(mass > 0, mass, 1.0)).swapaxes(1, 2) @ p
        np.einsum("hxx->hx", spread)[...] += weighted.sum(axis=1)  # a view of the diagonals
        return spread


@dataclass(frozen=True, eq=False)
class ProjectionPoint:
    """A point of the dual ``sum_h ln Z_h(v) - sum_s initial(s) v_0(s)`` of a projection."""

    value: float
    imbalance: Floats
    log_occupancy: Floats
    rows: Rows

    @classmethod
    def at(cls, v: Floats, log_weights: Floats, rows: Rows, initial: Floats) -> ProjectionPoint:
        """Return the point at multipliers: ``ln q_h(s,a) = log_weights + v_h(s) + values_h(s,a) - ln Z_h``."""
        exponents = log_weights + v[:, :, None]
        exponents[:-1] += rows.values
        largest = exponents.max(axis=(1, 2), keepdims=True)
        log_normalisers = largest + np.log(np.exp(exponents - largest).sum(axis=(1, 2), keepdims=True))
        log_occupancy = exponents - log_normalisers
        imbalance = flow_imbalance(np.exp(log_occupancy), rows.transitions, initial)
        return cls(float(log_normalisers.sum() - initial @ v[0]), imbalance, log_occupancy, rows)

    def hessian(self) -> Floats:
        """Return the covariance of the pairs' gradients, and how the rows move."""
        occupancy = np.exp(self.log_occupancy)
        H, S, _ = occupancy.shape
        hessian = flow_curvature(occupancy, self.rows.transitions)
        before, after = np.arange(H - 1), np.arange(1, H)
        hessian[after, :, after, :] += self.rows.spread(occupancy[:-1])
        mean = np.zeros((H, H, S))
        mean[np.arange(H), np.arange(H)] = occupancy.sum(axis=2)
        mean[before, after] = -np.einsum("hsa,hsax->hx", occupancy[:-1], self.rows.transitions)
        by_step = mean.reshape(H, H * S)
        hessian -= (by_step.T @ by_step).reshape(hessian.shape)
        return hessian


class OccupancyProjection:
    """The occupancy measure nearest in relative entropy to a positive weight, for known transitions.

    ``argmin_q KL(q | w)`` over the occupancy measures of a model is
    ``q_h(s,a) = w_h(s,a) exp(v_h(s) - sum_s' p_h(s'|s,a) v_{h+1}(s')) / Z_h`` with ``v_H = 0`` and v minimising the
    convex dual ``sum_h ln Z_h(v) - sum_s initial(s) v_0(s)`` (section 8b of the formulas page; the multipliers
    v_0 make the first state's distribution any, not only a point).

    Parameters
    ----------
    transitions : (H, S, A, S)
    initial : (S,)
    """

    def __init__(self, transitions: Floats, initial: Floats) -> None:
        self.transitions, self.initial = transitions[:-1], initial
        self.reachable = reachable_states(self.transitions, initial)
        self._fixed = np.zeros(self.transitions.shape, dtype=np.bool_)

    def __call__(self, log_weights: Floats) -> Floats:
        """Return ln q for weights exp(``log_weights``), both (H, S, A); -inf at unreachable states.

        Raises
        ------
        TabpoError
            If the dual was not solved to :data:`TOLERANCE`.
        """
        log_weights = np.where(self.reachable[:, :, None], log_weights, -np.inf)

        def point(v: Floats, power: float) -> ProjectionPoint:
            return ProjectionPoint.at(v, power * log_weights, self._rows(v), self.initial)

        return solve(point, np.zeros(self.reachable.shape))[1].log_occupancy

    def _rows(self, v: Floats) -> Rows:
        values = -np.einsum("hsax,hx->hsa", self.transitions, v[1:])
        return Rows(values, self.transitions, self.transitions, self._fixed)


class SetProjection:
    """The measure q_h(s,a,s') nearest in relative entropy to another one, over the models of a confidence set.

    ``argmin_q eta <q, c> + KL(q | q^k)`` over the q that balance the flow and have
    ``lowest_h(s'|s,a) q_h(s,a) <= q_h(s,a,s') <= highest_h(s'|s,a) q_h(s,a)`` (Jin, Jin, Luo, Sra, Yu 2020). With
    ``q_h(s,a,s') = q_h(s,a) p_h(s'|s,a)``, the best row p at multipliers v follows from :func:`nearest_distribution`.
    This leaves a dual in v alone, and bounds that hold by construction (derived).

    Parameters
    ----------
    initial : (S,)
    lowest, highest : (H - 1, S, A, S)
        In every row there is a distribution between them.
    """

    def __init__(self, initial: Floats, lowest: Floats, highest: Floats) -> None:
        self.initial, self.lowest, self.highest = initial, lowest, highest

    def __call__(self, log_weights: Floats, log_transitions: Floats) -> tuple[Floats, Floats]:
        """Return ln q_h(s,a) and ln p_h(s'|s,a) of the nearest measure.

        Parameters
        ----------
        log_weights : (H, S, A)
            ``ln q^k_h(s,a) - eta c_h(s,a)``; -inf at unreachable states, and nowhere else.
        log_transitions : (H - 1, S, A, S)
            ``ln q^k_h(s'|s,a)``, finite where ``highest`` is positive.

        Raises
        ------
        TabpoError
            If the dual was not solved to :data:`TOLERANCE`.
        """

        def point(v: Floats, power: float) -> ProjectionPoint:
            rows = self._rows(power * log_transitions - v[1:, None, None, :])
            return ProjectionPoint.at(v, power * log_weights, rows, self.initial)

        # The multipliers 0 are those of q^k, if it is in the set and there is no loss.
        _, solution = solve(point, np.zeros(log_weights.shape[:2]))
        return solution.log_occupancy, solution.rows.log_transitions

    def _rows(self, log_weights: Floats) -> Rows:
        log_p, free = nearest_distribution(log_weights, self.lowest, self.highest)
        p = np.exp(log_p)
        gains = np.subtract(log_weights, log_p, out=np.zeros_like(p), where=p > 0)
        return Rows((p * gains).sum(axis=-1), p, log_p, free)


def nearest_distribution(log_weights: Floats, lowest: Floats, highest: Floats) -> tuple[Floats, Booleans]:
    """Return the distribution between bounds that is nearest to positive weights in relative entropy.

    ``argmin_p KL(p | exp(log_weights))`` over ``lowest <= p <= highest``, ``sum p = 1`` is
    ``p = clip(exp(log_weights) / z, lowest, highest)``. Entries are fixed at their bounds round by round (Bitran, Hax
    1981): with z for the free entries alone, if what exceeds the upper bounds outweighs what the lower ones lack, z
    only grows by clipping it, and the entries that exceed theirs stay there; if not, those below theirs.

    Parameters
    ----------
    log_weights, lowest, highest : (..., n)

    Returns
    -------
    log_p : (..., n)
    free : bool, (..., n)
        Entries that are not fixed at a bound.
    """
    free = np.ones(log_weights.shape, dtype=np.bool_)
    fixed = np.zeros(log_weights.shape)
    while True:
        candidates = np.where(free, log_weights, -np.inf)
        largest = candidates.max(axis=-1, keepdims=True)
        largest = np.where(largest > -np.inf, largest, 0.0)
        weights = np.exp(candidates - largest)
        total = weights.sum(axis=-1, keepdims=True)
        share = np.maximum(1.0 - fixed.sum(axis=-1, keepdims=True), 0.0) / np.where(total > 0, total, 1.0)
        p = share * weights
        excess = np.where(free, np.maximum(p - highest, 0.0), 0.0)
        lack = np.where(free, np.maximum(lowest - p, 0.0), 0.0)
        grows = excess.sum(axis=-1, keepdims=True) >= lack.sum(axis=-1, keepdims=True)
        at_highest, at_lowest = (excess > 0) & grows, (lack > 0) & ~grows
        if not (at_highest.any() or at_lowest.any()):
            break
        fixed = np.where(at_highest, highest, np.where(at_lowest, lowest, fixed))
        free &= ~(at_highest | at_lowest)
    with np.errstate(divide="ignore"):  # an entry with the bound 0
        log_p = np.where(free, log_weights - largest + np.log(share), np.log(fixed))
    return log_p, free


def conditional_policy(log_occupancy: Floats) -> Floats:
    """Return ``pi(a|s) = q(s,a) / sum_a q(s,a)`` for ln q (H, S, A, R); uniform where q is 0, at unreachable states."""
    exponents = np.where(log_occupancy > -np.inf, log_occupancy, 0.0)
    weights = np.exp(exponents - exponents.max(axis=2, keepdims=True))
    # A cumulative sum adds in order however many runs there are; a sum may not.
    policy: Floats = weights / np.cumsum(weights, axis=2)[:, :, -1:]
    return policy
