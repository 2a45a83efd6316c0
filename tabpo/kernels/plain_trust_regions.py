"""Conservative steps as formulas, in array-API code: one solve for each state and run.

``argmax_p <p, gains>`` over the simplex of A actions within a ball around an anchor. The action axis is the last but
one, the run axis the last. Gains are finite float64 numbers, anchors distributions, radii at least 0;
:mod:`tabpo.trust_regions` checks that for users.
"""

from __future__ import annotations

from typing import Any

from tabpo.arrays import Array, namespace

MAX_STEPS = 200
"""Evaluations of the relative entropy after which a root search is given up.

Its bisections halve the logarithm of a bracket of at most e^1500 down to float64's rounding: 65 of them. In 10^5
problems with anchors down to 1e-300 and radii up to the edge it needed 6 evaluations in the median and at most 64.
"""

SMALL_STEP = 1e-9
"""A root search ends with a Newton step below this, relative: the error left is of the order of its square."""

LONGEST = 1500.0
"""Exponents below minus this make any action's weight 0, relative to any other's."""

SERIES = (1 / 2, 1 / 3, 1 / 8, 1 / 30, 1 / 144, 1 / 840, 1 / 5760, 1 / 45360, 1 / 403200, 1 / 3991680)
"""Of ``(u e^u - expm1(u)) / u^2``: the coefficient of u^n is (n + 1) / (n + 2)!."""

SERIES_REACH = 0.125
"""Up to here in |u| the terms left out of the series are below 1e-16 of its sum."""


def largest_in_tv_ball(gains: Array, anchor: Array, radius: Array) -> Array:
    """Return ``argmax_p <p, gains>`` with ``(1/2) sum_a |p_a - anchor_a| <= radius``.

    Up to ``radius`` of mass leaves the actions in ascending order of their gains, while these are below the largest,
    for the first action of the largest gain; where all other probabilities are 0, its own is exactly 1.

    Parameters
    ----------
    gains, anchor : (..., A, R)
    radius : (..., R)
    """
    xp = namespace(gains, anchor)
    radius = xp.where(radius >= 1.0, xp.inf, radius)[..., None, :]
    largest = xp.max(gains, axis=-2, keepdims=True)
    order = xp.argsort(gains, axis=-2, stable=True)
    mass = xp.take_along_axis(xp.where(gains < largest, anchor, 0.0), order, axis=-2)
    after = xp.cumulative_sum(mass, axis=-2)
    before = xp.concat([xp.zeros_like(after[..., :1, :]), after[..., :-1, :]], axis=-2)
    taken = xp.where(after <= radius, mass, xp.minimum(mass, xp.maximum(radius - before, xp.zeros_like(before))))
    taken = xp.take_along_axis(taken, xp.argsort(order, axis=-2, stable=True), axis=-2)
    moved = xp.minimum(after[..., -1:, :], radius)
    best = xp.argmax(gains, axis=-2, keepdims=True) == xp.arange(gains.shape[-2])[:, None]
    others = xp.where(best, 0.0, anchor - taken)
    return xp.where(best, xp.where(_sum(others) > 0.0, anchor + moved, 1.0), others)


def largest_in_kl_ball(gains: Array, anchor: Array, radius: Array) -> tuple[Array, Array]:
    """Return ``argmax_p <p, gains>`` with ``K = sum_a p_a ln(p_a / anchor_a) <= radius``, and the evaluations of K.

    ``p_a = anchor_a exp(-b gap_a) / Z``, gaps measured from the best action of the anchor's support in units of the
    largest. K increases with b up to ``ln(1 + rest / best)``, the anchor's masses outside and inside the best actions:
    a larger radius restricts the anchor to these. Newton's method finds b on ``ln K`` as a function of ``ln b``, whose
    derivative is the variance of ``ln(p_a / anchor_a)`` under p divided by K; where a step leaves the bracket or is no
    shorter than half the last one, the bracket is halved instead. ``K <= b^2 / 8`` (Hoeffding's lemma) is its lower
    end; at the upper end all other actions have underflowed.

    Parameters
    ----------
    gains, anchor : (..., A, R)
    radius : (..., R)

    Returns
    -------
    policy : (..., A, R)
    evaluations : int64, (..., R)
    """
    xp = namespace(gains, anchor)
    radius = radius[..., None, :]
    present = anchor > 0.0
    halves = 0.5 * gains  # their differences are finite
    largest = xp.max(xp.where(present, halves, -xp.inf), axis=-2, keepdims=True)
    gaps = xp.where(present, largest - halves, 0.0)
    span = xp.max(gaps, axis=-2, keepdims=True)
    gaps = gaps / xp.where(span > 0.0, span, 1.0)
    weights = anchor / _sum(anchor)
    best = xp.where(gaps == 0.0, weights, 0.0)
    rest = _sum(xp.where(gaps == 0.0, 0.0, weights))
    share = _sum(best)
    whole = xp.where(share < 0.5, -xp.log(share), xp.log1p(rest / xp.maximum(share, xp.full_like(share, 0.5))))
    inside = (radius > 0.0) & (radius < whole)
    rate, evaluations = _rate(gaps, weights, radius, inside)
    tilted = weights * xp.exp(-rate * gaps)
    policy = xp.where(inside, tilted / _sum(tilted), best / share)
    return xp.where((radius == 0.0) | (rest == 0.0), anchor, policy), evaluations[..., 0, :]


