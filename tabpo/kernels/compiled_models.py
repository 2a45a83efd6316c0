"""Backups through each run's empirical transitions, compiled by Numba.

See :mod:`tabpo.kernels.plain_models` for the formulas. The time goes into reading the counts, so each step's are read
in the order in which they lie; loops run along the last (run) axis inside, in an order of sums that does not depend on
how many runs there are.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import types

from tabpo.kernels.compiled import IN2, IN3, INDEX2, OUT3, _array, compiled

INDEX3, INDEX4 = (_array(types.int64, n) for n in (3, 4))


@compiled(INDEX4, INDEX3, IN2, OUT3)
def _empirical_mean(counts: Any, visits: Any, values: Any, mean: Any) -> None:
    n_states, n_actions, _, n_runs = counts.shape
    for s in range(n_states):
        for a in range(n_actions):
            total, n = mean[s, a], visits[s, a]
            for r in range(n_runs):
                total[r] = 0.0
            for x in range(n_states):
                count, value = counts[s, a, x], values[x]
                for r in range(n_runs):
                    total[r] += count[r] * value[r]
            for r in range(n_runs):
                total[r] /= max(n[r], 1)


def empirical_mean(counts: Any, visits: Any, values: Any) -> Any:
    """See :func:`tabpo.kernels.plain_models.empirical_mean`."""
    mean = np.empty(visits.shape)
    _empirical_mean(counts, visits, values, mean)
    return mean


@compiled(INDEX4, INDEX3, IN2, IN3, OUT3)
def _empirical_variance(counts: Any, visits: Any, values: Any, mean: Any, variance: Any) -> None:
    n_states, n_actions, _, n_runs = counts.shape
    for s in range(n_states):
        for a in range(n_actions):
            total, n, centre = variance[s, a], visits[s, a], mean[s, a]
            for r in range(n_runs):
                total[r] = 0.0
            for x in range(n_states):
                count, value = counts[s, a, x], values[x]
                for r in range(n_runs):
                    distance = value[r] - centre[r]
                    total[r] += count[r] * (distance * distance)
            for r in range(n_runs):
                total[r] /= max(n[r], 1)


def empirical_variance(counts: Any, visits: Any, values: Any, mean: Any) -> Any:
    """See :func:`tabpo.kernels.plain_models.empirical_variance`."""
    variance = np.empty(visits.shape)
    _empirical_variance(counts, visits, values, mean, variance)
    return variance


@compiled(INDEX4, INDEX3, IN3, IN2, INDEX2, OUT3)
def _move_mass(counts: Any, visits: Any, radius: Any, values: Any, order: Any, mean: Any) -> None:
    """Lower each mean by what is gained when mass moves to the last state in the order, from the first ones on."""
    n_states, n_actions, _, n_runs = counts.shape
    for s in range(n_states):
        for a in range(n_actions):
            for r in range(n_runs):
                best = order[n_states - 1, r]
                least, n = values[best, r], visits[s, a, r]
                if n == 0:
                    mean[s, a, r] = least
                    continue
                left = min(radius[s, a, r] / 2, 1.0 - counts[s, a, best, r] / n)
                for i in range(n_states - 1):
                    if left <= 0:
                        break
                    x = order[i, r]
                    taken = min(counts[s, a, x, r] / n, left)
                    left -= taken
                    mean[s, a, r] -= taken * (values[x, r] - least)


def least_mean(counts: Any, visits: Any, radius: Any, values: Any) -> Any:
    """See :func:`tabpo.kernels.plain_models.least_mean`."""
    order = np.ascontiguousarray(np.argsort(-values, axis=0, kind="stable"))
    mean = empirical_mean(counts, visits, values)
    _move_mass(counts, visits, radius, values, order, mean)
    return mean
