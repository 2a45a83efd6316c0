"""Backups through each run's empirical transitions as formulas, in array-API code.

One step at a time, so that a learner's backward induction reads like its paper's. The run axis is last; counts are
n(s, a, s') and visits n(s, a), and ``share(s'|s,a) = n(s, a, s') / max(1, n(s, a))``. Arguments are trusted.
"""

from __future__ import annotations

from tabpo.arrays import Array, namespace


def _shares(counts: Array, visits: Array, dtype: object) -> Array:
    """Return ``counts / max(1, visits)``, (S, A, S, R)."""
    xp = namespace(counts)
    divisor = xp.where(visits > 1, visits, xp.ones_like(visits))
    return xp.astype(counts, dtype) / xp.astype(divisor, dtype)[:, :, None, :]


def empirical_mean(counts: Array, visits: Array, values: Array) -> Array:
    """Return ``sum_s' share(s'|s,a) values(s')``, shape (S, A, R): 0 where no next state was seen.

    Parameters
    ----------
    counts : int, (S, A, S, R)
    visits : int, (S, A, R)
    values : (S, R)
        Of the next state.
    """
    xp = namespace(values)
    return xp.sum(_shares(counts, visits, values.dtype) * values, axis=2)


def empirical_variance(counts: Array, visits: Array, values: Array, mean: Array) -> Array:
    """Return ``sum_s' share(s'|s,a) (values(s') - mean(s,a))^2``, shape (S, A, R).

    Parameters
    ----------
    counts : int, (S, A, S, R)
    visits : int, (S, A, R)
    values : (S, R)
    mean : (S, A, R)
        Of the same values, from :func:`empirical_mean`.
    """
    xp = namespace(values)
    return xp.sum(_shares(counts, visits, values.dtype) * (values - mean[:, :, None, :]) ** 2, axis=2)


def least_mean(counts: Array, visits: Array, radius: Array, values: Array) -> Array:
    """Return ``min_p sum_s' p(s') values(s')`` over the distributions with ``|p - share|_1 <= radius``, (S, A, R).

    Mass of up to ``radius / 2`` moves to the state of the least value, from those of the largest first. Where there is
    no visit every distribution is allowed.

    Parameters
    ----------
    counts : int, (S, A, S, R)
        They sum to ``visits``; or they and ``values`` are 0, as after the last step.
    visits : int, (S, A, R)
    radius : (S, A, R), at least 0
    values : (S, R)
    """
    xp = namespace(values)
    order = xp.argsort(-values, axis=0, stable=True)
    falling = xp.take_along_axis(values, order, axis=0)
    least = falling[-1, ...]
    shares = _shares(counts, visits, values.dtype)
    shares = xp.take_along_axis(shares, xp.broadcast_to(order, shares.shape), axis=2)
    moved = xp.minimum(radius / 2, 1.0 - shares[:, :, -1, :])[:, :, None, :]
    until_here = xp.cumulative_sum(shares, axis=2)
    taken = xp.minimum(until_here, moved) - xp.minimum(until_here - shares, moved)
    mean = xp.sum(shares * falling, axis=2) - xp.sum(taken * (falling - least), axis=2)
    return xp.where(visits > 0, mean, least)
