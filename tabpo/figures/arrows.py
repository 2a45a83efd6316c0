"""Arrows between round nodes, bent so that several between the same two stay apart."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patches import FancyArrowPatch
from matplotlib.path import Path
from numpy.typing import NDArray

Array = NDArray[np.float64]


BENDS = (0.10, -0.10, 0.20, -0.20, 0.30, -0.30, 0.42, -0.42)
"""How far an arrow's control point lies off the straight line, as shares of its length."""


def bend_around(where: Array, start: int, end: int, radius: float, both_ways: bool) -> float:
    """Return the bend with which an arrow between two nodes passes the others by.

    Parameters
    ----------
    where : array (S, 2)
        All nodes' centres.
    start, end : int
    radius : float
        The nodes' radius.
    both_ways : bool
        Arrows lead back too: then each way keeps to its own side.
    """
    others = np.delete(where, [start, end], axis=0)
    bends = [bend for bend in BENDS if bend > 0 or not both_ways]
    if not len(others):
        return bends[0]
    t = np.linspace(0.1, 0.9, 17)[:, None]
    clearances = []
    for bend in bends:
        control = _control(where[start], where[end], bend)
        curve = (1 - t) ** 2 * where[start] + 2 * t * (1 - t) * control + t**2 * where[end]
        clearances.append(float(np.linalg.norm(curve[:, None] - others, axis=-1).min()))
    fitting = [bend for bend, clear in zip(bends, clearances, strict=True) if clear > 1.3 * radius]
    return fitting[0] if fitting else bends[int(np.argmax(clearances))]


def draw_arrow(axes: Axes, start: Array, end: Array, radius: float, bend: float, colour: str, line: float) -> None:
    """Draw an arrow from one node's rim to another's.

    Parameters
    ----------
    axes : Axes
    start, end : arrays (2,)
        The nodes' centres.
    radius, bend : float
    colour : str
    line : float
        Width in points.
    """
    control = _control(start, end, bend)
    _draw(axes, [_rim(start, control, radius), control, _rim(end, control, radius + 0.02)], Path.CURVE3, colour, line)


def _control(start: Array, end: Array, bend: float) -> Array:
    along = end - start
    control: Array = (start + end) / 2 + bend * np.array([along[1], -along[0]])
    return control


def draw_loop(axes: Axes, centre: Array, radius: float, heading: float, rank: int, colour: str, line: float) -> None:
    """Draw an arrow from a node to itself, on the side given by ``heading`` (radians); ranks lie in one another."""
    half = 0.42 + 0.1 * rank
    reach = radius * (2.6 + 0.5 * rank)
    rim = [heading - half, heading + half]
    far = [heading - half - 0.08, heading + half + 0.08]
    points = [_polar(centre, radius, rim[0]), _polar(centre, reach, far[0])]
    points += [_polar(centre, reach, far[1]), _polar(centre, radius + 0.02, rim[1])]
    _draw(axes, points, Path.CURVE4, colour, line)


def free_direction(where: Array, state: int, joined: NDArray[np.bool_]) -> float:
    """Return the direction from a node in which the fewest arrows leave or arrive, in radians.

    Parameters
    ----------
    where : array (S, 2)
    state : int
    joined : array of bool (S,)
        The nodes that an arrow joins it to.
    """
    others = np.flatnonzero(joined & (np.arange(len(where)) != state))
    towards = where[others] - where[state]
    busy = np.arctan2(towards[:, 1], towards[:, 0])
    # Up first, then the other sides, then the corners: the first of equals is taken.
    candidates = np.pi * np.array([0.5, -0.5, 0.0, 1.0, 0.25, 0.75, -0.25, -0.75])
    if not busy.size:
        return float(candidates[0])
    gaps = np.abs(np.angle(np.exp(1j * (candidates[:, None] - busy)))).min(1)
    return float(candidates[int(np.argmax(np.round(gaps, 6)))])


def _polar(centre: Array, reach: float, angle: float) -> Array:
    point: Array = centre + reach * np.array([np.cos(angle), np.sin(angle)])
    return point


def _rim(centre: Array, towards: Array, radius: float) -> Array:
    direction = towards - centre
    point: Array = centre + radius * direction / np.hypot(*direction)
    return point


def _draw(axes: Axes, points: list[Array], curve: np.uint8, colour: str, line: float) -> None:
    path = Path(np.array(points), [Path.MOVETO] + [curve] * (len(points) - 1))
    arrow = FancyArrowPatch(
        path=path, arrowstyle=f"-|>,head_length={1.8 + 1.1 * line:.3f},head_width={0.6 + 0.5 * line:.3f}",
        color=colour, linewidth=line, mutation_scale=1, zorder=3, shrinkA=0, shrinkB=0,
        joinstyle="miter", capstyle="butt",
    )  # fmt: skip
    axes.add_patch(arrow)
    axes.update_datalim(path.get_extents().get_points())
