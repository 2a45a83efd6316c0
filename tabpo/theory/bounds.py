"""Regret bounds with explicit constants. Sections and labels are those of the formulas page."""

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
    H, S, A, K = _sizes(horizon, n_states, n_actions, n_episodes)
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


def bobw_tsallis_regret(
    horizon: int,
    n_states: int,
    n_actions: int,
    n_episodes: int,
    gaps: ArrayLike | None = None,
    corruption: float = 0.0,
) -> float:
    r"""Return the bound on the regret of best of both worlds with Tsallis' entropy: transitions known, theory mode.

    With :math:`|S| = H S`, :math:`\Lambda = 1 + \ln(2T(1 + T/c_\gamma))`,
    :math:`D_T = HT + |S| c_\gamma \ln(1 + T/c_\gamma)` and :math:`c_\gamma, c_0` of the theory mode,

    .. math:: 8 e H \sqrt{|S| A \Lambda D_T} + lo, \quad
        lo = 4 e H |S| \sqrt A \Lambda + e H |S| c_\gamma \ln(1 + T/c_\gamma) + 2 c_0 H \sqrt A

    against any losses (T1), and :math:`U + 2 \sqrt{U C} + 2 lo` with
    :math:`U = 256 e^2 H^2 \Lambda \sum_{s, a \ne \pi^*(s)} 1/\Delta(s, a)` in a self-bounding regime (T2).

    Source: derived from the lemmas of best of both worlds, section 5; Dann, Wei, Zimmert (ICML 2023) have these rates,
    with constants that are not these.

    Parameters
    ----------
    horizon, n_states, n_actions, n_episodes : int, at least 1
        H, S (of one step), A, T.
    gaps : (H, S, A), optional
        Delta(s, a), positive but for one 0 at each state. None: the bound for adversarial losses.
    corruption : float, at least 0
        C of the self-bounding regime, see section 1; 0 for independent and identically distributed losses.

    Returns
    -------
    float, in units of loss

    Raises
    ------
    InvalidInputError
        If a number is out of range or the gaps are not of such a regime.
    """
    H, S, A, T = _sizes(horizon, n_states, n_actions, n_episodes)
    inverse_gaps, _ = _inverse_gaps(gaps, (H, S, A))
    offset, first_rate = 120 * math.e * H**2 * math.sqrt(A), 120 * math.sqrt(2) * math.e * H**3 * math.sqrt(A)
    log_term, explored = _log_term(T, offset), H * S * offset * math.log1p(T / offset)
    lower_order = (
        4 * math.e * H * (H * S) * math.sqrt(A) * log_term + math.e * H * explored + 2 * first_rate * H * math.sqrt(A)
    )
    if gaps is not None:
        return _self_bounded(256 * math.e**2 * H**2 * log_term * inverse_gaps, corruption, lower_order)
    return 8 * math.e * H * math.sqrt(H * S * A * log_term * (H * T + explored)) + lower_order


def bobw_shannon_regret(
    horizon: int,
    n_states: int,
    n_actions: int,
    n_episodes: int,
    gaps: ArrayLike | None = None,
    corruption: float = 0.0,
) -> float:
    r"""Return the bound on the regret of best of both worlds with Shannon's entropy: transitions known, theory mode.

    In the notation of :func:`bobw_tsallis_regret`, with this regularizer's constants: against any losses (T3)

    .. math:: 2 e H \Lambda \sqrt{|S| A \ln A \, D_T} + lo, \quad
        lo = e H |S| \sqrt{2 A \Lambda \ln A} (1 + \ln(2 + 2T/c_\gamma)) + e H |S| c_\gamma \ln(1 + T/c_\gamma)
        + c_0 H \ln A,

    and (T4) :math:`U = 4 e^2 H^2 A \Lambda^2 (1 + \ln(2AT)) \sum_s 1/\min_{a \ne \pi^*(s)} \Delta(s, a)`. The
    ratios :math:`Y_T/Y_1` and :math:`M_T/M_1` are taken as large as they can be.

    Parameters, result, errors and source are those of :func:`bobw_tsallis_regret`.
    """
    H, S, A, T = _sizes(horizon, n_states, n_actions, n_episodes)
    _, inverse_least_gaps = _inverse_gaps(gaps, (H, S, A))
    if A == 1:
        return 0.0
    log_actions = math.log(A)
    offset = (36 * math.e * H**2 * log_actions) ** 2
    log_term, explored = _log_term(T, offset), H * S * offset * math.log1p(T / offset)
    first_rate = 18 * math.e * H**3 * math.sqrt(A * log_term * log_actions)
    largest = math.sqrt(2 * A * log_term * log_actions) * (1 + math.log(2 + 2 * T / offset))
    lower_order = math.e * H * (H * S * largest + explored) + first_rate * H * log_actions
    if gaps is not None:
        unit = 4 * math.e**2 * H**2 * A * log_term**2 * (1 + math.log(2 * A * T)) * inverse_least_gaps
        return _self_bounded(unit, corruption, lower_order)
    return 2 * math.e * H * log_term * math.sqrt(H * S * A * log_actions * (H * T + explored)) + lower_order


