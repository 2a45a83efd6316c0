"""Visit counts and boxes of distributions as formulas, in array-API code.

A set of transitions has the rows ``{q in the simplex : lowest <= q <= highest}``, one for each (h, s, a), see
:mod:`tabpo.kernels.boxes`; the run axis is last. Arguments are trusted.
"""

from __future__ import annotations

from tabpo.arrays import Array, namespace
from tabpo.kernels.boxes import Boxes


def occupancy_bounds(boxes: Boxes, initial: Array, policy: Array) -> tuple[Array, Array]:
    """Return the greatest and the least probability of being in s at step h over the kernels of a set, (H, S, R) each.

    Parameters
    ----------
    boxes : Boxes
    initial : (S,)
    policy : (H, S, A, R)
    """
    xp = namespace(policy)
    by_step = [occupancy_bounds_at(boxes, initial, policy, h) for h in range(policy.shape[0])]
    return xp.stack([upper for upper, _ in by_step]), xp.stack([lower for _, lower in by_step])


def occupancy_bounds_at(boxes: Boxes, initial: Array, policy: Array, h: int) -> tuple[Array, Array]:
    """Return the greatest and the least probability of being in s at step h over the kernels of a set, (S, R) each.

    ``f_h(x) = 1{x = s}``, ``f_{h'}(x) = sum_a policy_{h'}(a|x) max_q <q, f_{h'+1}>``, ``upper(s) = <initial, f_0>``;
    the minimum for ``lower``. Exact, since the rows of the set vary freely and the policy is fixed.

    Parameters
    ----------
    boxes : Boxes
    initial : (S,)
    policy : (H, S, A, R)
        Only ``policy[:h]`` is read.
    h : int
    """
    xp = namespace(policy)
    _, n_states, _, n_runs = policy.shape
    target = xp.eye(n_states, dtype=policy.dtype, device=getattr(policy, "device", None))
    target = xp.broadcast_to(target[:, :, None], (n_states, n_states, n_runs))
    bounds = []
    for sign in (1.0, -1.0):
        goods = sign * target  # (targets, S, R)
        for earlier in reversed(range(h)):
            best = [_best(boxes, earlier, goods[t, ...]) for t in range(n_states)]
            goods = xp.stack([xp.sum(policy[earlier, ...] * one, axis=1) for one in best])
        bounds.append(sign * xp.sum(initial[None, :, None] * goods, axis=1))
    return bounds[0], bounds[1]


def _best(boxes: Boxes, h: int, goods: Array) -> Array:
    """Return ``max_q <q, goods>`` over the rows of step h, shape (S, A, R), for goods (S, R)."""
    lowest, highest = boxes.lowest[h, ...], boxes.highest[h, ...]
    xp = namespace(goods)
    q = greedy(lowest, highest, xp.broadcast_to(goods, (*lowest.shape[:2], *goods.shape)))
    return xp.sum(q * goods, axis=2)


def greedy(lowest: Array, highest: Array, goods: Array) -> Array:
    """Return the distribution q between the bounds, along the last axis but one, that maximises ``<q, goods>``.

    It starts at ``lowest`` and hands out the missing mass in the order of decreasing goods (ties: in the order of the
    entries), to each entry up to ``highest``.

    Parameters
    ----------
    lowest, highest : (..., S, N), N = R or 1
    goods : (..., S, R or 1)
    """
    xp = namespace(goods)
    n_runs = max(lowest.shape[-1], goods.shape[-1])
    shape = (*lowest.shape[:-1], n_runs)
    order = xp.argsort(-xp.broadcast_to(goods, shape), axis=-2, stable=True)
    capacity = xp.take_along_axis(xp.broadcast_to(highest - lowest, shape), order, axis=-2)
    mass = 1.0 - xp.sum(lowest, axis=-2, keepdims=True)
    mass = xp.where(mass > 0, mass, xp.zeros_like(mass))  # rounding may leave it a little below 0
    until_here = xp.cumulative_sum(capacity, axis=-2)
    before = xp.where(until_here - capacity < mass, until_here - capacity, mass)
    added = xp.where(until_here < mass, until_here, mass) - before
    back = xp.argsort(order, axis=-2, stable=True)
    return lowest + xp.take_along_axis(added, back, axis=-2)


def extreme_expectations(boxes: Boxes, values: Array, largest: bool) -> Array:
    """Return the largest or the least expectation of the next state's value over each row of a set, (H, S, A, R).

    Parameters
    ----------
    boxes : Boxes
    values : (H, S, R or 1)
        ``values[h]`` is that of the state reached after step h.
    largest : bool
    """
    sign = 1.0 if largest else -1.0
    return namespace(values).stack([sign * _best(boxes, h, sign * values[h, ...]) for h in range(values.shape[0])])


