"""Conservative steps: the policy of the largest expected gain within a distance of an anchor.

``argmax_p <p, gains>`` over the action simplex, subject to a total variation or a relative entropy between ``p`` and
``anchor`` of at most ``radius``, for every state, run and model at once (Zhang, "Conservative Dual Policy
Optimization", NeurIPS 2022, equation 4.2, for one state at a time). The action axis is ``axis``; all other axes are
batches, and each of their entries is solved by itself, up to rounding. NumPy, CuPy and other array-API arrays work
alike; everything is computed in float64.
"""

from __future__ import annotations

import math
from numbers import Integral
from typing import Any

import numpy as np

from tabpo import kernels
from tabpo.arguments import first, numbers, require
from tabpo.arrays import Array, namespace
from tabpo.errors import InvalidInputError
from tabpo.kernels.plain_trust_regions import MAX_STEPS

__all__ = ["linear_in_kl_ball", "linear_in_tv_ball"]


def linear_in_tv_ball(gains: Array, anchor: Array, radius: Any, axis: int = -1) -> Array:
    """Return ``argmax_p <p, gains>`` over distributions with ``(1/2) sum_a |p_a - anchor_a| <= radius``.

    Mass moves from the worst actions to the best one until ``radius`` of it has moved, or none is left that gains:
    the value is ``<anchor, gains> + sum_a moved_a (max gains - gains_a)``. Actions as good as the best keep their
    mass; what moves goes to the first of the best, and comes from the first of equally bad ones. So radius 0 gives the
    anchor itself, and radius 1 or more the best action where there is only one.

    Parameters
    ----------
    gains : array, (..., A, ...)
        Of any size and sign; a constant added to a state's gains changes nothing. The action axis may be anywhere, as
        ``axis`` says.
    anchor : array that broadcasts against ``gains``, with the same action axis counted from the end
        Distributions; zeros are allowed, and the best action may be one of them.
    radius : float, or array that broadcasts against ``gains``, at least 0
        Of length 1 along the action axis: (R,) or (S, 1, R) for gains (S, A, R). More than 1 is as good as 1.
    axis : int
        The action axis of ``gains``.

    Returns
    -------
    policy : the shape of ``gains`` (broadcast against the others), float64; sums to 1 along ``axis``

    Raises
    ------
    InvalidInputError
        If a gain is not finite, the anchor is no distribution, a radius is negative or NaN, or shapes do not fit.
    """
    step = _Step(gains, anchor, radius, axis)
    return step.result(kernels.largest_in_tv_ball(step.gains, step.anchor, step.radius))


def linear_in_kl_ball(gains: Array, anchor: Array, radius: Any, axis: int = -1) -> Array:
    """Return ``argmax_p <p, gains>`` over distributions with ``sum_a p_a ln(p_a / anchor_a) <= radius``.

    It is the tilted anchor ``p_a = anchor_a exp(b gains_a) / Z``, with b >= 0 such that the relative entropy is the
    radius. Actions outside the anchor's support stay outside. Where the radius reaches ``-ln anchor(best actions)``,
    the answer is the anchor restricted to its best actions, in their proportions; where it is 0, or all actions of the
    support are as good, the anchor itself.

    Parameters
    ----------
    gains, anchor, axis
        As in :func:`linear_in_tv_ball`.
    radius : float, or array that broadcasts against ``gains``, at least 0, in nats
        As in :func:`linear_in_tv_ball`. A radius of ``2 eta^2`` keeps the total variation below ``eta`` (Pinsker).

    Returns
    -------
    policy : as from :func:`linear_in_tv_ball`

    Raises
    ------
    InvalidInputError
        As from :func:`linear_in_tv_ball`, or if rounding hides the root (not met in any test).
    """
    step = _Step(gains, anchor, radius, axis)
    policy, evaluations = kernels.largest_in_kl_ball(step.gains, step.anchor, step.radius)
    if policy.size and not bool(namespace(policy).all(evaluations < MAX_STEPS)):
        where = first(evaluations >= MAX_STEPS)
        raise InvalidInputError(f"no tilt of anchor was found for radius {float(step.radius[where])} in float64")
    return step.result(policy)


