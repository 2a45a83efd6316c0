"""The regularised leaders as formulas, in array-API code: one solve for each state and run.

``leader = argmin_p <p, losses> + psi(p)`` over the simplex of A actions (best-of-both-worlds specification, section 4).
The action axis is the last but one, the run axis the last. Losses and step sizes are finite float64 numbers, step
sizes positive; :mod:`tabpo.regularizers` checks that for users.

Setting the derivative equal for all actions gives each probability as a decreasing function of its loss and of one
unknown of the state, the multiplier of ``sum p = 1``. Newton's method finds it on a transform of the sum that is
concave and increasing: started below the root, the iterates rise to it and never pass it. Every probability is a
quotient or a power of sums of non-negative numbers, so that the smallest are as accurate as the largest.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from tabpo.arrays import Array, namespace

MAX_STEPS = 100
"""Newton steps after which a solve is given up.

In 3 10^5 problems with losses up to 1e8, Tsallis needed at most 8, the log-barrier 7 with one step size and 12 with
step sizes that span 8 orders of magnitude. Its worst case doubles the unknown at each step over half of that span: 50
steps for 30 orders.
"""

SMALL_STEP = 1e-8
"""A solve ends with a step below this share of the unknown: the error left is of the order of its square."""


def shannon_leader(losses: Array, step_size: Array) -> Array:
    """Return the leader for ``psi(p) = sum_a p_a ln p_a / step_size``: ``p_a = exp(-step_size losses_a) / Z``.

    Parameters
    ----------
    losses : (..., A, R)
    step_size : (..., R)
    """
    weights = namespace(losses).exp(-step_size[..., None, :] * _gaps(losses))
    return _normalised(weights)


def tsallis_leader(losses: Array, step_size: Array, q: float) -> tuple[Array, Array]:
    """Return the leader for ``psi(p) = (1 - sum_a p_a^q) / ((1 - q) step_size)``, and the Newton steps taken.

    With ``G_a = (1 - q) step_size (losses_a - min losses) / q``, ``p_a = (G_a + y)^(-1 / (1 - q))`` where
    ``f(y) = sum_a p_a = 1``, y in [1, A^(1-q)]. The unknown here is t, ``y = 1 + (1 - q) t``: then
    ``p_a = exp(-log1p(G_a + (1 - q) t) / (1 - q))`` loses nothing as q tends to 1, where it becomes Shannon's.
    Newton's method acts on ``f^(q-1)``, a power mean of the ``G_a + y``. At q = 1/2 no logarithm is needed.

    Parameters
    ----------
    losses : (..., A, R)
    step_size : (..., R)
    q : float, in (0, 1)

    Returns
    -------
    policy : (..., A, R)
    steps : int64, (..., R)
    """
    if q == 0.5:
        return _half_tsallis_leader(losses, step_size)
    xp = namespace(losses)
    r = 1.0 - q
    gaps = r / q * step_size[..., None, :] * _gaps(losses)

    def probabilities(t: Array) -> Array:
        return xp.exp(-xp.log1p(gaps + r * t) / r)

    def advance(t: Array) -> tuple[Array, Array]:
        p = probabilities(t)
        total = _sum(p)
        slope = _sum(p / (1.0 + gaps + r * t))
        step = -xp.expm1(-r * xp.log(total)) / r * xp.exp((1.0 + r) * xp.log(total)) / slope
        return step, 1.0 + r * t

    low = xp.zeros_like(_least(losses))
    high = low + q_logarithm(losses.shape[-2], r)
    t, steps = _newton(advance, low, high)
    return _normalised(probabilities(t)), steps[..., 0, :]


def _half_tsallis_leader(losses: Array, step_size: Array) -> tuple[Array, Array]:
    """Return what :func:`tsallis_leader` does at q = 1/2, with y as the unknown: ``p_a = (G_a + y)^-2``."""
    xp = namespace(losses)
    gaps = step_size[..., None, :] * _gaps(losses)

    def advance(y: Array) -> tuple[Array, Array]:
        inverse = 1.0 / (gaps + y)
        square = inverse * inverse
        total, slope = _sum(square), _sum(square * inverse)
        return total * (xp.sqrt(total) - 1.0) / slope, y

    # f(1) >= 1, as the best action alone gives 1; and f(sqrt(A) - mean G) >= 1, as x^-2 is convex
    one, root = xp.ones_like(_least(losses)), losses.shape[-2] ** 0.5
    y, steps = _newton(advance, xp.maximum(one, root - xp.mean(gaps, axis=-2, keepdims=True)), root * one)
    inverse = 1.0 / (gaps + y)
    return _normalised(inverse * inverse), steps[..., 0, :]


def log_barrier_leader(losses: Array, scale: Array) -> tuple[Array, Array]:
    """Return the leader for ``psi(p) = sum_a scale_a ln(1 / p_a)``, and the Newton steps taken.

    The scale is one over the step size. With ``g_a = losses_a - min losses``, ``p_a = scale_a / (g_a + y)`` where
    ``f(y) = sum_a p_a = 1``. Newton's method acts on ``1 / f``, a weighted harmonic mean of the ``g_a + y``. It starts
    at the largest root that two terms of the sum alone would have, the best action's and another's.

    Parameters
    ----------
    losses, scale : (..., A, R)

    Returns
    -------
    policy : (..., A, R)
    steps : int64, (..., R)
    """
    xp = namespace(losses)
    gaps = _gaps(losses)

    def advance(y: Array) -> tuple[Array, Array]:
        p = scale / (gaps + y)
        total, slope = _sum(p), _sum(p / (gaps + y))
        return total * (total - 1.0) / slope, y

    # best / y + v_a / (g_a + y) = 1 is y^2 - b y - best g_a = 0; the form of its root without cancellation
    best = _sum(xp.where(gaps == 0, scale, 0.0))
    b = best + xp.where(gaps == 0, 0.0, scale) - gaps
    size = xp.abs(b) + xp.sqrt(b * b + 4.0 * best * gaps)
    low = xp.max(xp.where(b >= 0, 0.5 * size, 2.0 * best * gaps / size), axis=-2, keepdims=True)
    y, steps = _newton(advance, low, xp.maximum(low, _sum(scale)))
    return _normalised(scale / (gaps + y)), steps[..., 0, :]


def _newton(advance: Callable[[Array], tuple[Array, Array]], low: Array, high: Array) -> tuple[Array, Array]:
    """Return the roots and the steps taken, from the lower ends of their brackets.

    ``advance`` gives the Newton steps and what they are small against. Below the root a step is positive: one that is
    not comes from rounding, and ends its solve. A root found is left alone while the others are sought.
    """
    xp = namespace(low)
    x, unsolved, steps = low, low == low, xp.zeros_like(low, dtype=xp.int64)
    for _ in range(MAX_STEPS):
        step, size = advance(x)
        x = xp.where(unsolved & (step > 0), xp.minimum(x + step, high), x)
        steps = steps + xp.astype(unsolved, xp.int64)
        unsolved = unsolved & (step > SMALL_STEP * size)
        if not bool(xp.any(unsolved)):
            break
    return x, steps


def q_logarithm(n_actions: int, r: float) -> float:
    """Return ``(A^r - 1) / r``, Tsallis' t where all losses are equal: the upper end of its bracket."""
    return math.expm1(r * math.log(n_actions)) / r


def _least(losses: Array) -> Array:
    return namespace(losses).min(losses, axis=-2, keepdims=True)


def _gaps(losses: Array) -> Array:
    return losses - _least(losses)


def _sum(terms: Array) -> Array:
    return namespace(terms).sum(terms, axis=-2, keepdims=True)


def _normalised(weights: Array) -> Array:
    return weights / _sum(weights)
