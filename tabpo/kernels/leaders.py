"""The regularised leaders compiled by Numba for one CPU core; see :mod:`tabpo.kernels.plain_leaders` for the formulas.

Solves are taken ``LANES`` at a time, whichever states and runs they belong to, and the innermost loops run over these
lanes, so that LLVM vectorises them whatever the arrays' shape. (Their number is handed over when the kernels run: loops
of a known length would be unrolled instead.) A lane's numbers do not depend on the other lanes: sums go over the
actions in their order, and a root found is left alone while the others are sought. Lanes that are left over at the end
repeat the last solve.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numba import types

from tabpo.kernels.compiled import (
    _LN2_HIGH,
    _LN2_LOW,
    _ROUND,
    IN1,
    OUT1,
    _array,
    _float_bits,
    _float_from_bits,
    compiled,
    exp_nonpositive,
)
from tabpo.kernels.plain_leaders import MAX_STEPS, SMALL_STEP, q_logarithm

LANES = 32
INDEX1_OUT = _array(types.int64, 1, readonly=False)

_ROUND_BITS = 0x4338000000000000
_SQRT_HALF_BITS = 0x3FE6A09E667F3BCD


@compiled(inline="always")
def log1p_nonnegative(x: float) -> float:
    """Return ln(1 + x) for x >= 0 within 3 units in the last place, free of branches so that loops vectorise.

    1 + x = 2^n m with m in [sqrt(1/2), sqrt(2)); ln m = 2 artanh(s), s = (m - 1) / (m + 1), by its series in s: of the
    first term left out, s^22 / 23, at most 10^-18 of the sum. What the rounding of 1 + x lost is added to m - 1.
    """
    y = 1.0 + x
    part = y - 1.0
    lost = (1.0 - (y - part)) + (x - part)
    bits: Any = _float_bits(y)  # type: ignore[call-arg]
    n_bits = (bits - _SQRT_HALF_BITS) >> 52
    n = _float_from_bits(n_bits + _ROUND_BITS) - _ROUND
    m: Any = _float_from_bits(bits - (n_bits << 52))
    power: Any = _float_from_bits((1023 - n_bits) << 52)
    s = ((m - 1.0) + lost * power) / (m + 1.0)
    s2 = s * s
    s4 = s2 * s2
    low = (1 / 3 + s2 / 5) + (1 / 7 + s2 / 9) * s4
    high = (1 / 11 + s2 / 13) + (1 / 15 + s2 / 17) * s4
    p = low + high * (s4 * s4) + (1 / 19 + s2 / 21) * (s4 * s4) * (s4 * s4)
    return n * _LN2_HIGH + (n * _LN2_LOW + (2.0 * s + 2.0 * s * s2 * p))


@compiled()
def _locate(first: int, n_solves: int, n_actions: int, n_runs: int, solve: Any, at: Any) -> None:
    """Write each lane's solve, and where its first action stands in an array (N, A, R) read as one axis."""
    for lane in range(len(at)):
        solve[lane] = min(first + lane, n_solves - 1)
        at[lane] = solve[lane] // n_runs * (n_actions * n_runs) + solve[lane] % n_runs


@compiled()
def _load_gaps(losses: Any, at: Any, n_runs: int, gaps: Any, least: Any) -> None:
    """Write ``losses - min losses`` of each lane to ``gaps`` (A, lanes)."""
    for lane in range(len(at)):
        least[lane] = np.inf
    for a in range(len(gaps)):
        gaps_a = gaps[a]
        for lane in range(len(at)):
            loss = losses[at[lane] + a * n_runs]
            gaps_a[lane] = loss
            least[lane] = min(least[lane], loss)
    for a in range(len(gaps)):
        gaps_a = gaps[a]
        for lane in range(len(at)):
            gaps_a[lane] -= least[lane]


