"""Regularised leaders: ``argmin_p <p, losses> + psi(p)`` over the action simplex, for every state and run at once.

Losses are cumulative or not, of any size and sign; adding a constant to a state's losses changes nothing. The action
axis is ``axis``; all other axes are batches (steps, states, runs), and each of their entries is solved by itself.
Regularizers and solvers: best-of-both-worlds specification, section 4; see :mod:`tabpo.kernels.plain_leaders`.
NumPy, CuPy and other array-API arrays work alike; everything is computed in float64.
"""

from __future__ import annotations

import math
from numbers import Integral, Real
from typing import Any

import numpy as np

from tabpo import kernels
from tabpo.arguments import first, numbers, require
from tabpo.arrays import Array, namespace
from tabpo.errors import InvalidInputError
from tabpo.kernels.plain_leaders import MAX_STEPS
from tabpo.trust_regions import linear_in_kl_ball, linear_in_tv_ball

__all__ = ["linear_in_kl_ball", "linear_in_tv_ball", "log_barrier", "shannon", "tsallis"]


def shannon(losses: Array, step_size: Any, axis: int = -1) -> Array:
    """Return the leader for Shannon's negative entropy, ``psi(p) = sum_a p_a ln p_a / step_size``.

    It is ``p_a = exp(-step_size losses_a) / Z``; probabilities below 1e-307 may be 0.

    Parameters
    ----------
    losses : array, (..., A, ...)
        The action axis may be anywhere, as ``axis`` says.
    step_size : float, or array that broadcasts against ``losses``, positive
        Of length 1 along the action axis: (R,) or (H, S, 1, R) for losses (H, S, A, R).
    axis : int
        The action axis of ``losses``.

    Returns
    -------
    policy : the shape of ``losses`` (broadcast against ``step_size``), float64; sums to 1 along ``axis``

    Raises
    ------
    InvalidInputError
        If a loss is not finite, a step size not positive and finite, or shapes do not fit.
    """
    problem = _Problem(losses, step_size, axis)
    return problem.checked(kernels.shannon_leader(problem.losses, problem.shared_step_size()))


def tsallis(losses: Array, step_size: Any, q: float = 0.5, axis: int = -1) -> Array:
    """Return the leader for Tsallis' negative entropy, ``psi(p) = (1 - sum_a p_a^q) / ((1 - q) step_size)``.

    At q = 1/2, ``psi(p) = (2 / step_size) (1 - sum_a sqrt(p_a))``. As q tends to 1 the leader becomes Shannon's; as q
    tends to 0 with ``step_size / q`` fixed, that of the log-barrier.

    Parameters
    ----------
    losses, step_size, axis
        As in :func:`shannon`.
    q : float, in (0, 1)

    Returns
    -------
    policy : as from :func:`shannon`

    Raises
    ------
    InvalidInputError
        As from :func:`shannon`, or if q is not in (0, 1).
    """
    if not isinstance(q, Real) or not 0 < q < 1:
        raise InvalidInputError(f"q must be a number with 0 < q < 1, got {q!r}; q = 1 is `shannon`")
    problem = _Problem(losses, step_size, axis)
    return problem.checked(*kernels.tsallis_leader(problem.losses, problem.shared_step_size(), float(q)))


def log_barrier(losses: Array, step_size: Any, axis: int = -1) -> Array:
    """Return the leader for the log-barrier, ``psi(p) = sum_a ln(1 / p_a) / step_size_a``.

    Parameters
    ----------
    losses, axis
        As in :func:`shannon`.
    step_size : float, or array that broadcasts against ``losses``, positive
        Each action may have its own.

    Returns
    -------
    policy : as from :func:`shannon`; every probability is positive

    Raises
    ------
    InvalidInputError
        As from :func:`shannon`.
    """
    problem = _Problem(losses, step_size, axis)
    return problem.checked(*kernels.log_barrier_leader(problem.losses, 1.0 / problem.step_size_by_action()))


class _Problem:
    """Checked losses and step sizes, brought to the shapes that the kernels take.

    N counts the entries before the action axis, R those after it.

    Attributes
    ----------
    losses : float64, (N, A, R)
    shape : tuple of int
        That of the answer.
    """

    losses: Array
    shape: tuple[int, ...]

    def __init__(self, losses: Array, step_size: Any, axis: int) -> None:
        losses = _checked_losses(losses, axis)
        self._step_size = _checked_step_size(step_size, losses)
        self._axis = axis if axis < 0 else axis - losses.ndim  # from the end: broadcasting adds axes in front
        try:
            self.shape = np.broadcast_shapes(tuple(losses.shape), tuple(self._step_size.shape))
        except ValueError:
            self.shape = ()
        if not self.shape or self.shape[self._axis] != losses.shape[self._axis]:
            raise InvalidInputError(
                f"step_size of shape {tuple(self._step_size.shape)} does not broadcast against losses of shape "
                f"{tuple(losses.shape)} with actions along axis {axis}; put an axis of length 1 where the actions are"
            )
        self.losses = self._canonical(losses, self.shape)

    def _canonical(self, array: Array, shape: tuple[int, ...]) -> Array:
        """Return the array, broadcast to ``shape``, as (N, A or 1, R)."""
        before, (n_actions, *after) = shape[: self._axis], shape[self._axis :]
        xp = namespace(array)
        return xp.reshape(xp.broadcast_to(array, shape), (math.prod(before), n_actions, math.prod(after)))

    def step_size_by_action(self) -> Array:
        """Return the step sizes (N, A, R)."""
        return self._canonical(self._step_size, self.shape)

    def shared_step_size(self) -> Array:
        """Return the step sizes (N, R) of a regularizer that has one for all actions."""
        given = tuple(self._step_size.shape)
        if len(given) >= -self._axis and given[self._axis] > 1:
            raise InvalidInputError(
                f"step_size of shape {given} differs between the actions of losses of shape {self.shape}, which only "
                "the log-barrier's may; give it length 1 along the action axis"
            )
        shape = list(self.shape)
        shape[self._axis] = 1
        return self._canonical(self._step_size, tuple(shape))[:, 0, :]

    def checked(self, policy: Array, steps: Array | None = None) -> Array:
        """Return the policy in the losses' shape; raise if float64 could not hold the numbers of a solve."""
        xp = namespace(policy)
        good = xp.isfinite(policy)
        if steps is not None:
            good = good & (steps < MAX_STEPS)[:, None, :]
        if not bool(xp.all(good)):
            where = first(~xp.reshape(good, self.shape))
            raise InvalidInputError(
                f"the leader at index {where} cannot be computed in float64: losses and step sizes there span too "
                "many orders of magnitude"
            )
        return xp.reshape(policy, self.shape)


def _checked_losses(losses: Any, axis: int) -> Array:
    losses = numbers("losses", losses)
    if losses.ndim == 0:
        raise InvalidInputError("losses must be an array with an action axis, got a single number")
    if not isinstance(axis, Integral) or not -losses.ndim <= axis < losses.ndim:
        raise InvalidInputError(f"losses of shape {tuple(losses.shape)} have no axis {axis!r}")
    if losses.shape[axis] == 0:
        raise InvalidInputError(f"losses of shape {tuple(losses.shape)} have no actions along axis {axis}")
    require("losses", losses, namespace(losses).isfinite(losses), "every loss must be finite")
    return losses


def _checked_step_size(step_size: Any, losses: Array) -> Array:
    step_size = numbers("step_size", step_size, like=losses)
    good = namespace(step_size).isfinite(step_size) & (step_size > 0)
    require("step_size", step_size, good, "it must be positive and finite")
    return step_size
