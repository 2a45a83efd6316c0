"""Upper and lower occupancies over confidence sets, compiled by Numba; see :mod:`tabpo.kernels.plain_boxes`.

A target is a state at a step. Its goods are the extreme probabilities of reaching it from the states of an earlier
step, with a minus for the lower bound. The goods of all later targets are taken back step by step together, one run
after the other: a run's numbers cannot depend on the runs beside it. The rows are multiplied by the policy once for all
targets, so that what the actions hand out just adds up.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import types

from tabpo.kernels import simd, simd_boxes
from tabpo.kernels.boxes import LANES, Boxes, PackedBoxes
from tabpo.kernels.compiled import IN1, IN4, OUT2, compiled
from tabpo.kernels.compiled_boxes import hand_out, in_order, packed

BATCH = 64
"""Targets that are sorted before their masses are handed out."""

NOISE = 2.0**-48
"""Goods that differ by this share are equal but for the rounding of a few sums."""


class Rows(NamedTuple):
    """The rows of a step as they are packed: capacity and lowest (blocks A S, LANES), mass (blocks A, LANES)."""

    capacity: Any
    lowest: Any
    mass: Any


class Step(NamedTuple):
    """The rows of a step times the policy.

    Attributes
    ----------
    capacity : (blocks S, A LANES)
    mass, together : (blocks, A LANES)
        ``together`` sums the capacities over the next states.
    certain : (S, S)
        ``sum_a policy(a|x) lowest(s'; x, a)``, [s', x].
    some_certain : bool
        Whether any of it is not 0.
    """

    capacity: Any
    mass: Any
    together: Any
    certain: Any
    some_certain: bool


class Scratch(NamedTuple):
    """Space for :func:`_step_back`: what is written for a batch of targets, their orders, and for a sort."""

    worth: Any
    orders: Any
    places: Any


@compiled()
def _new_rows(n_states: int, n_blocks: int) -> Any:
    """Return rows without mass."""
    shape = (n_blocks * n_states, LANES)
    return Rows(np.zeros(shape), np.zeros(shape), np.zeros((n_blocks, LANES)))


@compiled()
def _new_step(n_states: int, n_blocks: int, n_lanes: int) -> Any:
    """Return a step to be filled in by :func:`_weigh`."""
    certain = np.zeros((n_states, (n_states + 7) // 8 * 8))
    per_row = np.zeros((2, n_blocks, n_lanes))
    return Step(np.zeros((n_blocks * n_states, n_lanes)), per_row[0], per_row[1], certain, False)


@compiled()
def _weigh(rows: Any, weights: Any, step: Any) -> Any:
    """Return the step of these rows and a policy, ``weights`` in packed order, in the arrays of another step."""
    n_blocks, n_actions = len(weights), weights.shape[1] // LANES
    n_states = len(step.certain)
    some_certain = False
    for b in range(n_blocks):
        for a in range(n_actions):
            block, lane = b * n_actions + a, a * LANES
            for i in range(LANES):
                step.mass[b, lane + i] = weights[b, lane + i] * rows.mass[block, i]
                some_certain = some_certain or (weights[b, lane + i] > 0.0 and rows.mass[block, i] != 1.0)
            first, row = block * n_states, b * n_states
            simd_boxes.weigh(rows.capacity, first, n_states, weights, b, lane, step.capacity, row, step.together)
    step.certain[...] = 0.0
    if some_certain:
        for b in range(n_blocks):
            first = b * n_actions * n_states
            simd_boxes.weighed_sum(rows.lowest, first, n_states, weights, b, n_actions, step.certain, b * LANES)
    return Step(step.capacity, step.mass, step.together, step.certain, some_certain)


@compiled()
def _product(coefficients: Any, matrix: Any, width: int, columns: Any, out: Any) -> None:
    """Write ``out[t] = sum_x coefficients[t, x] matrix[x]`` for every target, up to entry ``width`` at least."""
    n_states = len(matrix)
    n_targets, stride = coefficients.shape
    entries = coefficients.ravel()
    fours = n_targets // 4 * 4
    for i in range(0, width, 8):
        for t in range(0, fours, 4):
            simd.dense_4x8(entries, t * stride, stride, n_states, columns, matrix, i, out, t, i)
        for t in range(fours, n_targets):
            simd.dense_1x8(entries, t * stride, stride, n_states, columns, matrix, i, out, t, i)


@compiled()
def _step_back(step: Any, goods: Any, guess: int, scratch: Any) -> int:
    """Take the goods of every target one step back; return the next guess of :func:`hand_out`.

    ``goods[t, x] <- sum_a policy(a|x) max_q <q, goods[t]>`` for the states x that the rows of the step start from.
    """
    n_blocks, n_actions = len(step.mass), step.mass.shape[1] // LANES
    n_states, n_from = len(step.certain), n_blocks * LANES
    n_groups = (n_actions + 4) // 5
    worth = scratch.worth
    for start in range(0, len(goods), BATCH):
        some = goods[start : start + BATCH]
        in_order(some, n_states, scratch.orders, scratch.places)
        if step.some_certain:
            _product(some, step.certain, n_from, scratch.places[0], worth)
        else:
            for t in range(len(some)):
                for x in range(n_from):
                    worth[t, x] = 0.0
        for b in range(n_blocks):
            a = 0
            for group in range(n_groups):
                n = (n_actions - a) // (n_groups - group)
                guess = hand_out(n, step.capacity, step.mass, b, a, scratch.orders, some, guess, worth, b * LANES)
                a += n
        for t in range(len(some)):
            for x in range(n_from):
                some[t, x] = worth[t, x]
    return guess


@compiled()
def _first_step_back(step: Any, goods: Any) -> None:
    """Write the goods one step before the targets: the greatest probability of each state s, and minus the least.

    They go to ``goods[s]`` and ``goods[S + s]``.
    """
    capacity, mass, together, certain, _ = step
    n_states, n_actions = len(certain), mass.shape[1] // LANES
    for b in range(len(mass)):
        first, i = b * n_states, b * LANES
        for s in range(n_states):
            simd_boxes.shares(capacity, first + s, mass, together, b, n_actions, certain, s, goods, s, n_states + s, i)


@compiled()
def _are_equal(goods: Any, t: int, n_states: int) -> bool:
    """Whether all goods of a target are the same but for rounding."""
    slack = NOISE * abs(goods[t, 0])
    x = 1
    while x < n_states and abs(goods[t, x] - goods[t, 0]) <= slack:
        x += 1
    return x == n_states


@compiled()
def _settle(goods: Any, targets: Any, n_targets: int, n_states: int, bounds: Any, r: int) -> int:
    """Write the bounds of the targets whose goods are all the same, and drop these; return how many are left.

    Such goods are their own expectation, whatever the earlier steps.
    """
    left = 0
    for t in range(n_targets):
        if _are_equal(goods, t, n_states):
            bounds[targets[t], r] = goods[t, 0]
        else:
            for x in range(n_states):
                goods[left, x] = goods[t, x]
            targets[left] = targets[t]
            left += 1
    return left


@compiled()
def _in_packed_order(policy: Any, h: int, r: int, states: Any, weights: Any) -> None:
    """Write the policy of a run at a step in these states."""
    for k in range(len(states)):
        b, lane = divmod(k, LANES)
        for a in range(policy.shape[2]):
            weights[b, a * LANES + lane] = policy[h, states[k], a, r]


@compiled()
def _from_states(rows: Any, states: Any, n_actions: int, some: Any) -> None:
    """Write the rows that begin at these states."""
    n_states = len(rows.capacity) // len(rows.mass)
    for k in range(len(states)):
        b, lane = divmod(states[k], LANES)
        new_b, new_lane = divmod(k, LANES)
        for a in range(n_actions):
            block, new_block = b * n_actions + a, new_b * n_actions + a
            some.mass[new_block, new_lane] = rows.mass[block, lane]
            for x in range(n_states):
                row, new_row = block * n_states + x, new_block * n_states + x
                some.capacity[new_row, new_lane] = rows.capacity[row, lane]
                some.lowest[new_row, new_lane] = rows.lowest[row, lane]


@compiled()
def _enter(step: Any, goods: Any, targets: Any, n_targets: int, at: int, n_steps: int) -> int:
    """Add the targets one step after this one, which is number ``at`` of the bounds; return how many there are then."""
    n_states = len(step.certain)
    _first_step_back(step, goods[n_targets:])
    for t in range(2 * n_states):
        side, s = divmod(t, n_states)
        targets[n_targets + t] = (side * n_steps + at) * n_states + s
    return n_targets + 2 * n_states


@compiled(IN4, IN4, IN4, IN1, IN4, types.int64, OUT2)
def _occupancy_bounds(
    capacity: Any, lowest: Any, mass: Any, initial: Any, policy: Any, first: int, bounds: Any
) -> None:
    """Write the greatest occupancies, then minus the least ones, (2 steps S, R), of the steps from ``first`` on."""
    _, n_states, n_actions, n_runs = policy.shape
    n_steps = len(bounds) // (2 * n_states)
    n_blocks, n_lanes, padded = mass.shape[2] // n_actions, n_actions * LANES, (n_states + 7) // 8 * 8
    goods, targets = np.zeros((len(bounds), padded)), np.zeros(len(bounds), dtype=np.int64)
    places, orders = np.zeros((2, padded), dtype=np.int64), np.zeros((BATCH, n_states), dtype=np.int64)
    scratch = Scratch(np.zeros((BATCH, padded)), orders, places)
    step, weights, states = _new_step(n_states, n_blocks, n_lanes), np.zeros((n_blocks, n_lanes)), np.arange(n_states)
    starts = np.flatnonzero(initial)  # the first step needs the rows of these states only
    n_some = (len(starts) + LANES - 1) // LANES
    some, some_weights = _new_rows(n_states, n_some * n_actions), np.zeros((n_some, n_lanes))
    first_step = _new_step(n_states, n_some, n_lanes)
    guess = 0
    for r in range(n_runs):
        n = r if len(mass) > 1 else 0
        n_targets = 0
        for h in range(first + n_steps - 2, -1, -1):
            rows = Rows(capacity[n, h], lowest[n, h], mass[n, h])
            if h > 0:
                _in_packed_order(policy, h, r, states, weights)
                now = _weigh(rows, weights, step)
            else:
                _in_packed_order(policy, h, r, starts, some_weights)
                _from_states(rows, starts, n_actions, some)
                now = _weigh(some, some_weights, first_step)
            n_targets = _settle(goods, targets, n_targets, n_states, bounds, r)
            guess = _step_back(now, goods[:n_targets], guess, scratch)
            if h + 1 >= first:
                n_targets = _enter(now, goods, targets, n_targets, h + 1 - first, n_steps)
        for t in range(n_targets):
            total = 0.0
            for k in range(len(starts)):
                total += initial[starts[k]] * goods[t, k]
            bounds[targets[t], r] = total
        if first == 0:
            for s in range(n_states):
                bounds[s, r], bounds[n_steps * n_states + s, r] = initial[s], -initial[s]


def _from_step(boxes: Boxes | PackedBoxes, initial: Any, policy: Any, first: int, n_steps: int) -> tuple[Any, Any]:
    """Return the bounds (n_steps, S, R) at the steps from ``first`` on."""
    n_states, n_runs = policy.shape[1], policy.shape[3]
    bounds = np.empty((2, n_steps, n_states, n_runs))
    _occupancy_bounds(*packed(boxes).arrays, initial, policy, first, bounds.reshape(-1, n_runs))
    return bounds[0], np.negative(bounds[1], out=bounds[1])


def occupancy_bounds(boxes: Boxes | PackedBoxes, initial: Any, policy: Any) -> tuple[Any, Any]:
    """See :func:`tabpo.kernels.plain_boxes.occupancy_bounds`."""
    return _from_step(boxes, initial, policy, 0, len(policy))


def occupancy_bounds_at(boxes: Boxes | PackedBoxes, initial: Any, policy: Any, h: int) -> tuple[Any, Any]:
    """See :func:`tabpo.kernels.plain_boxes.occupancy_bounds_at`."""
    upper, lower = _from_step(boxes, initial, policy, h, 1)
    return upper[0], lower[0]