@compiled(inline="always")
def _rise(x: Any, high: Any, step: Any, small: Any, unsolved: Any, steps: Any) -> bool:
    """Take each lane's Newton step towards its root; return whether a lane has another to take.

    Below the root a step is positive: one that is not comes from rounding, and ends its solve.
    """
    more = 0
    for lane in range(len(x)):
        rises = unsolved[lane] * (1 if step[lane] > 0.0 else 0)
        x[lane] = min(x[lane] + step[lane], high[lane]) if rises == 1 else x[lane]
        steps[lane] += unsolved[lane]
        unsolved[lane] *= 1 if step[lane] > small[lane] else 0
        more += unsolved[lane]
    return more > 0


@compiled()
def _store(weights: Any, at: Any, count: int, n_runs: int, total: Any, policy: Any) -> None:
    """Write the weights (A, lanes) of the first lanes divided by their sums."""
    for lane in range(len(at)):
        total[lane] = 0.0
    for a in range(len(weights)):
        weights_a = weights[a]
        for lane in range(len(at)):
            total[lane] += weights_a[lane]
    for lane in range(len(at)):
        total[lane] = 1.0 / total[lane]
    for a in range(len(weights)):
        weights_a = weights[a]
        for lane in range(count):
            policy[at[lane] + a * n_runs] = weights_a[lane] * total[lane]


@compiled(types.int64, IN1, IN1, types.int64, types.int64, OUT1)
def _shannon(lanes: int, losses: Any, step_size: Any, n_actions: int, n_runs: int, policy: Any) -> None:
    n_solves = step_size.size
    solve, at = np.empty(lanes, np.int64), np.empty(lanes, np.int64)
    rate, total = np.empty(lanes), np.empty(lanes)
    weights = np.empty((n_actions, lanes))
    for first in range(0, n_solves, lanes):
        _locate(first, n_solves, n_actions, n_runs, solve, at)
        _load_gaps(losses, at, n_runs, weights, total)
        for lane in range(lanes):
            rate[lane] = step_size[solve[lane]]
        for a in range(n_actions):
            weights_a = weights[a]
            for lane in range(lanes):
                weights_a[lane] = exp_nonpositive(-rate[lane] * weights_a[lane])
        _store(weights, at, min(lanes, n_solves - first), n_runs, total, policy)


@compiled(types.int64, IN1, IN1, types.int64, types.int64, OUT1, INDEX1_OUT)
def _half_tsallis(
    lanes: int, losses: Any, step_size: Any, n_actions: int, n_runs: int, policy: Any, all_steps: Any
) -> None:
    n_solves = all_steps.size
    solve, at = np.empty(lanes, np.int64), np.empty(lanes, np.int64)
    unsolved, steps = np.empty(lanes, np.int64), np.empty(lanes, np.int64)
    rate, y, high = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    total, slope, step, small = np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes)
    gaps = np.empty((n_actions, lanes))
    for first in range(0, n_solves, lanes):
        _locate(first, n_solves, n_actions, n_runs, solve, at)
        _load_gaps(losses, at, n_runs, gaps, total)
        for lane in range(lanes):
            rate[lane] = step_size[solve[lane]]
            high[lane], slope[lane] = math.sqrt(n_actions), 0.0
            unsolved[lane], steps[lane] = 1, 0
        for a in range(n_actions):
            gaps_a = gaps[a]
            for lane in range(lanes):
                gaps_a[lane] *= rate[lane]
                slope[lane] += gaps_a[lane]
        for lane in range(lanes):  # the largest of two starts below the root
            y[lane] = max(1.0, high[lane] - slope[lane] / n_actions)
        for _ in range(MAX_STEPS):
            for lane in range(lanes):
                total[lane] = slope[lane] = 0.0
            for a in range(n_actions):
                gaps_a = gaps[a]
                for lane in range(lanes):
                    inverse = 1.0 / (gaps_a[lane] + y[lane])
                    square = inverse * inverse
                    total[lane] += square
                    slope[lane] += square * inverse
            for lane in range(lanes):
                step[lane] = total[lane] * (math.sqrt(total[lane]) - 1.0) / slope[lane]
                small[lane] = SMALL_STEP * y[lane]
            if not _rise(y, high, step, small, unsolved, steps):
                break
        for a in range(n_actions):
            gaps_a = gaps[a]
            for lane in range(lanes):
                inverse = 1.0 / (gaps_a[lane] + y[lane])
                gaps_a[lane] = inverse * inverse
        count = min(lanes, n_solves - first)
        _store(gaps, at, count, n_runs, total, policy)
        for lane in range(count):
            all_steps[first + lane] = steps[lane]


