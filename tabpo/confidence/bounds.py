"""What is extreme over a confidence set: occupancies, expectations, values."""

from __future__ import annotations

from typing import Any

from tabpo import kernels
from tabpo.arrays import Array, floating, namespace, with_run_axis
from tabpo.confidence.checks import check_initial, check_runs, check_set, check_sizes, check_values
from tabpo.kernels import Boxes
from tabpo.kernels.plain_boxes import greedy
from tabpo.planning import check_policy


def occupancy_bounds(centre: Array, radius: Array, initial: Array, policy: Array) -> tuple[Array, Array]:
    """Return the greatest and the least state occupancy of a policy over the transitions of a confidence set.

    ``upper_h(s) = max_p Pr_p[s_h = s]`` and ``lower_h(s) = min_p Pr_p[s_h = s]`` over all ``p`` with
    ``|p_h(s'|s,a) - centre_h(s'|s,a)| <= radius_h(s'|s,a)`` and rows in the simplex: COMP-UOB of Jin et al. (2020),
    as a dynamic programme for every (h, s) (DAPO specification, section 3.2). Exact up to rounding.

    Parameters
    ----------
    centre, radius : (H, S, A, S) or (H, S, A, S, R)
        Rows of ``centre`` are distributions; radii are at least 0 (infinity leaves the entry free).
    initial : (S,)
    policy : (H, S, A) or (H, S, A, R)

    Returns
    -------
    upper, lower : (H, S), or (H, S, R) if an argument has a run axis

    Raises
    ------
    InvalidInputError
        If shapes do not fit, a radius is negative, or a row of the centre, the initial distribution or the policy is no
        distribution.
    """
    boxes, has_runs = _boxes(centre, radius)
    initial, policy = floating(initial), floating(policy)
    has_runs = has_runs or policy.ndim == 4
    check_initial(initial, boxes.lowest.shape[1])
    (policy,) = _by_run(boxes, policy=policy)
    check_policy(policy)
    upper, lower = kernels.occupancy_bounds(boxes, initial, policy)
    return (upper, lower) if has_runs else (upper[..., 0], lower[..., 0])


def extreme_distribution(centre: Array, radius: Array, values: Array, largest: bool = True) -> Array:
    """Return the distributions of a set with the largest (or least) expectation of the next state's value.

    GREEDY of the DAPO specification, section 3.2: start at the least probabilities and hand out what is missing to 1 in
    the order of decreasing values, to each state up to its greatest probability; ties in the order of the states.

    Parameters
    ----------
    centre, radius : (H, S, A, S) or (H, S, A, S, R)
    values : (H, S) or (H, S, R)
        ``values[h]`` is that of the state reached after step h.
    largest : bool

    Returns
    -------
    q : (H, S, A, S), or (H, S, A, S, R) if an argument has a run axis

    Raises
    ------
    InvalidInputError
        If shapes do not fit, a radius is negative, a row of the centre is no distribution, or a value is not finite.
    """
    boxes, has_runs, values = _with_values(centre, radius, values)
    goods = (values if largest else -values)[:, None, None, :, :]
    shape = (*boxes.lowest.shape[:3], *goods.shape[3:])
    q = greedy(boxes.lowest, boxes.highest, namespace(goods).broadcast_to(goods, shape))
    return q if has_runs else q[..., 0]


def optimistic_backup(centre: Array, radius: Array, values: Array) -> Array:
    """Return the largest expectation of the next state's value over each row of a set.

    ``max_{q in P_h(s,a)} sum_s' q(s') values_h(s')``: optimistic for what is good when large, as the value of a bonus
    (DAPO specification, section 3.3). For losses the optimist takes :func:`pessimistic_backup`, the minimum.

    Parameters
    ----------
    centre, radius : (H, S, A, S) or (H, S, A, S, R)
    values : (H, S) or (H, S, R)
        ``values[h]`` is that of the state reached after step h.

    Returns
    -------
    expectation : (H, S, A), or (H, S, A, R) if an argument has a run axis

    Raises
    ------
    InvalidInputError
        If shapes do not fit, a radius is negative, a row of the centre is no distribution, or a value is not finite.
    """
    return _backup(centre, radius, values, True)


def pessimistic_backup(centre: Array, radius: Array, values: Array) -> Array:
    """Return the least expectation of the next state's value over each row of a set; see :func:`optimistic_backup`."""
    return _backup(centre, radius, values, False)


def _backup(centre: Array, radius: Array, values: Array, largest: bool) -> Array:
    boxes, has_runs, values = _with_values(centre, radius, values)
    expectation = kernels.extreme_expectations(boxes, values, largest)
    return expectation if has_runs else expectation[..., 0]


