"""What follow-the-regularised-leader with dilated bonuses needs beside the leaders, as formulas in array-API code.

The run axis is last: losses, policies and values (H, S, A, R), what belongs to a state (H, S, R).
"""

from __future__ import annotations

from tabpo.arrays import Array, namespace

NEVER = 2.0**-960
"""What is less likely is never seen; sums of the inverses of what is not stay finite."""


def inverse(values: Array) -> Array:
    """Return 1 / x, and 0 where x < NEVER: a state that is not reached has no weight. Any shape, entries at least 0."""
    xp = namespace(values)
    return xp.where(values > NEVER, 1.0 / xp.where(values > NEVER, values, 1.0), 0.0)


def accumulate(losses: Array, gains: Array) -> Array:
    """Return ``losses - gains``, shifted so that each state's least is 0; ``losses`` may be overwritten.

    Parameters
    ----------
    losses, gains : (H, S, A, R)
    """
    total = losses - gains
    return total - namespace(total).min(total, axis=2, keepdims=True)


def tsallis_spread(policy: Array) -> Array:
    """Return ``xi(s) = sum_a sqrt(policy(a|s)) (1 - policy(a|s))``, (H, S, R).

    Parameters
    ----------
    policy : (H, S, A, R)
    """
    xp = namespace(policy)
    return xp.sum(xp.sqrt(policy) * (1.0 - policy), axis=2)


def leader_entropy(policy: Array, losses: Array, step_size: Array) -> Array:
    """Return the entropy of Shannon leaders, ``-sum_a policy(a|s) ln policy(a|s)``, with one logarithm per state.

    As ``policy(a) = exp(-step_size (losses(a) - min losses)) / Z`` and the largest probability is 1 / Z, it is
    ``step_size sum_a policy(a) (losses(a) - min losses) - ln max_a policy(a)``.

    Parameters
    ----------
    policy, losses : (H, S, A, R)
    step_size : (H, S, R)
    """
    xp = namespace(policy)
    gaps = losses - xp.min(losses, axis=2, keepdims=True)
    return step_size * xp.sum(policy * gaps, axis=2) - xp.log(xp.max(policy, axis=2))


def with_bias(bonus: Array, weight: Array, policy: Array) -> Array:
    """Return ``bonus(s) + weight(s) (1 - policy(a|s))``, (H, S, A, R).

    Parameters
    ----------
    bonus, weight : (H, S, R)
    policy : (H, S, A, R)
    """
    return bonus[:, :, None, :] + weight[:, :, None, :] * (1.0 - policy)


def largest_step(values: Array, policy: Array, step_size: Array, power: float) -> Array:
    """Return ``max_{h,s,a} step_size values policy^power`` of each run, (R,).

    Parameters
    ----------
    values, policy : (H, S, A, R), at least 0
    step_size : (H, S, A or 1, R)
    power : float
        0, 1/2 or 1.
    """
    xp = namespace(values)
    return xp.max(step_size * values * policy**power, axis=(0, 1, 2))


def at_states(array: Array, states: Array) -> Array:
    """Return ``array[h, states[h, r], a, r]``, (H, A, R).

    Parameters
    ----------
    array : (H, S, A, R)
    states : (H, R)
    """
    xp = namespace(array)
    n_steps, _, n_actions, n_runs = array.shape
    index = xp.broadcast_to(states[:, None, None, :], (n_steps, 1, n_actions, n_runs))
    return xp.take_along_axis(array, index, axis=1)[:, 0, :, :]


def add_at_states(array: Array, states: Array, values: Array) -> Array:
    """Return ``array`` with ``values[h, a, r]`` added at (h, states[h, r], a, r); ``array`` may be overwritten.

    Parameters
    ----------
    array : (H, S, A, R)
    states : (H, R)
    values : (H, A, R)
    """
    xp = namespace(array)
    there = states[:, None, None, :] == xp.arange(array.shape[1], device=getattr(array, "device", None))[:, None, None]
    return array + xp.where(there, values[:, None, :, :], xp.zeros_like(array))