@compiled(types.int64, IN1, IN1, types.float64, types.float64, types.int64, types.int64, OUT1, INDEX1_OUT)
def _tsallis(
    lanes: int,
    losses: Any,
    step_size: Any,
    q: float,
    upper: float,
    n_actions: int,
    n_runs: int,
    policy: Any,
    all_steps: Any,
) -> None:
    n_solves = all_steps.size
    r = 1.0 - q
    power = 1.0 / r
    solve, at = np.empty(lanes, np.int64), np.empty(lanes, np.int64)
    unsolved, steps = np.empty(lanes, np.int64), np.empty(lanes, np.int64)
    rate, t, high = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    total, slope, step, small = np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes)
    gaps = np.empty((n_actions, lanes))
    for first in range(0, n_solves, lanes):
        _locate(first, n_solves, n_actions, n_runs, solve, at)
        _load_gaps(losses, at, n_runs, gaps, total)
        for lane in range(lanes):
            rate[lane] = r / q * step_size[solve[lane]]
            t[lane], high[lane] = 0.0, upper
            unsolved[lane], steps[lane] = 1, 0
        for a in range(n_actions):
            gaps_a = gaps[a]
            for lane in range(lanes):
                gaps_a[lane] *= rate[lane]
        for _ in range(MAX_STEPS):
            for lane in range(lanes):
                total[lane] = slope[lane] = 0.0
            for a in range(n_actions):
                gaps_a = gaps[a]
                for lane in range(lanes):
                    x = gaps_a[lane] + r * t[lane]
                    p = exp_nonpositive(-log1p_nonnegative(x) * power)
                    total[lane] += p
                    slope[lane] += p / (1.0 + x)
            for lane in range(lanes):
                log_total = math.log(total[lane])
                step[lane] = -math.expm1(-r * log_total) / r * math.exp((1.0 + r) * log_total) / slope[lane]
                small[lane] = SMALL_STEP * (1.0 + r * t[lane])
            if not _rise(t, high, step, small, unsolved, steps):
                break
        for a in range(n_actions):
            gaps_a = gaps[a]
            for lane in range(lanes):
                gaps_a[lane] = exp_nonpositive(-log1p_nonnegative(gaps_a[lane] + r * t[lane]) * power)
        count = min(lanes, n_solves - first)
        _store(gaps, at, count, n_runs, total, policy)
        for lane in range(count):
            all_steps[first + lane] = steps[lane]


@compiled(inline="always")
def _pair_root(best: float, gap: float, scale: float) -> float:
    """Return the root y of ``best / y + scale / (gap + y) = 1``, or of its first term alone where the gap is 0."""
    b = best + (0.0 if gap == 0.0 else scale) - gap
    size = abs(b) + math.sqrt(b * b + 4.0 * best * gap)
    return 0.5 * size if b >= 0.0 else 2.0 * best * gap / size


