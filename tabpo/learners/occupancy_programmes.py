"""Convex programmes over occupancy measures, solved by Newton's method on their duals. One programme at a time.

An occupancy measure q_h(s,a) of transitions p balances the flow: what leaves a state is what enters it,
``sum_a q_0(s,a) = initial(s)`` and ``sum_a q_{h+1}(x,a) = sum_{s,a} q_h(s,a) p_h(x|s,a)``. The duals here have one
multiplier v_h(s) for each of these equations and no other constraint. Their gradient is the imbalance of flow, and
``sum imbalance * v`` is the duality gap, so that a point without imbalance is a solution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from tabpo.errors import TabpoError

Floats = NDArray[np.float64]
Booleans = NDArray[np.bool_]

TOLERANCE = 1e-10
"""Largest imbalance of flow of a solution; the measures have total mass 1 at every step."""
FIRST_RADIUS = 100.0
LARGEST_RADIUS = 1e4
"""Duals are constant in some directions, where nothing but the damping keeps steps finite."""
MOST_STEPS = 50
"""Of Newton's method from one start; three or four are usual from the previous episode's solution."""
SMALLEST_POWER = 2.0**-16
ROUNDING = 1e-13
"""Changes of a dual's value below this share of it say nothing."""


class DualPoint(Protocol):
    """What a programme makes of multipliers."""

    @property
    def value(self) -> float:
        """The dual's value, to be minimised."""

    @property
    def imbalance(self) -> Floats:
        """Its gradient (H, S)."""

    def hessian(self) -> Floats:
        """Its second derivatives (H, S, H, S)."""


Point = TypeVar("Point", bound=DualPoint)


def solve(
    dual: Callable[[Floats, float], Point | None],
    start: Floats,
    enter: Callable[[Floats, float], Floats] | None = None,
    power: float = 1.0,
) -> tuple[Floats, Point]:
    """Return the multipliers where a convex dual is least, and the point there.

    If Newton's method fails, losses (or the logarithms of weights) half as large come first: where they dominate, the
    multipliers grow in proportion to them, so that twice the multipliers of half the losses are a good start; where
    they are small, Newton's method converges from afar.

    Parameters
    ----------
    dual : callable
        Returns the point at multipliers (H, S) for the losses times a power; None outside the domain.
    start : (H, S)
    enter : callable, optional
        Moves multipliers into the domain, given the power; needed for duals whose domain is not everything. Lengths of
        steps are then measured by the dual's own curvature, as barriers ask for.
    power : float, in (0, 1]

    Raises
    ------
    TabpoError
        If an imbalance of flow above :data:`TOLERANCE` is left.
    """

    def newton(v: Floats) -> tuple[Floats, Point]:
        return _newton(lambda w: dual(w, power), v if enter is None else enter(v, power), enter is not None)

    try:
        return newton(start)
    except TabpoError:
        if power <= SMALLEST_POWER:
            raise
    halfway, _ = solve(dual, np.zeros_like(start), enter, power / 2.0)
    return newton(2.0 * halfway)


def _newton(dual: Callable[[Floats], Point | None], v: Floats, relative: bool) -> tuple[Floats, Point]:
    """Minimise a dual from multipliers in its domain by Newton's method within a trust radius.

    The damping ``|gradient| / radius`` makes steps no longer than the radius, which grows and shrinks with success; it
    vanishes with the gradient, so that convergence is quadratic in the end. Lengths are relative to the curvature, or
    absolute.
    """
    here = dual(v)
    if here is None:
        raise TabpoError("a dual must be started within its domain")
    radius, residual = FIRST_RADIUS, _largest(here.imbalance)
    hessian = None
    for _ in range(MOST_STEPS):
        if residual <= TOLERANCE:
            break
        if hessian is None:
            hessian = here.hessian().reshape(v.size, v.size)
            curvature = np.diag(hessian)
            metric = np.where(curvature > 0, curvature, 1.0) if relative else np.ones(v.size)
        gradient = here.imbalance.ravel()
        damping = np.sqrt(np.sum(gradient**2 / metric)) / radius
        step = np.linalg.solve(hessian + np.diag(damping * metric), gradient)
        further = v - step.reshape(v.shape)
        there = dual(further)
        if there is not None and _improves(here, there, float(gradient @ step - 0.5 * step @ hessian @ step)):
            v, here, hessian = further, there, None
            residual = _largest(here.imbalance)
            radius = min(4.0 * radius, LARGEST_RADIUS)
        else:
            radius = min(radius, float(np.sqrt(np.sum(metric * step**2)))) / 4.0
    if residual > TOLERANCE:
        raise TabpoError(
            f"a convex programme over occupancy measures was left with an imbalance of flow of {residual:.2g}, above "
            f"{TOLERANCE:g}; smaller steps or more exploration make it easier"
        )
    return v, here


def _improves(here: DualPoint, there: DualPoint, promised: float) -> bool:
    """Return whether a step achieved what its quadratic model promised; where that is rounding, a smaller imbalance."""
    if promised > ROUNDING * (1.0 + abs(here.value)):
        return here.value - there.value >= 0.1 * promised
    return _largest(there.imbalance) <= 0.5 * _largest(here.imbalance)


def _largest(imbalance: Floats) -> float:
    return float(np.abs(imbalance).max())


def reachable_states(transitions: Floats, initial: Floats) -> Booleans:
    """Return which states (H, S) can be reached, for transitions (H - 1 or H, S, A, S)."""
    reachable = [initial > 0]
    for possible in transitions > 0:
        reachable.append(np.any(possible & reachable[-1][:, None, None], axis=(0, 1)))
    return np.array(reachable)


def flow_imbalance(occupancy: Floats, transitions: Floats, initial: Floats) -> Floats:
    """Return what leaves each state less what enters it, (H, S), for transitions (H - 1, S, A, S)."""
    imbalance: Floats = occupancy.sum(axis=2)
    imbalance[0] -= initial
    imbalance[1:] -= np.einsum("hsa,hsax->hx", occupancy[:-1], transitions)
    return imbalance


def flow_curvature(weights: Floats, transitions: Floats) -> Floats:
    """Return ``sum_r weights_r f_r f_r^T`` (H, S, H, S) over the pairs r = (h, s, a).

    f_r is the gradient of ``v_h(s) - sum_x p_h(x|s,a) v_{h+1}(x)``: what the pair takes from states and gives to them.
    """
    H, S, A = weights.shape
    curvature = np.zeros((H, S, H, S))
    np.einsum("hshs->hs", curvature)[...] = weights.sum(axis=2)  # a view of the diagonal
    moved = weights[:-1, :, :, None] * transitions
    across = -moved.sum(axis=2)
    before, after = np.arange(H - 1), np.arange(1, H)
    curvature[before, :, after, :] = across
    curvature[after, :, before, :] = across.swapaxes(1, 2)
    by_pair = (H - 1, S * A, S)
    curvature[after, :, after, :] += moved.reshape(by_pair).swapaxes(1, 2) @ transitions.reshape(by_pair)
    return curvature
