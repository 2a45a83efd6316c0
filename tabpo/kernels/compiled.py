"""The kernels compiled by Numba for one CPU core; see :mod:`tabpo.kernels.plain` for what each computes.

Every loop runs along the last (run) axis inside, so that LLVM vectorises it, and sums in an order that does not depend
on how many runs there are: a run's numbers are the same, bit for bit, alone or beside others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic

from tabpo.kernels import simd
from tabpo.kernels.plain import SMALLEST
from tabpo.kernels.transitions import SharedMatrix, Transitions


def compiled(*signature: Any, **options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return Numba's decorator for one signature, with an on-disk cache, or without one where no folder can be written.

    The signature is fixed so that nothing is compiled again for a read-only array or another layout.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        # Contraction to fused multiply-adds keeps the order of every sum; the other fast-math flags would not.
        settings = {"nogil": True, "fastmath": {"contract"}, "error_model": "numpy", **options}
        compile_for = [types.void(*signature)] if signature else None
        try:
            return njit(compile_for, cache=True, **settings)(function)
        except RuntimeError:  # Numba: "cannot cache function: no locator available"
            return njit(compile_for, **settings)(function)

    return decorate


def _array(dtype: Any, n_axes: int, readonly: bool = True) -> Any:
    """Return Numba's type of a C-contiguous array; a read-only parameter takes writable arrays too."""
    return types.Array(dtype, n_axes, "C", readonly=readonly)


IN1, IN2, IN3, IN4 = (_array(types.float64, n) for n in (1, 2, 3, 4))
OUT1, OUT2, OUT3, OUT4 = (_array(types.float64, n, readonly=False) for n in (1, 2, 3, 4))
INDEX1, INDEX2 = (_array(types.int64, n) for n in (1, 2))
INDEX2_OUT = _array(types.int64, 2, readonly=False)


