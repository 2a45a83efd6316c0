"""Visit counts and boxes of distributions, compiled by Numba; see :mod:`tabpo.kernels.plain_boxes` for the formulas.

One sort serves all rows (s, a) of a step, so the innermost loops run over these rows, one run after the other: a run's
numbers cannot depend on the runs beside it. Scratch arrays are filled up to whole vectors of eight; what the lanes
beyond the last state or row hold is never read.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from tabpo.kernels import simd, simd_boxes
from tabpo.kernels.boxes import Boxes, PackedBoxes
from tabpo.kernels.compiled import (
    IN1,
    IN3,
    IN4,
    INDEX1,
    INDEX2,
    OUT3,
    OUT4,
    _array,
    compiled,
)

IN5 = _array(types.float64, 5)
INDEX4, INDEX5 = (_array(types.int64, n) for n in (4, 5))
INDEX1_OUT, INDEX4_OUT, INDEX5_OUT = (_array(types.int64, n, readonly=False) for n in (1, 4, 5))

BLOCK = 16
"""Targets whose products with the lowest probabilities are taken before their masses are handed out."""


@compiled()
def _in_order(goods: Any, n_states: int, order: Any, larger: Any, placed: Any) -> None:
    """Write the states in the order of decreasing ``goods``; ties keep the states' order."""
    for i in range(0, n_states, 8):
        simd_boxes.count_larger_8(goods, n_states, larger, i)
    for s in range(n_states):
        placed[s] = 0
    for s in range(n_states):
        place = larger[s]
        order[place + placed[place]] = s
        placed[place] += 1


@compiled()
def _average(weights: Any, terms: Any, n_from: int, goods: Any) -> None:
    """Write ``goods(x) = sum_a weights(a|x) terms(x, a)`` for the first ``n_from`` states; rows in packed order."""
    n_actions = (weights.size - 8) // n_from
    for i in range(0, n_from, 8):
        simd_boxes.weighted_sum_8(weights, terms, n_from, n_actions, goods, i)


@compiled()
def _best(rows: Any, goods: Any, first: int, last: int, totals: Any, sorting: Any) -> None:
    """Write ``max_q <q, goods[t]>`` of every row for first <= t < last to ``totals[t - first]``."""
    capacity, lowest, mass = rows
    n_states, n_rows = lowest.shape
    stride = goods.shape[1]
    coefficients = goods.ravel()
    order = sorting[0]
    fours = first + (last - first) // 4 * 4
    for i in range(0, n_rows, 8):  # <lowest, goods>
        for t in range(first, fours, 4):
            simd.dense_4x8(coefficients, t * stride, stride, n_states, order, lowest, i, totals, t - first, i)
        for t in range(fours, last):
            simd.dense_1x8(coefficients, t * stride, stride, n_states, order, lowest, i, totals, t - first, i)
    for t in range(first, last):
        _in_order(goods[t], n_states, order, sorting[1], sorting[2])
        i = 0
        while i + 16 <= n_rows:
            simd_boxes.hand_out_16(capacity, mass, order, goods[t], n_states, totals[t - first], i)
            i += 16
        if i < n_rows:
            simd_boxes.hand_out_8(capacity, mass, order, goods[t], n_states, totals[t - first], i)


@compiled()
def _scratch(n_targets: int, n_states: int, n_rows: int) -> Any:
    """Return space for the extreme expectations of ``n_targets`` targets, and for a sort."""
    return np.zeros((n_targets, n_rows + 8)), np.zeros((3, n_states + 7), dtype=np.int64)


@compiled()
def _step_back(rows: Any, weights: Any, n_from: int, goods: Any) -> None:
    """Take the goods of the targets one step back.

    ``goods[t, x] <- sum_a weights(a|x) max_q <q, goods[t]>`` for the ``n_from`` states x that the rows start from.
    """
    n_states, n_rows = rows[0].shape
    totals, sorting = _scratch(BLOCK, n_states, n_rows)
    for start in range(0, len(goods), BLOCK):
        end = min(start + BLOCK, len(goods))
        _best(rows, goods, start, end, totals, sorting)
        for t in range(start, end):
            _average(weights, totals[t - start], n_from, goods[t])


