"""Visit counts and boxes of distributions, compiled by Numba; see :mod:`tabpo.kernels.plain_boxes` for the formulas.

One sort of the next states serves all rows (s, a) of a step, so the innermost loops run over these rows, one run after
the other: a run's numbers cannot depend on the runs beside it. Scratch arrays are filled up to whole vectors; what the
lanes beyond the last state hold is never read.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from tabpo.kernels import simd_boxes
from tabpo.kernels.boxes import LANES, Boxes, PackedBoxes
from tabpo.kernels.compiled import IN1, IN3, IN4, INDEX1, INDEX2, OUT2, OUT3, OUT4, _array, compiled

INDEX4, INDEX5 = (_array(types.int64, n) for n in (4, 5))
INDEX1_OUT, INDEX4_OUT, INDEX5_OUT = (_array(types.int64, n, readonly=False) for n in (1, 4, 5))

PATIENCE = 8
"""Guesses of how many states use up the masses are lowered by one after so many that were high enough."""


@compiled()
def in_order(goods: Any, n_states: int, orders: Any, places: Any) -> None:
    """Write the states in the order of decreasing goods for every target; ties keep the states' order."""
    larger, placed = places
    n_lanes = goods.shape[1]
    for t in range(len(goods)):
        i = 0
        while i + 24 <= n_lanes:
            simd_boxes.count_larger_24(goods, t, n_states, larger, i)
            i += 24
        while i < n_lanes:
            simd_boxes.count_larger_8(goods, t, n_states, larger, i)
            i += 8
        if simd_boxes.place(larger, n_states, orders, t) < n_states * (n_states - 1) // 2:  # some have the same place
            placed[:] = 0
            for s in range(n_states):
                place = larger[s]
                orders[t, place + placed[place]] = s
                placed[place] += 1


@compiled()
def _next_guess(guess: int, sure: int, needed: int) -> int:
    """Return a guess, :data:`PATIENCE` times the number of states that use up the masses of most rows, after another.

    No number depends on it, only how long it takes.
    """
    return PATIENCE * (needed + 1) - 1 if needed > sure else max(guess - 1, 0)


