"""The learning rates, bonuses and conditions of best of both worlds, as functions of one episode's numbers.

Written from sections 2.4 to 2.7 of the formulas page, apart from the learners: what claims compare with. Arrays are
over states, (H, S, ...); beta = 1 / eta, w = 1 / d.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from tabpo.theory.bobw_estimator import xi
from tabpo.theory.bobw_sums import entropy
from tabpo.theory.claims import Floats

FACTOR = {"tsallis": 4.0, "shannon": 2.0, "log_barrier": 2.0}
POWER = {"tsallis": 0.5, "shannon": 0.0, "log_barrier": 1.0}


def condition(kind: str, H: int, step_size: Any, policy: Floats, B: Floats) -> Floats:
    """Return what CB bounds by 1: 4 H eta sqrt(pi) B (Tsallis), 2 H eta B (Shannon), 2 H eta pi B (log-barrier)."""
    return np.asarray(FACTOR[kind] * H * step_size * policy ** POWER[kind] * B)


class Constants(NamedTuple):
    """Of the theory mode: ``gamma_t = offset / (offset + t)``, beta starts at ``first_rate``."""

    offset: float
    first_rate: float


def constants(kind: str, H: int, A: int, T: int) -> Constants:
    """Return c_gamma and c_0 of the theory mode; A at least 2 for Shannon."""
    if kind == "tsallis":
        return Constants(120 * math.e * H**2 * A**0.5, 120 * 2**0.5 * math.e * H**3 * A**0.5)
    if kind == "shannon":
        offset = (36 * math.e * H**2 * math.log(A)) ** 2
        return Constants(offset, 18 * math.e * H**3 * (A * math.log(A) * log_term(T, offset)) ** 0.5)
    return Constants(1.0, max(21 * H**2, 4 * math.e * H**3))


def log_term(T: int, offset: float) -> float:
    """Return Lambda = 1 + ln(2 T (1 + T / c_gamma))."""
    return 1 + math.log(2 * T * (1 + T / offset))


# Tsallis, section 2.4


def tsallis_rate(first_rate: float, c_1: float, H: int, before: Floats, w: Floats) -> tuple[Floats, Floats]:
    """Return beta_t = c_0 + c_1 H sqrt(X_t) and its increase, where ``before`` is X_{t-1}, X_t = X_{t-1} + w_t."""
    root = np.sqrt(before + w)
    return np.asarray(first_rate + c_1 * H * root), np.asarray(c_1 * H * w / (root + np.sqrt(before)))


def tsallis_bonus(rate: Floats, increase: Floats, c_1: float, H: int, policy: Floats, w: Floats) -> Floats:
    """Return b^reg_t of policies with the actions last."""
    large = w / rate > 1 / (4 * H)
    return increase * ((2 + 8 / c_1**2) * xi(policy) + 4 / c_1**2 * math.sqrt(policy.shape[-1]) * large)


# Shannon, section 2.5


def shannon_bonus(
    H: int, log_term: float, before: tuple[Floats, Floats], policy: Floats, w: Floats
) -> tuple[Floats, ...]:
    """Return beta_t - beta_{t-1}, b^reg_t, Y_t and M_t; ``before`` has Y_{t-1} and M_{t-1}. A is at least 2."""
    A, ent = policy.shape[-1], entropy(policy)
    kappa = H * math.sqrt(A * log_term)
    Y, M = before[0] + ent * w, np.maximum(before[1], math.log(A) * w)
    increase = kappa * w / np.sqrt(before[0] + M)
    telescope = H**2 * A * log_term / kappa * (np.sqrt(Y + M) - np.sqrt(before[0] + before[1]))
    return increase, ent * increase + telescope, Y, M


# Log-barrier, section 2.6; rates are by state and action


def log_barrier_increase(rate: Floats, zeta: Floats, d: Floats, T: int) -> Floats:
    """Return beta_{t+1} - beta_t of a real episode; d has an axis for the actions."""
    return np.asarray(zeta / (rate * d**2 * math.log(T)))


def log_barrier_bonus(increase: Floats, T: int, factor: float = 5.0) -> Floats:
    """Return b^reg_t: 5 ln(A T) times the increase summed over actions; 3 ln(A T) in a virtual episode."""
    return np.asarray(factor * math.log(increase.shape[-1] * T) * increase.sum(-1))


def virtual_increase(rate: Floats, d: Floats, H: int, T: int, most: float) -> Floats:
    """Return the increase of a virtual episode: ``beta / (66 H ln T)`` where eta / d is largest, if above ``most``.

    The largest over all axes but the last, which has the runs; arrays (H, S, A, R).
    """
    steps = (1 / (rate * d)).reshape(-1, rate.shape[-1])
    worst = np.arange(len(steps))[:, None] == steps.argmax(0)
    fires = (worst & (steps > most)).reshape(rate.shape)
    return np.asarray(rate * fires / (66 * H * math.log(T)))
