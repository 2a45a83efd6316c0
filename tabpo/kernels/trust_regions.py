"""Conservative steps compiled by Numba for one CPU core; see :mod:`tabpo.kernels.plain_trust_regions` for the formulas.

Solves are taken one at a time, whichever states and runs they belong to: none depends on another.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from tabpo.kernels.compiled import IN1, OUT1, _array, compiled, exp_nonpositive
from tabpo.kernels.plain_trust_regions import LONGEST, MAX_STEPS, SERIES, SERIES_REACH, SMALL_STEP

INDEX1_OUT = _array(types.int64, 1, readonly=False)

_FEW = 32  # up to here sorting by insertion is the fastest
_S0, _S1, _S2, _S3, _S4, _S5, _S6, _S7, _S8, _S9 = SERIES


@compiled()
def _ascending(gains: Any, order: Any) -> None:
    """Write the actions in ascending order of their gains, equal ones in their own order."""
    if len(gains) > _FEW:
        order[:] = np.argsort(gains, kind="mergesort")
        return
    for a in range(len(gains)):
        k = a
        while k > 0 and gains[order[k - 1]] > gains[a]:
            order[k] = order[k - 1]
            k -= 1
        order[k] = a


@compiled(IN1, IN1, IN1, types.int64, types.int64, OUT1)
def _largest_in_tv_ball(gains: Any, anchor: Any, radius: Any, n_actions: int, n_runs: int, policy: Any) -> None:
    gain = np.empty(n_actions)
    order: Any = np.empty(n_actions, np.int64)
    policy[:] = anchor
    for solve in range(radius.size):
        at = solve // n_runs * (n_actions * n_runs) + solve % n_runs
        reach = radius[solve] if radius[solve] < 1.0 else np.inf
        if reach == 0.0:
            continue
        best = 0
        for a in range(n_actions):
            gain[a] = gains[at + a * n_runs]
            best = a if gain[a] > gain[best] else best
        _ascending(gain, order)
        moved = 0.0
        for a in order:
            if gain[a] >= gain[best]:
                break
            j = at + a * n_runs
            mass = policy[j]
            if moved + mass > reach:
                policy[j] = mass - min(mass, reach - moved)
                moved = reach
                break
            policy[j] = 0.0
            moved += mass
        at_best = at + best * n_runs
        policy[at_best] += moved
        others = 0.0
        for a in range(n_actions):
            others += policy[at + a * n_runs] if a != best else 0.0
        if others == 0.0:
            policy[at_best] = 1.0


@compiled()
def _tilt(rate: float, gaps: Any, weights: Any, p: Any) -> tuple[float, float]:
    """Write the tilted weights, return their relative entropy and its derivative by the rate's logarithm."""
    total = shortfall = 0.0
    for a in range(len(gaps)):
        x = max(-rate * gaps[a], -LONGEST)
        if x < -0.5:  # the difference of what cancels least
            e = exp_nonpositive(x)
            less = e - 1.0
        else:
            less = math.expm1(x)
            e = 1.0 + less
        p[a] = weights[a] * e
        total += p[a]
        shortfall += weights[a] * less
    log_total = math.log(total) if total < 0.5 else math.log1p(shortfall)
    divergence = 0.0
    for a in range(len(gaps)):
        u = max(-rate * gaps[a], -LONGEST) - log_total
        p[a] /= total
        if abs(u) <= SERIES_REACH:
            high = _S5 + u * (_S6 + u * (_S7 + u * (_S8 + u * _S9)))
            series = _S0 + u * (_S1 + u * (_S2 + u * (_S3 + u * (_S4 + u * high))))
            divergence += weights[a] * u * u * series
        else:
            divergence += p[a] * u - (p[a] - weights[a])
    slope = 0.0
    for a in range(len(gaps)):
        u = max(-rate * gaps[a], -LONGEST) - log_total
        slope += p[a] * ((u - divergence) * (u - divergence))
    return divergence, slope