@compiled()
def hand_out(
    n: int, capacity: Any, mass: Any, b: int, a: int, orders: Any, goods: Any, guess: int, out: Any, i: int
) -> int:
    """Add what the rows of four states, block b, and n <= 5 actions from a on hand out to ``out``, for every target.

    What it is worth to target t goes to ``out[t]`` from entry i on. Returns the next guess, see :func:`_next_guess`.
    """
    count = len(capacity) // len(mass)
    first, lane = b * count, a * LANES
    for t in range(len(goods)):
        sure = min(guess // PATIENCE, count)
        if n == 5:
            needed = simd_boxes.hand_out_5(capacity, first, mass, b, orders, goods, t, sure, count, out, t, lane, i)
        elif n == 4:
            needed = simd_boxes.hand_out_4(capacity, first, mass, b, orders, goods, t, sure, count, out, t, lane, i)
        elif n == 3:
            needed = simd_boxes.hand_out_3(capacity, first, mass, b, orders, goods, t, sure, count, out, t, lane, i)
        elif n == 2:
            needed = simd_boxes.hand_out_2(capacity, first, mass, b, orders, goods, t, sure, count, out, t, lane, i)
        else:
            needed = simd_boxes.hand_out_1(capacity, first, mass, b, orders, goods, t, sure, count, out, t, lane, i)
        guess = _next_guess(guess, sure, needed)
    return guess


@compiled()
def _best(rows: Any, goods: Any, guess: int, totals: Any, scratch: Any) -> int:
    """Write ``max_q <q, goods[0]>`` of every row to ``totals``; return the next guess, see :func:`_next_guess`."""
    capacity, lowest, mass = rows
    orders, places = scratch
    count = len(capacity) // len(mass)
    in_order(goods, count, orders, places)
    for b in range(len(mass)):
        first, sure = b * count, min(guess // PATIENCE, count)
        lane = 0
        while lane < LANES and mass[b, lane] == 1.0:
            lane += 1
        if lane == LANES:  # all is to be handed out: the lowest probabilities are 0
            totals[b] = 0.0
        else:
            simd_boxes.expectation(lowest, first, goods, count, totals, b)
        needed = simd_boxes.hand_out_1(capacity, first, mass, b, orders, goods, 0, sure, count, totals, b, 0, 0)
        guess = _next_guess(guess, sure, needed)
    return guess


@compiled()
def _best_scratch(n_states: int, n_blocks: int) -> Any:
    """Return goods, totals and scratch for :func:`_best`."""
    padded = (n_states + 7) // 8 * 8
    scratch = np.zeros((1, n_states), dtype=np.int64), np.zeros((2, padded), dtype=np.int64)
    return np.zeros((1, padded)), np.zeros((n_blocks, LANES)), scratch


@compiled(IN4, IN4, IN4, IN3, types.float64, OUT4)
def _extreme_expectations(capacity: Any, lowest: Any, mass: Any, values: Any, sign: float, out: Any) -> None:
    n_steps, n_states, n_actions, n_runs = out.shape
    goods, totals, scratch = _best_scratch(n_states, mass.shape[2])
    guess = 0
    for r in range(n_runs):
        n = r if len(mass) > 1 else 0
        v = r if values.shape[2] > 1 else 0
        for h in range(n_steps):
            for s in range(n_states):
                goods[0, s] = sign * values[h, s, v]
            guess = _best((capacity[n, h], lowest[n, h], mass[n, h]), goods, guess, totals, scratch)
            for s in range(n_states):
                for a in range(n_actions):
                    out[h, s, a, r] = sign * totals[s // LANES * n_actions + a, s % LANES]


def packed(boxes: Boxes | PackedBoxes) -> PackedBoxes:
    """Return the sets in the layout of the compiled kernels."""
    return boxes if isinstance(boxes, PackedBoxes) else boxes.packed


def extreme_expectations(boxes: Boxes | PackedBoxes, values: Any, largest: bool) -> Any:
    """See :func:`tabpo.kernels.plain_boxes.extreme_expectations`."""
    sets = packed(boxes)
    n_states, n_runs = sets.lowest.shape[4], max(len(sets.lowest), values.shape[2])
    out = np.empty((sets.lowest.shape[1], n_states, sets.n_actions, n_runs))
    _extreme_expectations(*sets.arrays, values, 1.0 if largest else -1.0, out)
    return out


@compiled(IN4, IN4, IN4, IN4, IN4, types.float64, types.float64, OUT4, OUT3)
def _extended_q_values(
    capacity: Any, lowest: Any, mass: Any, losses: Any, policy: Any, factor: float, sign: float, q: Any, values: Any
) -> None:
    n_steps, n_states, n_actions, n_runs = policy.shape
    action_step = 0 if losses.shape[2] == 1 else 1
    run_step = 0 if losses.shape[3] == 1 else 1
    goods, totals, scratch = _best_scratch(n_states, mass.shape[2])
    guess = 0
    for r in range(n_runs):
        n = r if len(mass) > 1 else 0
        for s in range(n_states):
            values[n_steps, s, r] = 0.0
        for h in range(n_steps - 1, -1, -1):
            for s in range(n_states):
                goods[0, s] = sign * values[h + 1, s, r]
            guess = _best((capacity[n, h], lowest[n, h], mass[n, h]), goods, guess, totals, scratch)
            for s in range(n_states):
                value = 0.0
                for a in range(n_actions):
                    loss = losses[h, s, a * action_step, r * run_step]
                    q[h, s, a, r] = loss + factor * (sign * totals[s // LANES * n_actions + a, s % LANES])
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
    _extended_q_values(*packed(boxes).arrays, losses, policy, 1.0 + dilation, sign, q, values)
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
    OUT4, OUT4, OUT4, INDEX5, INDEX4, INDEX4_OUT, INDEX1, types.float64, types.float64, types.int64, types.float64, IN1
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
                block, lane = s // LANES * n_actions + a, s % LANES
                first = block * n_states
                for r in range(n_runs):
                    n = visits[h, s, a, r]
                    if due[r] == 0 or n == at_epoch[h, s, a, r]:
                        continue
                    at_epoch[h, s, a, r] = n
                    if h + 1 == n_steps:  # no next state is seen after the last step
                        continue
                    ratio = log_term / max(n - offset, 1)
                    left, room = 1.0, 0.0
                    for x in range(n_states):
                        centre = counts[h, s, a, x, r] / n
                        radius = min(width_scale[r] * (root * math.sqrt(centre * ratio) + linear * ratio), 1.0)
                        low = max(centre - radius, 0.0)
                        lowest[r, h, first + x, lane] = low
                        capacity[r, h, first + x, lane] = min(centre + radius, 1.0) - low
                        left -= low
                        room += capacity[r, h, first + x, lane]
                    mass[r, h, block, lane] = min(max(left, 0.0), room)


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
    sets = packed(boxes)
    _refresh_boxes(*sets.arrays, counts, visits, at_epoch, due, root, linear, offset, log_term, width_scale)
    return sets, at_epoch


@compiled(OUT4, OUT4, OUT4, INDEX2, OUT2, types.boolean)
def _exchange_rows(capacity: Any, lowest: Any, mass: Any, where: Any, rows: Any, give: bool) -> None:
    n_states = rows.shape[1] // 2
    for i in range(len(where)):
        n, h, block, lane = where[i, 0], where[i, 1], where[i, 2], where[i, 3]
        first = block * n_states
        for x in range(n_states):
            room, low = capacity[n, h, first + x, lane], lowest[n, h, first + x, lane]
            if give:
                capacity[n, h, first + x, lane], lowest[n, h, first + x, lane] = rows[i, x], rows[i, n_states + x]
            rows[i, x], rows[i, n_states + x] = room, low
        left = mass[n, h, block, lane]
        if give:
            mass[n, h, block, lane] = rows[i, 2 * n_states]
        rows[i, 2 * n_states] = left


def take_rows(boxes: PackedBoxes, where: Any) -> Any:
    """Return what packed sets hold in some rows: capacity, lowest and mass, (rows, 2 S + 1).

    Parameters
    ----------
    boxes : PackedBoxes
    where : int, (rows, 4)
        See :meth:`PackedBoxes.where`.
    """
    rows = np.empty((len(where), 2 * boxes.lowest.shape[4] + 1))
    _exchange_rows(*boxes.arrays, where, rows, False)
    return rows


def exchange_rows(boxes: PackedBoxes, where: Any, rows: Any) -> None:
    """Put other rows into packed sets; what these held goes to ``rows``, see :func:`take_rows`."""
    _exchange_rows(*boxes.arrays, where, rows, True)
