"""Regret bounds with explicit constants. Labels are those of the DAPO specification in the documentation."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tabpo.errors import InvalidInputError
from tabpo.mdp import positive_integer


def dapo_regret(
    horizon: int,
    n_states: int,
    n_actions: int,
    n_episodes: int,
    total_delay: float,
    step_size: float,
    exploration: float | None = None,
    max_arrivals: int = 1,
) -> float:
    r"""Return the bound on DAPO's expected regret, transitions known, bonus not scaled.

    With :math:`\gamma \ge \eta H / 2` and :math:`3 \eta H^2 \max_k m^k \le 1`, for every fixed policy

    .. math:: E[R_K] \le \frac{H \ln A}{\eta} + 3 \gamma H^2 S A K
        + \eta \left[ 9 H^5 (K + 2 D) + 2 H^3 D + H (2H + 3H^2)(H + 3H^2) D \right] + H \sqrt{2 D},

    the bound (star) of section 2.3; there :math:`\gamma = 2 \eta H`, which makes the second term
    :math:`6 \eta H^3 S A K`. The last term pays for feedback that never arrives.

    Source: derived from the steps of Lancewicki, Rosenberg, Sotnikov (ICML 2023), whose theorem states the rate
    :math:`H^2 \sqrt{S A K} + H^3 \sqrt{K + D}`; the constants are not the paper's.

    Parameters
    ----------
    horizon, n_states, n_actions, n_episodes : int, at least 1
        H, S, A, K.
    total_delay : float, at least 0
        D.
    step_size : float, positive
        eta.
    exploration : float, optional
        gamma; ``2 step_size horizon`` if None.
    max_arrivals : int, at least 0
        Largest number of arrivals at the end of an episode, see :func:`max_arrivals`; 1 if all delays are the same.

    Returns
    -------
    float, in units of loss

    Raises
    ------
    InvalidInputError
        If a number is out of range or one of the two conditions fails.
    """
    H, S, A, K = (
        positive_integer(name, value)
        for name, value in (
            ("horizon", horizon),
            ("n_states", n_states),
            ("n_actions", n_actions),
            ("n_episodes", n_episodes),
        )
    )
    D, eta = _number("total_delay", total_delay), _number("step_size", step_size)
    if eta == 0:
        raise InvalidInputError("step_size must be positive, got 0")
    gamma = 2 * eta * H if exploration is None else _number("exploration", exploration)
    most = positive_integer("max_arrivals", max_arrivals, at_least=0)
    if 3 * eta * H**2 * most > 1:
        raise InvalidInputError(
            f"the bound needs 3 step_size H^2 max_arrivals <= 1, got {3 * eta * H**2 * most:.4g}; "
            f"a step_size of at most {1 / (3 * H**2 * most):.4g} meets it"
        )
    if gamma < eta * H / 2:
        raise InvalidInputError(f"the bound needs exploration >= step_size H / 2 = {eta * H / 2:.4g}, got {gamma:.4g}")
    learning = H * math.log(A) / eta
    bonuses = 3 * gamma * H**2 * S * A * K
    variance = 9 * H**5 * (K + 2 * D) + 2 * H**3 * D
    drift = H * (2 * H + 3 * H**2) * (H + 3 * H**2) * D
    return learning + bonuses + eta * (variance + drift) + H * math.sqrt(2 * D)


def lost_feedback(total_delay: float) -> int:
    """Return the largest number n of episodes whose feedback can be lost at a total delay D: ``n (n + 1) / 2 <= D``.

    The n-th last episode loses its feedback only to a delay of n or more. It follows that ``n <= sqrt(2 D)``
    (section 1; derived).

    Parameters
    ----------
    total_delay : float, at least 0

    Raises
    ------
    InvalidInputError
        If it is negative or not finite.
    """
    whole = math.floor(_number("total_delay", total_delay))
    return (math.isqrt(8 * whole + 1) - 1) // 2


def max_arrivals(delays: ArrayLike) -> int:
    """Return the largest number of arrivals at the end of an episode, ``max_k m^k``; feedback after K is not counted.

    Parameters
    ----------
    delays : int, (K,), at least 0

    Raises
    ------
    InvalidInputError
        If they are not whole numbers of at least 0.
    """
    given = np.asarray(delays)
    if given.ndim != 1 or given.size == 0 or given.dtype.kind not in "iu" or (given < 0).any():
        raise InvalidInputError(f"delays must be an array (K,) of integers of at least 0, got {delays!r}")
    n_episodes = len(given)
    arrival = np.arange(n_episodes) + np.minimum(given, n_episodes).astype(np.int64)
    return int(np.bincount(arrival[arrival < n_episodes], minlength=1).max())


def _number(name: str, value: float) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise InvalidInputError(f"{name} must be a number of at least 0, got {value!r}")
    return number