@compiled()
def _first_step_back(rows: Any, weights: Any, n_from: int, goods: Any) -> None:
    """Write the goods one step before the targets: the greatest probability of each state s, and minus the least.

    They go to ``goods[s]`` and ``goods[S + s]``. The least probability leaves to the other states what they can take.
    """
    capacity, lowest, mass = rows
    n_states, n_rows = lowest.shape
    terms = np.zeros((3, n_rows + 8))
    together, greatest, negative = terms[0], terms[1], terms[2]
    for s in range(n_states):
        for i in range(n_rows):
            together[i] += capacity[s, i]
    for s in range(n_states):
        room, low = capacity[s], lowest[s]
        for i in range(n_rows):
            left = max(mass[i] - (together[i] - room[i]), 0.0)
            greatest[i] = low[i] + min(room[i], mass[i])
            negative[i] = -(low[i] + min(room[i], left))
        _average(weights, greatest, n_from, goods[s])
        _average(weights, negative, n_from, goods[n_states + s])


@compiled()
def _to_start(sets: Any, weights: Any, start: Any, goods: Any, h: int) -> None:
    """Write the goods of the targets of step h >= 1 at the states where the first step starts.

    ``goods[s]`` for the greatest probability of state s, ``goods[S + s]`` for minus the least. ``sets`` and ``weights``
    are those of one run by step, ``start`` the rows and weights of the starting states and their number.
    """
    capacity, lowest, mass = sets
    start_rows, start_weights, n_starts = start
    n_states = capacity.shape[1]
    if h == 1:
        _first_step_back(start_rows, start_weights, n_starts, goods)
        return
    _first_step_back((capacity[h - 1], lowest[h - 1], mass[h - 1]), weights[h - 1], n_states, goods)
    for i in range(h - 2, 0, -1):
        _step_back((capacity[i], lowest[i], mass[i]), weights[i], n_states, goods)
    _step_back(start_rows, start_weights, n_starts, goods)


@compiled()
def _start_of(sets: Any, weights: Any, starts: Any) -> Any:
    """Return the rows of the first step from the starting states, in packed order, their weights and their number."""
    capacity, lowest, mass = sets
    n_states, n_starts = capacity.shape[1], len(starts)
    n_actions = (weights.shape[1] - 8) // n_states
    n_rows = (n_starts * n_actions + 7) // 8 * 8
    some_capacity, some_lowest, some_mass = np.zeros((n_states, n_rows)), np.zeros((n_states, n_rows)), np.zeros(n_rows)
    some_weights = np.zeros(n_starts * n_actions + 8)
    for a in range(n_actions):
        for k in range(n_starts):
            i, row = a * n_starts + k, a * n_states + starts[k]
            some_weights[i] = weights[0, row]
            some_mass[i] = mass[0, row]
            for x in range(n_states):
                some_capacity[x, i] = capacity[0, x, row]
                some_lowest[x, i] = lowest[0, x, row]
    return (some_capacity, some_lowest, some_mass), some_weights, n_starts