class _Step:
    """Checked arguments, brought to the shapes that the kernels take.

    N counts the entries before the action axis, R those after it.

    Attributes
    ----------
    gains, anchor : float64, (N, A, R)
    radius : float64, (N, R)
    shape : tuple of int
        That of the answer.
    """

    def __init__(self, gains: Any, anchor: Any, radius: Any, axis: int) -> None:
        gains = _checked_gains(gains, axis)
        self._axis = axis if axis < 0 else axis - gains.ndim  # from the end: broadcasting adds axes in front
        anchor = _checked_anchor(numbers("anchor", anchor, like=gains), gains, self._axis)
        radius = numbers("radius", radius, like=gains)
        require("radius", radius, radius >= 0, "it must be at least 0")
        if radius.ndim >= -self._axis and radius.shape[self._axis] != 1:
            raise InvalidInputError(
                f"radius of shape {tuple(radius.shape)} differs between the actions of gains of shape "
                f"{tuple(gains.shape)}; give it length 1 along the action axis {axis}"
            )
        shapes = [tuple(array.shape) for array in (gains, anchor, radius)]
        try:
            self.shape: tuple[int, ...] = np.broadcast_shapes(*shapes)
        except ValueError:
            raise InvalidInputError(
                "gains, anchor and radius of shapes {}, {} and {} do not broadcast".format(*shapes)
            ) from None
        self.gains = self._canonical(gains, self.shape[self._axis])
        self.anchor = self._canonical(anchor, self.shape[self._axis])
        self.radius = self._canonical(radius, 1)[:, 0, :]

    def _canonical(self, array: Array, n_actions: int) -> Array:
        """Return the array as (N, n_actions, R), of the shape of the answer but for the number of actions."""
        before, (_, *after) = self.shape[: self._axis], self.shape[self._axis :]
        xp = namespace(array)
        whole = xp.broadcast_to(array, (*before, n_actions, *after))
        return xp.reshape(whole, (math.prod(before), n_actions, math.prod(after)))

    def result(self, policy: Array) -> Array:
        """Return the policy in the shape of the answer."""
        return namespace(policy).reshape(policy, self.shape)


def _checked_gains(gains: Any, axis: int) -> Array:
    gains = numbers("gains", gains)
    if gains.ndim == 0:
        raise InvalidInputError("gains must be an array with an action axis, got a single number")
    if not isinstance(axis, Integral) or not -gains.ndim <= axis < gains.ndim:
        raise InvalidInputError(f"gains of shape {tuple(gains.shape)} have no axis {axis!r}")
    if gains.shape[axis] == 0:
        raise InvalidInputError(f"gains of shape {tuple(gains.shape)} have no actions along axis {axis}")
    require("gains", gains, namespace(gains).isfinite(gains), "every gain must be finite")
    return gains


def _checked_anchor(anchor: Array, gains: Array, axis: int) -> Array:
    """Return the anchor if it holds distributions along ``axis``; sums may miss 1 by 1e-9, as any policy's."""
    if anchor.ndim < -axis or anchor.shape[axis] != gains.shape[axis]:
        raise InvalidInputError(
            f"anchor of shape {tuple(anchor.shape)} does not fit gains of shape {tuple(gains.shape)}: it must have the "
            f"same {gains.shape[axis]} actions along axis {axis}"
        )
    require("anchor", anchor, anchor >= 0, "probabilities must be at least 0")
    xp = namespace(anchor)
    sums = xp.asarray(xp.sum(anchor, axis=axis))  # an array also where it is one number
    require("the sum of anchor over the actions", sums, xp.abs(sums - 1.0) <= 1e-9, "it must be 1")
    return anchor
