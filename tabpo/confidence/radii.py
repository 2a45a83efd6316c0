"""The radii of the confidence sets, each named by the algorithm that it comes from.

All have the form ``root sqrt(centre log_term / m) + linear log_term / m`` with ``m = max(1, visits - offset)``, an
empirical Bernstein inequality (DAPO specification, section 3.1).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from tabpo.arrays import Array, floating, namespace
from tabpo.errors import InvalidInputError
from tabpo.kernels.plain_boxes import bernstein_radius


@dataclass(frozen=True)
class Radius:
    """The constants of a radius.

    Attributes
    ----------
    root, linear : float
        Factors of the square root and of the linear term.
    offset : int
        What is subtracted from the visits.
    log_factor : float
        The logarithm's argument is ``log_factor H S A K / delta``.
    """

    root: float
    linear: float
    offset: int
    log_factor: float

    def log_term(self, shape: tuple[int, int, int], n_episodes: int, failure_probability: float) -> float:
        """Return iota, the logarithm in the radius, for the sizes (H, S, A), K episodes and delta in (0, 1).

        Raises
        ------
        InvalidInputError
            If delta is not in (0, 1).
        """
        if not 0 < failure_probability < 1:
            raise InvalidInputError(f"failure_probability must be in (0, 1), got {failure_probability!r}")
        return math.log(self.log_factor * math.prod(shape) * n_episodes / failure_probability)


RADII: dict[str, Radius] = {
    "delayed_uob_reps": Radius(4.0, 10.0, 0, 10.0),
    "uob_reps": Radius(2.0, 14.0 / 3.0, 1, 1.0),
    "dilated_bonuses": Radius(4.0, 28.0 / 3.0, 0, 1.0),
    "uob_ftrl": Radius(2.0, 14.0 / 3.0, 0, 1.0),
}
"""The radii by name."""


def delayed_uob_reps_radius(centre: Array, visits: Array, log_term: float, width_scale: Any = 1.0) -> Array:
    """Return the radius of Delayed UOB-REPS and DAPO: ``4 sqrt(centre iota / n) + 10 iota / n``, n = max(1, visits).

    Jin, Lancewicki, Luo, Mansour, Rosenberg (2022), as in the DAPO specification, section 3.1, first row;
    ``iota = ln(10 H S A K / delta)``.

    Parameters
    ----------
    centre : (H, S, A, S) or (H, S, A, S, R)
        The empirical distributions.
    visits : int, (H, S, A) or (H, S, A, R)
    log_term : float, positive
        iota, see :meth:`Radius.log_term`.
    width_scale : float or (R,), at least 0
        Multiplies the radius before it is cut at 1. The theory has 1.

    Returns
    -------
    radius : the shape of ``centre``, in [0, 1]
        Cut at 1, which changes no set.

    Raises
    ------
    InvalidInputError
        If shapes do not fit, or a scale or the logarithm is out of range.
    """
    return _radius("delayed_uob_reps", centre, visits, log_term, width_scale)


def uob_reps_radius(centre: Array, visits: Array, log_term: float, width_scale: Any = 1.0) -> Array:
    """Return the radius of UOB-REPS: ``2 sqrt(centre iota / m) + 14 iota / (3 m)``, m = max(1, visits - 1).

    Jin, Jin, Luo, Sra, Yu (2020), as in the DAPO specification, section 3.1, second row;
    ``iota = ln(H S A K / delta)``. The true transitions lie in all sets with probability at least
    1 - 4 delta. Parameters, result and errors as in :func:`delayed_uob_reps_radius`.
    """
    return _radius("uob_reps", centre, visits, log_term, width_scale)


def dilated_bonuses_radius(centre: Array, visits: Array, log_term: float, width_scale: Any = 1.0) -> Array:
    """Return the radius of Luo, Wei, Lee (2021): ``4 sqrt(centre iota / n) + 28 iota / (3 n)``, n = max(1, visits).

    DAPO specification, section 3.1, third row; ``iota = ln(H S A K / delta)``. Parameters, result and errors as in
    :func:`delayed_uob_reps_radius`.
    """
    return _radius("dilated_bonuses", centre, visits, log_term, width_scale)


def uob_ftrl_radius(centre: Array, visits: Array, log_term: float, width_scale: Any = 1.0) -> Array:
    """Return the radius of UOB-FTRL: ``2 sqrt(centre iota / n) + 14 iota / (3 n)``, n = max(1, visits).

    Jin, Huang, Luo (2021), and best of both worlds (its specification, section 2.2); ``iota = ln(H S A K / delta)``,
    there with ``delta = 1 / K^3``. Parameters, result and errors as in
    :func:`delayed_uob_reps_radius`.
    """
    return _radius("uob_ftrl", centre, visits, log_term, width_scale)


def _radius(name: str, centre: Array, visits: Array, log_term: float, width_scale: Any) -> Array:
    constants = RADII[name]
    centre = floating(centre)
    xp = namespace(centre)
    visits, width_scale = xp.asarray(visits), xp.asarray(width_scale, dtype=centre.dtype)
    shape = tuple(centre.shape)
    if len(shape) not in (4, 5) or tuple(visits.shape) != (*shape[:3], *shape[4:]):
        raise InvalidInputError(
            f"centre must have shape (H, S, A, S) and visits (H, S, A), both with a run axis at the end or neither, "
            f"got {shape} and {tuple(visits.shape)}"
        )
    if not log_term > 0:
        raise InvalidInputError(f"log_term must be positive, got {log_term!r}")
    if not bool(xp.all(width_scale >= 0)):
        raise InvalidInputError(f"width_scale must be at least 0, got {width_scale}")
    by_run = (centre, visits) if len(shape) == 5 else (centre[..., None], visits[..., None])
    radius = bernstein_radius(*by_run, constants.root, constants.linear, constants.offset, log_term, width_scale)
    return radius if len(shape) == 5 else radius[..., 0]