@compiled(IN4, IN4, IN3, IN1, IN4, types.int64, OUT3, OUT3)
def _occupancy_bounds(
    capacity: Any, lowest: Any, mass: Any, initial: Any, policy: Any, first: int, upper: Any, lower: Any
) -> None:
    """Write the bounds at the steps from ``first`` on, as many as there is room for."""
    _, n_states, n_actions, n_runs = policy.shape
    last = first + len(upper)
    goods = np.zeros((2 * n_states, (n_states + 7) // 8 * 8))
    weights = np.zeros((last, n_states * n_actions + 8))
    starts = np.nonzero(initial)[0]  # the first step needs the rows of these states only
    for r in range(n_runs):
        for h in range(last - 1):
            for a in range(n_actions):
                for s in range(n_states):
                    weights[h, a * n_states + s] = policy[h, s, a, r]
        n = r if len(mass) > 1 else 0
        sets = capacity[n], lowest[n], mass[n]
        start = _start_of(sets, weights, starts)
        for h in range(first, last):
            if h == 0:
                for s in range(n_states):
                    upper[0, s, r] = lower[0, s, r] = initial[s]
                continue
            _to_start(sets, weights, start, goods, h)
            for s in range(n_states):
                most, least = 0.0, 0.0
                for k in range(len(starts)):
                    most += initial[starts[k]] * goods[s, k]
                    least -= initial[starts[k]] * goods[n_states + s, k]
                upper[h - first, s, r] = most
                lower[h - first, s, r] = least


def _packed(boxes: Boxes | PackedBoxes) -> PackedBoxes:
    return boxes if isinstance(boxes, PackedBoxes) else boxes.packed


def occupancy_bounds(boxes: Boxes | PackedBoxes, initial: Any, policy: Any) -> tuple[Any, Any]:
    """See :func:`tabpo.kernels.plain_boxes.occupancy_bounds`."""
    n_steps, n_states, _, n_runs = policy.shape
    upper = np.empty((n_steps, n_states, n_runs))
    lower = np.empty_like(upper)
    _occupancy_bounds(*_packed(boxes).arrays, initial, policy, 0, upper, lower)
    return upper, lower


def occupancy_bounds_at(boxes: Boxes | PackedBoxes, initial: Any, policy: Any, h: int) -> tuple[Any, Any]:
    """See :func:`tabpo.kernels.plain_boxes.occupancy_bounds_at`."""
    _, n_states, _, n_runs = policy.shape
    upper = np.empty((1, n_states, n_runs))
    lower = np.empty_like(upper)
    _occupancy_bounds(*_packed(boxes).arrays, initial, policy, h, upper, lower)
    return upper[0], lower[0]


@compiled(IN4, IN4, IN3, IN3, types.float64, OUT4)
def _extreme_expectations(capacity: Any, lowest: Any, mass: Any, values: Any, sign: float, out: Any) -> None:
    n_steps, n_states, n_actions, n_runs = out.shape
    totals, sorting = _scratch(1, n_states, mass.shape[2])
    goods = np.zeros((1, (n_states + 7) // 8 * 8))
    for r in range(n_runs):
        n = r if len(mass) > 1 else 0
        v = r if values.shape[2] > 1 else 0
        for h in range(n_steps):
            for s in range(n_states):
                goods[0, s] = sign * values[h, s, v]
            _best((capacity[n, h], lowest[n, h], mass[n, h]), goods, 0, 1, totals, sorting)
            for s in range(n_states):
                for a in range(n_actions):
                    out[h, s, a, r] = sign * totals[0, a * n_states + s]


def extreme_expectations(boxes: Boxes | PackedBoxes, values: Any, largest: bool) -> Any:
    """See :func:`tabpo.kernels.plain_boxes.extreme_expectations`."""
    sets = _packed(boxes)
    n_sets, n_steps, n_states, _ = sets.lowest.shape
    out = np.empty((n_steps, n_states, sets.n_actions, max(n_sets, values.shape[2])))
    _extreme_expectations(*sets.arrays, values, 1.0 if largest else -1.0, out)
    return out


@compiled(IN4, IN4, IN3, IN4, IN4, types.float64, types.float64, OUT4, OUT3)
def _extended_q_values(
    capacity: Any, lowest: Any, mass: Any, losses: Any, policy: Any, factor: float, sign: float, q: Any, values: Any
) -> None:
    n_steps, n_states, n_actions, n_runs = policy.shape
    action_step = 0 if losses.shape[2] == 1 else 1
    run_step = 0 if losses.shape[3] == 1 else 1
    totals, sorting = _scratch(1, n_states, mass.shape[2])
    goods = np.zeros((1, (n_states + 7) // 8 * 8))
    for r in range(n_runs):
        n = r if len(mass) > 1 else 0
        for s in range(n_states):
            values[n_steps, s, r] = 0.0
        for h in range(n_steps - 1, -1, -1):
            for s in range(n_states):
                goods[0, s] = sign * values[h + 1, s, r]
            _best((capacity[n, h], lowest[n, h], mass[n, h]), goods, 0, 1, totals, sorting)
            for s in range(n_states):
                value = 0.0
                for a in range(n_actions):
                    loss = losses[h, s, a * action_step, r * run_step]
                    q[h, s, a, r] = loss + factor * (sign * totals[0, a * n_states + s])
                    value += policy[h, s, a, r] * q[h, s, a, r]
                values[h, s, r] = value


def extended_q_values(
    boxes: Boxes | PackedBoxes, losses: Any, policy: Any, dilation: float, largest: bool
) -> tuple[Any, Any]:
    """See :func:`tabpo.kernels.plain_boxes.extended_q_values`."""
    n_steps, n_states, _, n_runs = policy.shape
    q = np.empty(policy.shape)
    values = np.empty((n_steps + 1, n_states, n_runs))
    sign = 1.0 if largest else -1.0
    _extended_q_values(*_packed(boxes).arrays, losses, policy, 1.0 + dilation, sign, q, values)
    return q, values


@compiled(INDEX5_OUT, INDEX4_OUT, INDEX4, INDEX1_OUT, INDEX2, INDEX2)
def _count_trajectory(counts: Any, visits: Any, at_epoch: Any, due: Any, states: Any, actions: Any) -> None:
    n_steps, n_runs = states.shape
    for h in range(n_steps):
        for r in range(n_runs):
            s, a = states[h, r], actions[h, r]
            visits[h, s, a, r] += 1
            if visits[h, s, a, r] >= max(1, 2 * at_epoch[h, s, a, r]):
                due[r] = 1
            if h + 1 < n_steps:
                counts[h, s, a, states[h + 1, r], r] += 1


def count_trajectory(
    counts: Any, visits: Any, at_epoch: Any, due: Any, states: Any, actions: Any
) -> tuple[Any, Any, Any]:
    """See :func:`tabpo.kernels.plain_boxes.count_trajectory`."""
    _count_trajectory(counts, visits, at_epoch, due, states, actions)
    return counts, visits, due


@compiled(
    OUT4, OUT4, OUT3, INDEX5, INDEX4, INDEX4_OUT, INDEX1, types.float64, types.float64, types.int64, types.float64, IN1
)
def _refresh_boxes(
    capacity: Any,
    lowest: Any,
    mass: Any,
    counts: Any,
    visits: Any,
    at_epoch: Any,
    due: Any,
    root: float,
    linear: float,
    offset: int,
    log_term: float,
    width_scale: Any,
) -> None:
    n_steps, n_states, n_actions, n_runs = visits.shape
    for h in range(n_steps):
        for s in range(n_states):
            for a in range(n_actions):
                row = a * n_states + s
                for r in range(n_runs):
                    n = visits[h, s, a, r]
                    if due[r] == 0 or n == at_epoch[h, s, a, r]:
                        continue
                    at_epoch[h, s, a, r] = n
                    if h + 1 == n_steps:  # no next state is seen after the last step
                        continue
                    ratio = log_term / max(n - offset, 1)
                    left = 1.0
                    for x in range(n_states):
                        centre = counts[h, s, a, x, r] / n
                        radius = min(width_scale[r] * (root * math.sqrt(centre * ratio) + linear * ratio), 1.0)
                        low = max(centre - radius, 0.0)
                        lowest[r, h, x, row] = low
                        capacity[r, h, x, row] = min(centre + radius, 1.0) - low
                        left -= low
                    mass[r, h, row] = max(left, 0.0)


def refresh_boxes(
    boxes: Boxes | PackedBoxes,
    counts: Any,
    visits: Any,
    at_epoch: Any,
    due: Any,
    root: float,
    linear: float,
    offset: int,
    log_term: float,
    width_scale: Any,
) -> tuple[PackedBoxes, Any]:
    """See :func:`tabpo.kernels.plain_boxes.refresh_boxes`."""
    sets = _packed(boxes)
    _refresh_boxes(*sets.arrays, counts, visits, at_epoch, due, root, linear, offset, log_term, width_scale)
    return sets, at_epoch
