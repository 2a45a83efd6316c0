"""What follow-the-regularised-leader with dilated bonuses needs beside the leaders, compiled by Numba.

See :mod:`tabpo.kernels.plain_ftrl` for the formulas. Loops run along the last (run) axis inside, in an order of sums
that does not depend on how many runs there are.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types

from tabpo.kernels.compiled import IN1, IN3, IN4, INDEX2, OUT1, OUT3, OUT4, compiled
from tabpo.kernels.plain_ftrl import NEVER


@compiled(IN1, OUT1)
def _inverse(values: Any, out: Any) -> None:
    for i in range(values.size):
        out[i] = 1.0 / values[i] if values[i] > NEVER else 0.0


def inverse(values: Any) -> Any:
    """See :func:`tabpo.kernels.plain_ftrl.inverse`."""
    out = np.empty(values.shape)
    _inverse(values.reshape(-1), out.reshape(-1))
    return out


@compiled(OUT4, IN4)
def _accumulate(losses: Any, gains: Any) -> None:
    n_steps, n_states, n_actions, n_runs = losses.shape
    least = np.empty(n_runs)
    for h in range(n_steps):
        for s in range(n_states):
            for r in range(n_runs):
                least[r] = np.inf
            for a in range(n_actions):
                total, gain = losses[h, s, a], gains[h, s, a]
                for r in range(n_runs):
                    total[r] -= gain[r]
                    least[r] = total[r] if total[r] < least[r] else least[r]
            for a in range(n_actions):
                total = losses[h, s, a]
                for r in range(n_runs):
                    total[r] -= least[r]


def accumulate(losses: Any, gains: Any) -> Any:
    """See :func:`tabpo.kernels.plain_ftrl.accumulate`."""
    _accumulate(losses, gains)
    return losses


@compiled(IN4, OUT3)
def _tsallis_spread(policy: Any, spread: Any) -> None:
    n_steps, n_states, n_actions, n_runs = policy.shape
    for h in range(n_steps):
        for s in range(n_states):
            total = spread[h, s]
            for a in range(n_actions):
                p = policy[h, s, a]
                for r in range(n_runs):
                    total[r] += math.sqrt(p[r]) * (1.0 - p[r])


def tsallis_spread(policy: Any) -> Any:
    """See :func:`tabpo.kernels.plain_ftrl.tsallis_spread`."""
    n_steps, n_states, _, n_runs = policy.shape
    spread = np.zeros((n_steps, n_states, n_runs))
    _tsallis_spread(policy, spread)
    return spread


@compiled(IN4, IN4, IN3, OUT3)
def _leader_entropy(policy: Any, losses: Any, step_size: Any, entropy: Any) -> None:
    n_steps, n_states, n_actions, n_runs = policy.shape
    least, largest = np.empty(n_runs), np.empty(n_runs)
    for h in range(n_steps):
        for s in range(n_states):
            total, eta = entropy[h, s], step_size[h, s]
            for r in range(n_runs):
                least[r], largest[r], total[r] = np.inf, 0.0, 0.0
            for a in range(n_actions):
                loss, p = losses[h, s, a], policy[h, s, a]
                for r in range(n_runs):
                    least[r] = loss[r] if loss[r] < least[r] else least[r]
                    largest[r] = p[r] if p[r] > largest[r] else largest[r]
            for a in range(n_actions):
                loss, p = losses[h, s, a], policy[h, s, a]
                for r in range(n_runs):
                    total[r] += p[r] * (loss[r] - least[r])
            for r in range(n_runs):
                total[r] = eta[r] * total[r] - math.log(largest[r])


def leader_entropy(policy: Any, losses: Any, step_size: Any) -> Any:
    """See :func:`tabpo.kernels.plain_ftrl.leader_entropy`."""
    entropy = np.empty(step_size.shape)
    _leader_entropy(policy, losses, step_size, entropy)
    return entropy


@compiled(IN3, IN3, IN4, OUT4)
def _with_bias(bonus: Any, weight: Any, policy: Any, out: Any) -> None:
    n_steps, n_states, n_actions, n_runs = policy.shape
    for h in range(n_steps):
        for s in range(n_states):
            b, w = bonus[h, s], weight[h, s]
            for a in range(n_actions):
                p, total = policy[h, s, a], out[h, s, a]
                for r in range(n_runs):
                    total[r] = b[r] + w[r] * (1.0 - p[r])


def with_bias(bonus: Any, weight: Any, policy: Any) -> Any:
    """See :func:`tabpo.kernels.plain_ftrl.with_bias`."""
    out = np.empty(policy.shape)
    _with_bias(bonus, weight, policy, out)
    return out


@compiled(IN4, IN4, IN4, types.float64, OUT1)
def _largest_step(values: Any, policy: Any, step_size: Any, power: float, largest: Any) -> None:
    n_steps, n_states, n_actions, n_runs = values.shape
    action_step = 0 if step_size.shape[2] == 1 else 1
    for h in range(n_steps):
        for s in range(n_states):
            for a in range(n_actions):
                value, p, eta = values[h, s, a], policy[h, s, a], step_size[h, s, a * action_step]
                if power == 0.0:
                    for r in range(n_runs):
                        x = eta[r] * value[r]
                        largest[r] = x if x > largest[r] else largest[r]
                elif power == 0.5:
                    for r in range(n_runs):
                        x = eta[r] * value[r]
                        x = x * x * p[r]
                        largest[r] = x if x > largest[r] else largest[r]
                else:
                    for r in range(n_runs):
                        x = eta[r] * value[r] * p[r]
                        largest[r] = x if x > largest[r] else largest[r]


def largest_step(values: Any, policy: Any, step_size: Any, power: float) -> Any:
    """See :func:`tabpo.kernels.plain_ftrl.largest_step`."""
    largest = np.full(values.shape[-1], -np.inf)
    _largest_step(values, policy, step_size, power, largest)
    return np.sqrt(largest) if power == 0.5 else largest  # squares were compared: a root for each run only


@compiled(IN4, INDEX2, OUT3)
def _at_states(array: Any, states: Any, out: Any) -> None:
    n_steps, n_actions, n_runs = out.shape
    for h in range(n_steps):
        for a in range(n_actions):
            for r in range(n_runs):
                out[h, a, r] = array[h, states[h, r], a, r]


def at_states(array: Any, states: Any) -> Any:
    """See :func:`tabpo.kernels.plain_ftrl.at_states`."""
    n_steps, _, n_actions, n_runs = array.shape
    out = np.empty((n_steps, n_actions, n_runs))
    _at_states(array, states, out)
    return out


@compiled(OUT4, INDEX2, IN3)
def _add_at_states(array: Any, states: Any, values: Any) -> None:
    n_steps, n_actions, n_runs = values.shape
    for h in range(n_steps):
        for a in range(n_actions):
            for r in range(n_runs):
                array[h, states[h, r], a, r] += values[h, a, r]


def add_at_states(array: Any, states: Any, values: Any) -> Any:
    """See :func:`tabpo.kernels.plain_ftrl.add_at_states`."""
    _add_at_states(array, states, values)
    return array