def _rate(gaps: Array, weights: Array, radius: Array, unsolved: Array) -> tuple[Array, Array]:
    """Return b of the tilted weights whose relative entropy is the radius, where asked, and the evaluations made."""
    xp = namespace(gaps)
    target = xp.where(unsolved, radius, 1.0)
    smallest = xp.min(xp.where(gaps > 0.0, gaps, 1.0), axis=-2, keepdims=True)
    low = xp.sqrt(8.0 * target)
    high = xp.maximum(low, xp.minimum(LONGEST / smallest, xp.full_like(low, 1e308)))
    mean = _sum(weights * gaps)
    variance = _sum(weights * (gaps - mean) ** 2)
    rate = xp.minimum(xp.sqrt(2.0 * target / xp.where(variance > 0.0, variance, 1.0)), high)  # K = b^2 variance / 2
    previous = xp.full_like(low, xp.inf)
    evaluations = xp.zeros_like(low, dtype=xp.int64)
    for _ in range(MAX_STEPS):
        if not bool(xp.any(unsolved)):
            break
        evaluations = evaluations + xp.astype(unsolved, xp.int64)
        divergence, variance = tilt(rate, gaps, weights)
        below = divergence <= target
        low, high = xp.where(below, rate, low), xp.where(below, high, rate)
        excess = xp.log(xp.maximum(divergence, xp.full_like(low, 5e-324))) - xp.log(target)
        step = -excess * divergence / xp.maximum(variance, xp.full_like(low, 1e-300))
        down, up = xp.log(low) - xp.log(rate), xp.log(high) - xp.log(rate)
        within = (step >= down) & (step <= up)
        newton = rate * xp.exp(xp.minimum(xp.maximum(step, down), up))
        small = within & (xp.abs(step) < SMALL_STEP)
        halving = ~small & ~(within & (2.0 * xp.abs(step) < previous))
        middle = xp.sqrt(low) * xp.sqrt(high)
        previous = xp.where(halving, up - down, xp.abs(step))
        found = small | (halving & ((middle <= low) | (middle >= high)))
        following = xp.where(halving, xp.where(found, low, middle), newton)
        rate = xp.where(unsolved, following, rate)
        unsolved = unsolved & ~found
    return rate, evaluations


def tilt(rate: Array, gaps: Array, weights: Array) -> tuple[Array, Array]:
    """Return the relative entropy K of the tilted weights to the weights, and its derivative by ``ln b``.

    With ``u_a = ln(p_a / weights_a)``, K is summed as ``weights_a (u e^u - expm1(u))``, terms of one sign, so that the
    smallest K is right to all digits too. The derivative is ``sum_a p_a (u_a - K)^2``.
    """
    xp = namespace(gaps)
    exponent = xp.maximum(-rate * gaps, xp.full_like(gaps, -LONGEST))
    total, shortfall = _sum(weights * xp.exp(exponent)), _sum(weights * xp.expm1(exponent))
    log_total = xp.where(total < 0.5, xp.log(total), xp.log1p(xp.maximum(shortfall, xp.full_like(shortfall, -0.75))))
    u = xp.where(weights > 0.0, exponent - log_total, 0.0)
    p = weights * xp.exp(exponent) / total
    near = xp.abs(u) <= SERIES_REACH
    small = xp.where(near, u, 0.0)
    series = xp.zeros_like(u)
    for coefficient in reversed(SERIES):
        series = series * small + coefficient
    divergence = _sum(xp.where(near, weights * small * small * series, p * u - (p - weights)))
    return divergence, _sum(p * (u - divergence) ** 2)


def _sum(terms: Any) -> Any:
    return namespace(terms).sum(terms, axis=-2, keepdims=True)