def extended_q_values(
    boxes: Boxes, losses: Array, policy: Array, dilation: float, largest: bool
) -> tuple[Array, Array]:
    """Return the action values and the state values of each run's policy under the worst or best kernel of its set.

    ``Q_h(s,a) = losses_h(s,a) + (1 + dilation) max_q sum_s' q(s') V_{h+1}(s')`` (min if not ``largest``),
    ``V_h = <policy_h, Q_h>``, ``V_H = 0``.

    Parameters
    ----------
    boxes : Boxes
    losses : (H, S, A or 1, R or 1)
    policy : (H, S, A, R)
    dilation : float
    largest : bool

    Returns
    -------
    q_values : (H, S, A, R)
    values : (H + 1, S, R)
    """
    xp = namespace(policy)
    n_steps, n_states, _, n_runs = policy.shape
    sign = 1.0 if largest else -1.0
    values = [xp.zeros((n_states, n_runs), dtype=policy.dtype, device=getattr(policy, "device", None))]
    q = []
    for h in reversed(range(n_steps)):
        q.append(losses[h, ...] + (1.0 + dilation) * (sign * _best(boxes, h, sign * values[-1])))
        values.append(xp.sum(policy[h, ...] * q[-1], axis=1))
    return xp.stack(q[::-1]), xp.stack(values[::-1])


def count_trajectory(
    counts: Array, visits: Array, at_epoch: Array, due: Array, states: Array, actions: Array
) -> tuple[Array, Array, Array]:
    """Return the counts with one trajectory of each run added, and which runs are due for a new epoch.

    A run is due once a visited (h, s, a) has ``visits >= max(1, 2 at_epoch)``. After the last step no next state is
    seen. The first, second and fourth argument may be overwritten.

    Parameters
    ----------
    counts : int, (H, S, A, S, R)
    visits, at_epoch : int, (H, S, A, R)
    due : int, (R,), 0 or 1
    states, actions : int, (H, R)
    """
    xp = namespace(visits)
    n_states, n_actions = visits.shape[1:3]
    device = getattr(visits, "device", None)
    state = states[:, None, :] == xp.arange(n_states, device=device)[None, :, None]
    action = actions[:, None, :] == xp.arange(n_actions, device=device)[None, :, None]
    pair = state[:, :, None, :] & action[:, None, :, :]
    visits = visits + xp.astype(pair, visits.dtype)
    seen = xp.astype(pair[:-1, :, :, None, :] & state[1:, None, None, :, :], counts.dtype)
    counts = xp.concat([counts[:-1, ...] + seen, counts[-1:, ...]])
    doubled = pair & (visits >= 1) & (visits >= 2 * at_epoch)
    return counts, visits, xp.where(xp.any(doubled, axis=(0, 1, 2)), xp.ones_like(due), due)


def bernstein_radius(
    centre: Array, visits: Array, root: float, linear: float, offset: int, log_term: float, width_scale: Array
) -> Array:
    """Return ``min{1, width_scale (root sqrt(centre log_term / m) + linear log_term / m)}``.

    ``m = max(1, visits - offset)``. Entries lie in [0, 1], so that the cut at 1 changes no set.

    Parameters
    ----------
    centre : (..., S, R)
    visits : int, (..., R)
    width_scale : (R,) or a number
    """
    xp = namespace(centre)
    ratio = log_term / xp.astype(xp.where(visits > offset + 1, visits - offset, xp.ones_like(visits)), centre.dtype)
    ratio = ratio[..., None, :]
    radius = width_scale * (root * xp.sqrt(centre * ratio) + linear * ratio)
    return xp.where(radius < 1, radius, xp.ones_like(radius))


def refresh_boxes(
    boxes: Boxes,
    counts: Array,
    visits: Array,
    at_epoch: Array,
    due: Array,
    root: float,
    linear: float,
    offset: int,
    log_term: float,
    width_scale: Array,
) -> tuple[Boxes, Array]:
    """Return the sets around the present counts for the runs that are due, and the visits at the start of the epochs.

    The centre of a row is ``counts / visits``; a row that was never followed by a next state stays as it is. The radius
    is that of :func:`bernstein_radius`. Packed ``boxes`` are overwritten, ``at_epoch`` may be.

    Parameters
    ----------
    boxes : Boxes
    counts : int, (H, S, A, S, R)
    visits, at_epoch : int, (H, S, A, R)
    due : int, (R,), 0 or 1
    root, linear, offset, log_term : float
    width_scale : (R,)
    """
    xp = namespace(visits)
    floats = boxes.lowest.dtype
    followed = xp.sum(counts, axis=3)
    divisor = xp.astype(xp.where(followed > 0, followed, xp.ones_like(followed)), floats)
    centre = xp.astype(counts, floats) / divisor[:, :, :, None, :]
    radius = bernstein_radius(centre, visits, root, linear, offset, log_term, width_scale)
    new = Boxes.around(centre, radius)
    changed = ((due > 0) & (followed > 0))[:, :, :, None, :]
    boxes = Boxes(xp.where(changed, new.lowest, boxes.lowest), xp.where(changed, new.highest, boxes.highest))
    return boxes, xp.where(due > 0, visits, at_epoch)