def bobw_log_barrier_regret(
    horizon: int,
    n_states: int,
    n_actions: int,
    n_episodes: int,
    gaps: ArrayLike | None = None,
    corruption: float = 0.0,
    best_loss: float | None = None,
) -> float:
    r"""Return the bound on the regret of best of both worlds with the log-barrier: transitions known, theory mode.

    With :math:`\ell` the largest :math:`\ln(\eta_1/\eta_{T+1})` and :math:`K = 10 e \sqrt{1.01 \, \ell \ln T}`:
    :math:`K \sqrt{2 H^3 |S| A T} + lo` against any losses,
    :math:`2 K \sqrt{2 H^2 |S| A L^*} + 2 K^2 H^2 |S| A + 2 lo` if the best policy's total loss is
    :math:`L^*`, and :math:`U = 4 K^2 H^2 \sum_{s, a \ne \pi^*(s)} 1/\Delta(s, a)` in a self-bounding regime (T5), where

    .. math:: lo = 63 e H^2 |S| A \ell \ln(AT) (1 + 1/(66 H \ln T)) + 3 H A \ln(AT)/\eta_1
        + e H |S| \ln(1 + T) + H^2/T^2

    pays for the virtual episodes, the initial penalty, exploration and the comparator's share of the uniform policy.

    Parameters, result, errors and source are those of :func:`bobw_tsallis_regret`; in addition T is at least 2 and A.

    Parameters
    ----------
    horizon, n_states, n_actions, n_episodes, gaps, corruption
        As there.
    best_loss : float, at least 0, optional
        L*; not together with ``gaps``.
    """
    H, S, A, T = _sizes(horizon, n_states, n_actions, n_episodes)
    inverse_gaps, _ = _inverse_gaps(gaps, (H, S, A))
    if max(2, A) > T:
        raise InvalidInputError(f"the bound needs n_episodes of at least {max(2, A)} for {A} actions, got {T}")
    if gaps is not None and best_loss is not None:
        raise InvalidInputError("give gaps or best_loss, not both: they belong to different bounds")
    log_episodes, log_comparator, n_pairs = math.log(T), math.log(A * T), H * S * A
    first_rate, virtual = max(21 * H**2, 4 * math.e * H**3), 1 + 1 / (66 * H * math.log(T))
    # 1/eta: virtual episodes stop at 1/(rho gamma_T), each of T real ones adds at most rho H^2 / (gamma_T ln T)
    last_rate = max(first_rate, 21 * H**2 * (1 + T) * virtual) + T * (1 + T) / (21 * log_episodes)
    growth = math.log(last_rate / first_rate)
    factor = 10 * math.e * math.sqrt(1.01 * growth * log_episodes)
    lower_order = (
        63 * math.e * H**2 * n_pairs * growth * log_comparator * virtual
        + 3 * H * A * first_rate * log_comparator
        + math.e * H * (H * S) * math.log1p(T)
        + (H / T) ** 2
    )
    if gaps is not None:
        return _self_bounded(4 * factor**2 * H**2 * inverse_gaps, corruption, lower_order)
    if best_loss is None:
        return factor * H * math.sqrt(2 * n_pairs * H * T) + lower_order
    first_order = 2 * factor * H * math.sqrt(2 * n_pairs * _number("best_loss", best_loss))
    return first_order + 2 * factor**2 * H**2 * n_pairs + 2 * lower_order


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


def _sizes(horizon: int, n_states: int, n_actions: int, n_episodes: int) -> tuple[int, int, int, int]:
    given = {"horizon": horizon, "n_states": n_states, "n_actions": n_actions, "n_episodes": n_episodes}
    H, S, A, K = (positive_integer(name, value) for name, value in given.items())
    return H, S, A, K


def _log_term(n_episodes: int, offset: float) -> float:
    """Return Lambda = 1 + ln(2 T (1 + T / c_gamma))."""
    return 1 + math.log(2 * n_episodes * (1 + n_episodes / offset))


def _inverse_gaps(gaps: ArrayLike | None, shape: tuple[int, int, int]) -> tuple[float, float]:
    """Return the sum of 1 / Delta over all pairs that are not optimal, and over the least of each state."""
    if gaps is None or shape[2] == 1:
        return 0.0, 0.0
    array = np.asarray(gaps, dtype=np.float64)
    if array.shape != shape:
        raise InvalidInputError(f"gaps must have shape (H, S, A) = {shape}, got {array.shape}")
    good = np.isfinite(array) & (array >= 0)
    unique = (array == 0).sum(2) == 1
    if not (good.all() and unique.all()):
        raise InvalidInputError("gaps must be finite, and positive but for exactly one 0 at each state")
    positive = np.sort(array, axis=2)[:, :, 1:]
    return float((1 / positive).sum()), float((1 / positive[:, :, 0]).sum())


def _self_bounded(unit: float, corruption: float, lower_order: float) -> float:
    """Return U + 2 sqrt(U C) + 2 lo (section 5, L13)."""
    return unit + 2 * math.sqrt(unit * _number("corruption", corruption)) + 2 * lower_order


def _number(name: str, value: float) -> float:
    number = float(value)
    if not (math.isfinite(number) and number >= 0):
        raise InvalidInputError(f"{name} must be a number of at least 0, got {value!r}")
    return number