@compiled()
def _rate(target: float, gaps: Any, weights: Any, p: Any) -> tuple[float, int]:
    """Return the rate whose tilted weights have the relative entropy ``target``, and the evaluations made."""
    smallest, mean, variance = 1.0, 0.0, 0.0
    for a in range(len(gaps)):
        smallest = min(smallest, gaps[a]) if gaps[a] > 0.0 else smallest
        mean += weights[a] * gaps[a]
    for a in range(len(gaps)):
        variance += weights[a] * ((gaps[a] - mean) * (gaps[a] - mean))
    low = math.sqrt(8.0 * target)
    high = max(low, min(LONGEST / smallest, 1e308))
    rate = min(math.sqrt(2.0 * target / variance), high) if variance > 0.0 else low
    previous = np.inf
    for evaluation in range(1, MAX_STEPS):
        divergence, slope = _tilt(rate, gaps, weights, p)
        if divergence <= target:
            low = rate
        else:
            high = rate
        step = (math.log(target) - math.log(max(divergence, 5e-324))) * divergence / max(slope, 1e-300)
        down, up = math.log(low) - math.log(rate), math.log(high) - math.log(rate)
        within = down <= step <= up
        if within and abs(step) < SMALL_STEP:
            return rate * math.exp(step), evaluation
        if within and 2.0 * abs(step) < previous:
            rate *= math.exp(step)
            previous = abs(step)
            continue
        middle = math.sqrt(low) * math.sqrt(high)
        if middle <= low or middle >= high:
            return low, evaluation
        rate = middle
        previous = up - down
    return rate, MAX_STEPS


@compiled(IN1, IN1, IN1, types.int64, types.int64, OUT1, INDEX1_OUT)
def _largest_in_kl_ball(
    gains: Any, anchor: Any, radius: Any, n_actions: int, n_runs: int, policy: Any, evaluations: Any
) -> None:
    gaps, weights, p = np.empty(n_actions), np.empty(n_actions), np.empty(n_actions)
    policy[:] = anchor
    for solve in range(radius.size):
        evaluations[solve] = 0
        if radius[solve] == 0.0:
            continue
        at = solve // n_runs * (n_actions * n_runs) + solve % n_runs
        largest, least, mass = -np.inf, np.inf, 0.0
        for a in range(n_actions):
            weights[a] = anchor[at + a * n_runs]
            gaps[a] = 0.5 * gains[at + a * n_runs]  # halves: their differences are finite
            mass += weights[a]
            if weights[a] > 0.0:
                largest, least = max(largest, gaps[a]), min(least, gaps[a])
        if largest == least:
            continue
        best, rest = 0.0, 0.0
        for a in range(n_actions):
            gaps[a] = (largest - gaps[a]) / (largest - least) if weights[a] > 0.0 else 0.0
            weights[a] /= mass
            if gaps[a] == 0.0:
                best += weights[a]
            else:
                rest += weights[a]
        if radius[solve] >= (-math.log(best) if best < 0.5 else math.log1p(rest / best)):
            for a in range(n_actions):
                policy[at + a * n_runs] = weights[a] / best if gaps[a] == 0.0 else 0.0
            continue
        rate, evaluations[solve] = _rate(radius[solve], gaps, weights, p)
        total = 0.0
        for a in range(n_actions):
            p[a] = weights[a] * exp_nonpositive(-rate * gaps[a])
            total += p[a]
        for a in range(n_actions):
            policy[at + a * n_runs] = p[a] / total


def largest_in_tv_ball(gains: Any, anchor: Any, radius: Any) -> Any:
    """See :func:`tabpo.kernels.plain_trust_regions.largest_in_tv_ball`."""
    policy = np.empty(gains.shape)
    _largest_in_tv_ball(
        gains.reshape(-1), anchor.reshape(-1), radius.reshape(-1), *gains.shape[-2:], policy.reshape(-1)
    )
    return policy


def largest_in_kl_ball(gains: Any, anchor: Any, radius: Any) -> tuple[Any, Any]:
    """See :func:`tabpo.kernels.plain_trust_regions.largest_in_kl_ball`."""
    policy = np.empty(gains.shape)
    evaluations = np.empty(radius.shape, dtype=np.int64)
    _largest_in_kl_ball(
        gains.reshape(-1),
        anchor.reshape(-1),
        radius.reshape(-1),
        *gains.shape[-2:],
        policy.reshape(-1),
        evaluations.reshape(-1),
    )
    return policy, evaluations
