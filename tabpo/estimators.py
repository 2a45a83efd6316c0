"""Estimators of losses and action values from bandit feedback.

Estimators are non-zero only where the trajectory went, so the learners hold them as (H, R): entry (h, r) stands at
(s_h, a_h) of run r, from :func:`tabpo.kernels.importance_weighted`. :func:`q_estimate` spreads one out over (H, S, A).
"""

from __future__ import annotations

from typing import Any

from tabpo import kernels
from tabpo.arrays import Array, namespace, on_device_of, with_run_axis


def delay_adapted_ratio(acting_policy: Array, arrival_policy: Array) -> Array:
    """Return ``r = acting / max(acting, arrival)``, in (0, 1].

    Weighting the importance-weighted estimator of a delayed episode by ``r`` bounds its second moment under the policy
    in force when the feedback arrives (DAPO paper; Jin et al. 2022 for occupancies). Where both probabilities have
    underflowed to 0, r is 1; where only the acting one has, r is 0.

    Parameters
    ----------
    acting_policy, arrival_policy : arrays of one shape, entries in [0, 1]
        The policy that played the episode, and the one in force when its feedback arrives.
    """
    xp = namespace(acting_policy, arrival_policy)
    largest = xp.maximum(acting_policy, arrival_policy)
    vanished = largest == 0
    one = xp.ones_like(largest)
    return xp.where(vanished, one, acting_policy / xp.where(vanished, one, largest))


def returns_to_go(losses: Array) -> Array:
    """Return ``L_h = sum_{h' >= h} loss_h'`` along the first axis, the observed loss-to-go; shape (H, ...)."""
    return namespace(losses).cumulative_sum(losses[::-1, ...], axis=0)[::-1, ...]


def q_estimate(
    losses: Array,
    acting_policy: Array,
    arrival_policy: Array,
    occupancy: Array,
    states: Array,
    actions: Array,
    exploration: Any,
) -> Array:
    """Return DAPO's estimator of the action values, spread out over all (h, s, a).

    ``Qhat_h(s,a) = r_h(s,a) 1{s_h = s, a_h = a} L_h / (mu_h(s) acting_h(a|s) + exploration)``
    (DAPO with known transitions, section 2.1 of its specification).

    Parameters
    ----------
    losses : (H,) or (H, R)
        Observed losses of the trajectory.
    acting_policy, arrival_policy : (H, S, A) or (H, S, A, R)
    occupancy : (H, S) or (H, S, R)
    states, actions : int, (H,) or (H, R)
    exploration : float or (R,)

    Returns
    -------
    estimate : the shape of ``acting_policy``
    """
    xp = namespace(acting_policy)
    acting, arrival = with_run_axis(acting_policy, 4), with_run_axis(arrival_policy, 4)
    occupancy = with_run_axis(occupancy, 3)
    losses, states, actions = (with_run_axis(array, 2) for array in (losses, states, actions))
    exploration = on_device_of(acting, exploration) + xp.zeros_like(acting[0, 0, 0, :])
    visited = kernels.importance_weighted(
        returns_to_go(losses), acting, arrival, occupancy, states, actions, exploration, True
    )
    estimate = kernels.add_at_trajectory(xp.zeros_like(acting), states, actions, visited)
    return estimate[..., 0] if acting_policy.ndim == 3 else estimate