def extended_evaluate(
    centre: Array, radius: Array, losses: Array, policy: Array, largest: bool = True, dilation: float = 0.0
) -> tuple[Array, Array]:
    """Return the extreme action values and state values of a policy over the transitions of a set.

    ``Q_h(s,a) = losses_h(s,a) + (1 + dilation) max_{q in P_h(s,a)} sum_s' q(s') V_{h+1}(s')``,
    ``V_h = <policy_h, Q_h>``, ``V_H = 0``; the minimum if ``largest`` is false. With a bonus for ``losses`` it is the
    bonus's value (DAPO specification, section 3.3; with ``dilation = 1/H`` best-of-both-worlds specification, section
    2.3).

    Parameters
    ----------
    centre, radius : (H, S, A, S) or (H, S, A, S, R)
    losses : (H, S, A) or (H, S, A, R)
        Of any sign.
    policy : (H, S, A) or (H, S, A, R)
    largest : bool
    dilation : float

    Returns
    -------
    q_values : (H, S, A), or (H, S, A, R) if an argument has a run axis
    values : (H + 1, S) or (H + 1, S, R)

    Raises
    ------
    InvalidInputError
        If shapes do not fit, a radius is negative, a row of the centre or the policy is no distribution, or a loss is
        not finite.
    """
    boxes, has_runs = _boxes(centre, radius)
    losses, policy = floating(losses), floating(policy)
    has_runs = has_runs or max(losses.ndim, policy.ndim) == 4
    losses, policy = _by_run(boxes, losses=losses, policy=policy)
    check_values(losses, "losses")
    check_policy(policy)
    q_values, values = kernels.extended_q_values(boxes, losses, policy, dilation, largest)
    return (q_values, values) if has_runs else (q_values[..., 0], values[..., 0])


def extended_best_response(centre: Array, radius: Array, losses: Array, largest: bool = False) -> tuple[Array, Array]:
    """Return a policy that is best for losses under the most favourable transitions of a set, and its values.

    Extended value iteration: ``Q_h(s,a) = losses_h(s,a) + min_{q in P_h(s,a)} sum_s' q(s') V_{h+1}(s')``,
    ``V_h = min_a Q_h``, ``V_H = 0``. With ``largest`` the transitions are the least favourable ones, which makes the
    policy the robust one. Ties go to the lowest action.

    Parameters
    ----------
    centre, radius : (H, S, A, S) or (H, S, A, S, R)
    losses : (H, S, A) or (H, S, A, R)
    largest : bool

    Returns
    -------
    policy : (H, S, A), or (H, S, A, R) if an argument has a run axis
        Entries 0 and 1.
    values : (H + 1, S) or (H + 1, S, R)

    Raises
    ------
    InvalidInputError
        If shapes do not fit, a radius is negative, a row of the centre is no distribution, or a loss is not finite.
    """
    boxes, has_runs = _boxes(centre, radius)
    losses = floating(losses)
    has_runs = has_runs or losses.ndim == 4
    (losses,) = _by_run(boxes, losses=losses)
    check_values(losses, "losses")
    xp = namespace(losses)
    n_steps, n_states, n_actions, n_runs = losses.shape
    device = getattr(losses, "device", None)
    actions = xp.arange(n_actions, device=device)[None, :, None]
    values = [xp.zeros((n_states, n_runs), dtype=losses.dtype, device=device)]
    policy = []
    for h in reversed(range(n_steps)):
        step = Boxes(boxes.lowest[h : h + 1, ...], boxes.highest[h : h + 1, ...])
        q = losses[h, ...] + kernels.extreme_expectations(step, values[-1][None, ...], largest)[0, ...]
        policy.append(xp.astype(actions == xp.argmin(q, axis=1, keepdims=True), losses.dtype))
        values.append(xp.min(q, axis=1))
    best, best_values = xp.stack(policy[::-1]), xp.stack(values[::-1])
    return (best, best_values) if has_runs else (best[..., 0], best_values[..., 0])


def _boxes(centre: Array, radius: Array) -> tuple[Boxes, bool]:
    """Return the checked sets with a run axis, and whether they had one."""
    centre, radius = floating(centre), floating(radius)
    check_set(centre, radius)
    return Boxes.around(with_run_axis(centre, 5), with_run_axis(radius, 5)), max(centre.ndim, radius.ndim) == 5


def _with_values(centre: Array, radius: Array, values: Array) -> tuple[Boxes, bool, Array]:
    boxes, has_runs = _boxes(centre, radius)
    values = floating(values)
    has_runs = has_runs or values.ndim == 3
    check_sizes("values", values, tuple(boxes.lowest.shape[:2]), "(H, S)")
    check_values(values, "values")
    return boxes, has_runs, _repeated(boxes, [with_run_axis(values, 3)])[0]


def _by_run(boxes: Boxes, **arrays: Any) -> list[Array]:
    """Return the arrays (H, S, A[, R]), checked for their shapes, with a run axis as long as the longest."""
    for name, array in arrays.items():
        check_sizes(name, array, tuple(boxes.lowest.shape[:3]), "(H, S, A)")
    return _repeated(boxes, [with_run_axis(array, 4) for array in arrays.values()])


def _repeated(boxes: Boxes, arrays: list[Array]) -> list[Array]:
    n_runs = check_runs([boxes.lowest, *arrays])
    return [namespace(array).broadcast_to(array, (*array.shape[:-1], n_runs)) for array in arrays]