@intrinsic
def _float_bits(typing_context: Any, x: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(types.float64), code


@intrinsic
def _float_from_bits(typing_context: Any, x: Any) -> Any:
    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(types.int64), code


_ROUND = 1.5 * 2.0**52  # adding it leaves the nearest integer in the low bits
_LOG2_E = 1.4426950408889634
_LN2_HIGH = 6.93147180369123816490e-01  # ln 2 in two parts: n * high is exact for |n| < 2^20
_LN2_LOW = 1.90821492927058770002e-10
# (e^r - 1 - r) / r^2 on |r| <= ln(2) / 2, interpolated at ten Chebyshev points; relative error of e^r below 2e-17
_E0, _E1, _E2, _E3, _E4 = 0.5, 0.16666666666666669, 0.04166666666662413, 0.008333333333330062, 0.0013888888917213717
_E5, _E6, _E7 = 0.00019841269863053618, 2.4801521295954376e-05, 2.7557268459997064e-06
_E8, _E9 = 2.7620088445409746e-07, 2.510038549551032e-08


@compiled(inline="always")
def exp_nonpositive(x: float) -> float:
    """Return e^x for x <= 0 within 1 unit in the last place (0 below -708), free of branches so that loops vectorise.

    e^x = 2^n e^r with |r| <= ln(2)/2; e^r = 1 + r + r^2 P(r), P evaluated in pairs (Estrin's scheme).
    """
    y = max(x, -708.0)
    shifted = y * _LOG2_E + _ROUND
    n = shifted - _ROUND
    r = (y - n * _LN2_HIGH) - n * _LN2_LOW
    r2 = r * r
    r4 = r2 * r2
    low = (_E0 + _E1 * r) + (_E2 + _E3 * r) * r2
    high = (_E4 + _E5 * r) + (_E6 + _E7 * r) * r2
    p = low + high * r4 + (_E8 + _E9 * r) * (r4 * r4)
    power: Any = _float_from_bits((_float_bits(shifted) + 1023) << 52)  # type: ignore[call-arg]
    result = power + power * (p * r2 + r)
    if x < -708.0:
        return 0.0
    return result if x == x else x  # NaN stays NaN


@compiled(OUT4, IN4, IN1, OUT4)
def _exponential_weights(log_weights: Any, gradient: Any, step_size: Any, policy: Any) -> None:
    n_steps, n_states, n_actions, n_runs = log_weights.shape
    largest = np.empty(n_runs)
    total = np.empty(n_runs)
    for h in range(n_steps):
        for s in range(n_states):
            for r in range(n_runs):
                largest[r] = -np.inf
                total[r] = 0.0
            for a in range(n_actions):
                w, g = log_weights[h, s, a], gradient[h, s, a]
                for r in range(n_runs):
                    w[r] -= step_size[r] * g[r]
                    largest[r] = w[r] if w[r] > largest[r] else largest[r]
            for a in range(n_actions):
                w, p = log_weights[h, s, a], policy[h, s, a]
                for r in range(n_runs):
                    w[r] -= largest[r]
                    p[r] = exp_nonpositive(w[r])
            for a in range(n_actions):
                p = policy[h, s, a]
                for r in range(n_runs):
                    total[r] += p[r]
            for r in range(n_runs):
                total[r] = 1.0 / total[r]
            for a in range(n_actions):
                p = policy[h, s, a]
                for r in range(n_runs):
                    p[r] *= total[r]


def exponential_weights(log_weights: Any, gradient: Any, step_size: Any) -> tuple[Any, Any]:
    """See :func:`tabpo.kernels.plain.exponential_weights`."""
    policy = np.empty_like(log_weights)
    _exponential_weights(log_weights, gradient, step_size, policy)
    return log_weights, policy


_BLOCK = 16384  # entries of a matrix (128 KiB) that are used for all runs before the next ones are fetched


@compiled(IN1, INDEX1, IN2, OUT2)
def _dense_product(matrix: Any, columns: Any, vectors: Any, out: Any) -> None:
    """Matrix (n, m), flattened, times vectors (m, R); ``columns`` is not read."""
    m, n_runs = vectors.shape
    n_rows = out.shape[0]
    n_eights = n_runs // 8
    eights = np.empty((n_eights, m, 8))  # eight runs side by side: a column's next entry is the next cache line
    for j in range(m):
        for t in range(n_eights):
            for lane in range(8):
                eights[t, j, lane] = vectors[j, 8 * t + lane]
    rows_per_block = max(_BLOCK // m // 4, 1) * 4
    for start in range(0, n_rows, rows_per_block):
        end = min(start + rows_per_block, n_rows)
        fours = start + (end - start) // 4 * 4
        for t in range(n_eights):
            for i in range(start, fours, 4):
                simd.dense_4x8(matrix, i * m, m, m, columns, eights[t], 0, out, i, 8 * t)
            for i in range(fours, end):
                simd.dense_1x8(matrix, i * m, m, m, columns, eights[t], 0, out, i, 8 * t)
        for r in range(8 * n_eights, n_runs):
            for i in range(start, fours, 4):
                simd.dense_4x1(matrix, i * m, m, m, columns, vectors, r, out, i, r)
            for i in range(fours, end):
                simd.dense_1x1(matrix, i * m, m, m, columns, vectors, r, out, i, r)


@compiled(INDEX1, INDEX1, IN1, IN2, OUT2)
def _sparse_product(start: Any, column: Any, value: Any, vectors: Any, out: Any) -> None:
    """Rows given by their non-zero entries times vectors (m, R)."""
    n_runs = vectors.shape[1]
    for i in range(start.size - 1):
        first, count = start[i], start[i + 1] - start[i]
        r = 0
        while r + 32 <= n_runs:
            simd.sparse_1x32(value, first, 0, count, column, vectors, r, out, i, r)
            r += 32
        while r + 8 <= n_runs:
            simd.sparse_1x8(value, first, 0, count, column, vectors, r, out, i, r)
            r += 8
        while r < n_runs:
            simd.sparse_1x1(value, first, 0, count, column, vectors, r, out, i, r)
            r += 1


@compiled(IN3, INDEX2, INDEX1, IN1, types.int64, IN2, OUT2)
def _step_product(dense: Any, start: Any, column: Any, value: Any, h: int, vectors: Any, out: Any) -> None:
    """Step h's matrix times vectors, see :class:`tabpo.kernels.transitions.StepMatrices`."""
    if len(dense) > 0:
        _dense_product(dense[min(h, len(dense) - 1)].ravel(), column, vectors, out)
    else:
        _sparse_product(start[h], column, value, vectors, out)


def product(matrix: SharedMatrix, vectors: Any) -> Any:
    """See :func:`tabpo.kernels.plain.product`."""
    out = np.empty((len(matrix.dense), vectors.shape[1]))
    _step_product(*matrix.matrices.arrays, 0, vectors, out)
    return out


@compiled(IN3, INDEX2, INDEX1, IN1, IN2, IN4, types.int64, OUT2)
def _next_occupancy(
    dense: Any, start: Any, column: Any, value: Any, occupancy: Any, policy: Any, h: int, after: Any
) -> None:
    _, n_states, n_actions, n_runs = policy.shape
    pairs = np.empty((n_states * n_actions, n_runs))
    for s in range(n_states):
        mu = occupancy[s]
        for a in range(n_actions):
            pair = pairs[s * n_actions + a]
            pi = policy[h, s, a]
            for r in range(n_runs):
                pair[r] = mu[r] * pi[r]
    _step_product(dense, start, column, value, h, pairs, after)


def next_occupancy(transitions: Transitions, occupancy: Any, policy: Any, h: int) -> Any:
    """See :func:`tabpo.kernels.plain.next_occupancy`."""
    after = np.empty_like(occupancy)
    _next_occupancy(*transitions.forward.arrays, occupancy, policy, h, after)
    return after


@compiled(IN3, INDEX2, INDEX1, IN1, IN1, IN4, OUT3)
def _state_occupancy(
    dense: Any, start: Any, column: Any, value: Any, initial: Any, policy: Any, occupancy: Any
) -> None:
    n_steps, n_states, _, n_runs = policy.shape
    for s in range(n_states):
        for r in range(n_runs):
            occupancy[0, s, r] = initial[s]
    for h in range(n_steps - 1):
        _next_occupancy(dense, start, column, value, occupancy[h], policy, h, occupancy[h + 1])


def state_occupancy(transitions: Transitions, initial: Any, policy: Any) -> Any:
    """See :func:`tabpo.kernels.plain.state_occupancy`."""
    n_steps, n_states, _, n_runs = policy.shape
    occupancy = np.empty((n_steps, n_states, n_runs))
    _state_occupancy(*transitions.forward.arrays, initial, policy, occupancy)
    return occupancy


def backup(transitions: Transitions, values: Any, h: int) -> Any:
    """See :func:`tabpo.kernels.plain.backup`."""
    n_states, n_runs = values.shape
    out = np.empty((n_states * transitions.n_actions, n_runs))
    _step_product(*transitions.backward.arrays, h, values, out)
    return out.reshape(n_states, transitions.n_actions, n_runs)


@compiled(IN3, IN4, IN4, OUT1)
def _expected_loss(occupancy: Any, policy: Any, losses: Any, total: Any) -> None:
    n_steps, n_states, n_actions, n_runs = policy.shape
    shared = losses.shape[3] == 1
    mean = np.empty(n_runs)
    for h in range(n_steps):
        for s in range(n_states):
            for r in range(n_runs):
                mean[r] = 0.0
            for a in range(n_actions):
                loss = losses[h, s, a]
                pi = policy[h, s, a]
                if shared:
                    same = loss[0]
                    for r in range(n_runs):
                        mean[r] += pi[r] * same
                else:
                    for r in range(n_runs):
                        mean[r] += pi[r] * loss[r]
            mu = occupancy[h, s]
            for r in range(n_runs):
                total[r] += mu[r] * mean[r]


def expected_loss(occupancy: Any, policy: Any, losses: Any) -> Any:
    """See :func:`tabpo.kernels.plain.expected_loss`."""
    total = np.zeros(policy.shape[-1])
    _expected_loss(occupancy, policy, losses, total)
    return total


@compiled(IN3, INDEX2, INDEX1, IN1, IN4, IN4, types.float64, OUT4, OUT3)
def _q_values(
    dense: Any, start: Any, column: Any, value: Any, losses: Any, policy: Any, factor: float, q: Any, values: Any
) -> None:
    n_steps, n_states, n_actions, n_runs = policy.shape
    action_step = 0 if losses.shape[2] == 1 else 1
    shared = losses.shape[3] == 1 and n_runs > 1
    for s in range(n_states):
        for r in range(n_runs):
            values[n_steps, s, r] = 0.0
    for h in range(n_steps - 1, -1, -1):
        backups = q[h].reshape((n_states * n_actions, n_runs))
        _step_product(dense, start, column, value, h, values[h + 1], backups)
        for s in range(n_states):
            v = values[h, s]
            for r in range(n_runs):
                v[r] = 0.0
            for a in range(n_actions):
                row = q[h, s, a]
                pi = policy[h, s, a]
                loss = losses[h, s, a * action_step]
                if shared:
                    same = loss[0]
                    for r in range(n_runs):
                        row[r] = same + factor * row[r]
                        v[r] += pi[r] * row[r]
                else:
                    for r in range(n_runs):
                        row[r] = loss[r] + factor * row[r]
                        v[r] += pi[r] * row[r]


def q_values(transitions: Transitions, losses: Any, policy: Any, dilation: float = 0.0) -> tuple[Any, Any]:
    """See :func:`tabpo.kernels.plain.q_values`."""
    n_steps, n_states, _, n_runs = policy.shape
    q = np.empty(policy.shape)
    values = np.empty((n_steps + 1, n_states, n_runs))
    _q_values(*transitions.backward.arrays, losses, policy, 1.0 + dilation, q, values)
    return q, values


@compiled(IN4, IN1, IN4, IN2, INDEX2_OUT, INDEX2_OUT)
def _sample_trajectories(table: Any, initial_table: Any, policy: Any, uniforms: Any, states: Any, actions: Any) -> None:
    n_steps, n_states, n_actions, n_runs = policy.shape
    for h in range(n_steps):
        for r in range(n_runs):
            row = initial_table if h == 0 else table[min(h, len(table)) - 1, states[h - 1, r], actions[h - 1, r]]
            u = uniforms[2 * h, r]
            low, high = 0, n_states - 1  # bisection for the first entry above u; the last entry is 1
            while low < high:
                middle = (low + high) // 2
                if u < row[middle]:
                    high = middle
                else:
                    low = middle + 1
            states[h, r] = low
            u = uniforms[2 * h + 1, r]
            chosen = 0
            cumulated = 0.0
            for a in range(n_actions):
                probability = policy[h, low, a, r]
                if probability > 0:  # rounding may leave the total below u: the last possible action then
                    chosen = a
                cumulated += probability
                if u < cumulated:
                    break
            actions[h, r] = chosen


def sample_trajectories(table: Any, initial_table: Any, policy: Any, uniforms: Any) -> tuple[Any, Any]:
    """See :func:`tabpo.kernels.plain.sample_trajectories`."""
    states = np.empty((policy.shape[0], policy.shape[3]), dtype=np.int64)
    actions = np.empty_like(states)
    _sample_trajectories(table, initial_table, policy, uniforms, states, actions)
    return states, actions


@compiled(IN4, INDEX2, INDEX2, OUT2)
def _at_trajectory(array: Any, states: Any, actions: Any, out: Any) -> None:
    n_steps, n_runs = states.shape
    action_step = 0 if array.shape[2] == 1 else 1
    run_step = 0 if array.shape[3] == 1 else 1
    for h in range(n_steps):
        for r in range(n_runs):
            out[h, r] = array[h, states[h, r], actions[h, r] * action_step, r * run_step]


def at_trajectory(array: Any, states: Any, actions: Any) -> Any:
    """See :func:`tabpo.kernels.plain.at_trajectory`."""
    out = np.empty(states.shape)
    _at_trajectory(array, states, actions, out)
    return out


@compiled(IN2, IN4, IN4, IN3, INDEX2, INDEX2, IN1, types.boolean, OUT2)
def _importance_weighted(
    observed: Any,
    acting: Any,
    arrival: Any,
    occupancy: Any,
    states: Any,
    actions: Any,
    exploration: Any,
    adapt: bool,
    out: Any,
) -> None:
    n_steps, n_runs = states.shape
    for h in range(n_steps):
        for r in range(n_runs):
            s, a = states[h, r], actions[h, r]
            probability = acting[h, s, a, r]
            weighted = observed[h, r] / (occupancy[h, s, r] * probability + exploration[r])
            if adapt:
                largest = max(probability, arrival[h, s, a, r])
                weighted *= probability / largest if largest > 0 else 1.0
            out[h, r] = weighted


def importance_weighted(
    observed: Any,
    acting_policy: Any,
    arrival_policy: Any,
    occupancy: Any,
    states: Any,
    actions: Any,
    exploration: Any,
    adapt: bool,
) -> Any:
    """See :func:`tabpo.kernels.plain.importance_weighted`."""
    out = np.empty(states.shape)
    _importance_weighted(observed, acting_policy, arrival_policy, occupancy, states, actions, exploration, adapt, out)
    return out


@compiled(OUT4, INDEX2, INDEX2, IN2)
def _add_at_trajectory(array: Any, states: Any, actions: Any, values: Any) -> None:
    n_steps, n_runs = states.shape
    for h in range(n_steps):
        for r in range(n_runs):
            array[h, states[h, r], actions[h, r], r] += values[h, r]


def add_at_trajectory(array: Any, states: Any, actions: Any, values: Any) -> Any:
    """See :func:`tabpo.kernels.plain.add_at_trajectory`."""
    _add_at_trajectory(array, states, actions, values)
    return array


@compiled(IN4, IN4, IN3, IN3, IN1, IN1, IN1, types.boolean, OUT3)
def _exploration_bonus(
    acting: Any,
    arrival: Any,
    occupancy: Any,
    lower: Any,
    exploration: Any,
    weight: Any,
    width_weight: Any,
    adapt: bool,
    bonus: Any,
) -> None:
    n_steps, n_states, n_actions, n_runs = acting.shape
    wide = np.empty(n_runs)  # the part of the width: sum_a arrival r acting / (mu acting + exploration)
    for h in range(n_steps):
        for s in range(n_states):
            b = bonus[h, s]
            mu = occupancy[h, s]
            low = lower[h, s]
            for r in range(n_runs):
                b[r] = 0.0
                wide[r] = 0.0
            for a in range(n_actions):
                before = acting[h, s, a]
                now = arrival[h, s, a]
                if adapt:
                    for r in range(n_runs):
                        share = min(before[r], now[r]) / max(mu[r] * before[r] + exploration[r], SMALLEST)
                        b[r] += share
                        wide[r] += share * before[r]
                else:
                    for r in range(n_runs):
                        share = now[r] / max(mu[r] * before[r] + exploration[r], SMALLEST)
                        b[r] += share
                        wide[r] += share * before[r]
            for r in range(n_runs):
                b[r] = weight[r] * b[r] + width_weight[r] * (mu[r] - low[r]) * wide[r]


def exploration_bonus(
    acting_policy: Any,
    arrival_policy: Any,
    occupancy: Any,
    exploration: Any,
    weight: Any,
    adapt: bool,
    lower: Any = None,
    width_weight: Any = None,
) -> Any:
    """See :func:`tabpo.kernels.plain.exploration_bonus`."""
    bonus = np.empty(occupancy.shape)
    bounds = (occupancy, occupancy if lower is None else lower)
    weights = (weight, weight if lower is None else width_weight)
    _exploration_bonus(acting_policy, arrival_policy, *bounds, exploration, *weights, adapt, bonus)
    return bonus


@compiled(IN1, OUT1)
def exp_array(exponents: Any, out: Any) -> None:
    """Write e^x of each exponent x <= 0 to ``out``, both one-dimensional: what the benchmark measures."""
    for i in range(len(exponents)):
        out[i] = exp_nonpositive(exponents[i])