@compiled(types.int64, IN1, IN1, types.int64, types.int64, OUT1, INDEX1_OUT)
def _log_barrier(
    lanes: int, losses: Any, scales: Any, n_actions: int, n_runs: int, policy: Any, all_steps: Any
) -> None:
    n_solves = all_steps.size
    solve, at = np.empty(lanes, np.int64), np.empty(lanes, np.int64)
    unsolved, steps = np.empty(lanes, np.int64), np.empty(lanes, np.int64)
    best, y, high = np.empty(lanes), np.empty(lanes), np.empty(lanes)
    total, slope, step, small = np.empty(lanes), np.empty(lanes), np.empty(lanes), np.empty(lanes)
    gaps, scale = np.empty((n_actions, lanes)), np.empty((n_actions, lanes))
    for first in range(0, n_solves, lanes):
        _locate(first, n_solves, n_actions, n_runs, solve, at)
        _load_gaps(losses, at, n_runs, gaps, total)
        for lane in range(lanes):
            best[lane] = high[lane] = y[lane] = 0.0
            unsolved[lane], steps[lane] = 1, 0
        for a in range(n_actions):
            gaps_a, scale_a = gaps[a], scale[a]
            for lane in range(lanes):
                scale_a[lane] = scales[at[lane] + a * n_runs]
                high[lane] += scale_a[lane]
                best[lane] += scale_a[lane] if gaps_a[lane] == 0.0 else 0.0
        for a in range(n_actions):
            gaps_a, scale_a = gaps[a], scale[a]
            for lane in range(lanes):
                y[lane] = max(y[lane], _pair_root(best[lane], gaps_a[lane], scale_a[lane]))
        for lane in range(lanes):
            high[lane] = max(high[lane], y[lane])
        for _ in range(MAX_STEPS):
            for lane in range(lanes):
                total[lane] = slope[lane] = 0.0
            for a in range(n_actions):
                gaps_a, scale_a = gaps[a], scale[a]
                for lane in range(lanes):
                    inverse = 1.0 / (gaps_a[lane] + y[lane])
                    p = scale_a[lane] * inverse
                    total[lane] += p
                    slope[lane] += p * inverse
            for lane in range(lanes):
                step[lane] = total[lane] * (total[lane] - 1.0) / slope[lane]
                small[lane] = SMALL_STEP * y[lane]
            if not _rise(y, high, step, small, unsolved, steps):
                break
        for a in range(n_actions):
            gaps_a, scale_a = gaps[a], scale[a]
            for lane in range(lanes):
                gaps_a[lane] = scale_a[lane] / (gaps_a[lane] + y[lane])
        count = min(lanes, n_solves - first)
        _store(gaps, at, count, n_runs, total, policy)
        for lane in range(count):
            all_steps[first + lane] = steps[lane]


def shannon_leader(losses: Any, step_size: Any) -> Any:
    """See :func:`tabpo.kernels.plain_leaders.shannon_leader`."""
    policy = np.empty(losses.shape)
    _shannon(LANES, losses.reshape(-1), step_size.reshape(-1), *losses.shape[-2:], policy.reshape(-1))
    return policy


def tsallis_leader(losses: Any, step_size: Any, q: float) -> tuple[Any, Any]:
    """See :func:`tabpo.kernels.plain_leaders.tsallis_leader`."""
    if q == 0.5:
        return _solved(_half_tsallis, losses, step_size)
    return _solved(_tsallis, losses, step_size, q, q_logarithm(losses.shape[-2], 1.0 - q))


def log_barrier_leader(losses: Any, scale: Any) -> tuple[Any, Any]:
    """See :func:`tabpo.kernels.plain_leaders.log_barrier_leader`."""
    return _solved(_log_barrier, losses, scale)


def _solved(kernel: Callable[..., None], losses: Any, rates: Any, *settings: float) -> tuple[Any, Any]:
    policy = np.empty(losses.shape)
    steps = np.empty((*losses.shape[:-2], losses.shape[-1]), dtype=np.int64)
    kernel(
        LANES,
        losses.reshape(-1),
        rates.reshape(-1),
        *settings,
        *losses.shape[-2:],
        policy.reshape(-1),
        steps.reshape(-1),
    )
    return policy, steps
