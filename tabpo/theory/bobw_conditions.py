"""Claims of best of both worlds: the condition CB holds in the theory mode, section 2.7."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from tabpo import confidence
from tabpo.kernels import plain
from tabpo.theory import bobw_rates as rates
from tabpo.theory.bobw_common import (
    PAPER,
    Episode,
    confidence_set,
    distributions,
    model,
    sizes,
    state_occupancy,
    with_bounds,
)
from tabpo.theory.bobw_cover import zeta_on
from tabpo.theory.bobw_estimator import bias_bonus
from tabpo.theory.claims import Claim, Floats, Instance
from tabpo.theory.instances import log_uniform

# Tsallis and Shannon: any policy, after any history of w in [1/2, 1 / gamma]


def _theory_state(rng: np.random.Generator, kind: str) -> Instance:
    """Return a policy's occupancy bounds over a set, possibly the true transitions alone, in episode t of T."""
    H, S, A = (int(rng.integers(1, most + 1)) for most in (4, 3, 6))
    A = max(A, 2)
    T = int(log_uniform(rng, 2, 1e4 if kind == "shannon" else 1e7))
    i = {**confidence_set(rng, H, S, A), "policy": distributions(rng, (H, S), A), "n_episodes": T}
    if rng.random() < 0.5:
        i.update(centre=i["transitions"], radius=np.zeros((H, S, A, S)))
    t = int(rng.choice([1, T, log_uniform(rng, 1, T)]))
    return {**with_bounds(i), "episode": t, "late": rng.random((H, S)), "kind": kind}


def _dilated_condition(i: Instance, step_size: Floats, regular: Floats, gamma: float) -> Floats:
    """Return CB's left side (H, S, A) for the bonus ``b^reg`` (H, S) and b^bias."""
    H, pi = len(i["policy"]), i["policy"]
    bonus = regular[..., None] + bias_bonus(pi, i["upper"], i["lower"], gamma)
    B, _ = confidence.extended_evaluate(i["centre"], i["radius"], bonus, pi, True, 1 / H)
    return rates.condition(i["kind"], H, step_size[..., None], pi, np.asarray(B))


def _largest(t: Any, offset: float) -> Any:
    """Return the largest w of episode t, ``1 / gamma_t``."""
    return 1 + t / offset


def _tsallis_condition(i: Instance) -> Floats:
    H, _, A = i["policy"].shape
    t = i["episode"]
    offset, first_rate = rates.constants("tsallis", H, A, i["n_episodes"])
    least, most = (t - 1) / 2, (t - 1) + t * (t - 1) / (2 * offset)
    before = np.where(i["late"] < 0.5, least, least + (2 * i["late"] - 1) ** 4 * (most - least))
    gamma = 1 / _largest(t, offset)
    w = 1 / (i["upper"] + gamma)
    rate, increase = rates.tsallis_rate(first_rate, 2.0, H, before, w)
    regular = rates.tsallis_bonus(rate, increase, 2.0, H, i["policy"], w)
    return _dilated_condition(i, 1 / rate, regular, gamma)


def _shannon_condition(i: Instance) -> Floats:
    """Return CB's left side after t - 1 episodes with w least, largest or as ``late`` says, and entropies likewise."""
    H, S, A = i["policy"].shape
    t = i["episode"]
    offset, first_rate = rates.constants("shannon", H, A, i["n_episodes"])
    log_term, gamma = rates.log_term(i["n_episodes"], offset), 1 / _largest(t, offset)
    w = 1 / (i["upper"] + gamma)
    past = np.arange(1, t)[:, None, None]
    ws = 0.5 * (2 * _largest(past, offset)) ** np.round(i["late"])
    ents = np.log(A) * np.where(past == 1, 1.0, np.where(i["late"] * 4 % 1 < 0.5, 1e-6, 1.0))
    Y = np.cumsum(ents * ws, axis=0)
    M = np.log(A) * np.maximum.accumulate(ws, axis=0)
    kappa = H * np.sqrt(A * log_term)
    rate = first_rate + kappa * (ws / np.sqrt(Y - ents * ws + M)).sum(0)
    before = (Y[-1], M[-1]) if t > 1 else (np.zeros((H, S)), np.zeros((H, S)))
    increase, regular, _, _ = rates.shannon_bonus(H, log_term, before, i["policy"], w)
    return _dilated_condition(i, 1 / (rate + increase), regular, gamma)


# Log-barrier: any policy and rates


def _log_barrier_state(rng: np.random.Generator, virtual: bool) -> Instance:
    """Return an episode of the theory mode with rates (H, S, A); in a real one eta / d <= 1 / (21 H^2)."""
    H, S, A = sizes(rng, 100)
    T = max(A, 2, int(log_uniform(rng, 2, 1e6)))
    t = int(rng.choice([1, T, log_uniform(rng, 1, T)]))
    i = {**model(rng, H, S, A), "policy": distributions(rng, (H, S), A), "n_episodes": T, "gamma": 1 / (1 + t)}
    d = (state_occupancy(i) + i["gamma"])[..., None]
    first_rate = rates.constants("log_barrier", H, A, T).first_rate
    spread = 10 ** (float(rng.choice([0.0, 1.0, 4.0])) * rng.random((H, S, A)))
    least = first_rate if virtual else np.maximum(first_rate, 21 * H**2 / d)
    return {**i, "denominator": d, "rate": least * spread}


def _real_condition(i: Instance) -> Floats:
    """Return CB's left side on every trajectory, (H, S, A, N)."""
    H = len(i["policy"])
    episode, T = Episode.of(i), i["n_episodes"]
    N = len(episode.weights)
    at = (np.arange(H)[:, None], episode.states)
    increase = rates.log_barrier_increase(i["rate"][at], zeta_on(i["policy"], episode), i["denominator"][at], T)
    mu = state_occupancy(i)
    bonus = np.repeat(bias_bonus(i["policy"], mu, mu, i["gamma"])[..., None], N, axis=-1)
    h, n = np.ogrid[:H, :N]
    bonus[h, episode.states, :, n] += rates.log_barrier_bonus(increase, T)[..., None]
    return _log_barrier_condition(i, bonus)


def _virtual_condition(i: Instance) -> Floats:
    """Return CB's left side in a virtual episode, (H, S, A, 1), 0 if none is due."""
    H, _, A = i["policy"].shape
    increase = rates.virtual_increase(
        i["rate"][..., None], i["denominator"][..., None], H, i["n_episodes"], 1 / (21 * H**2)
    )
    regular = rates.log_barrier_bonus(increase[..., 0], i["n_episodes"], 3.0)
    return _log_barrier_condition(i, np.repeat(regular[..., None, None], A, axis=2))


def _log_barrier_condition(i: Instance, bonus: Floats) -> Floats:
    H, pi = len(i["policy"]), i["policy"][..., None]
    B, _ = plain.q_values(i["transitions"], bonus, np.broadcast_to(pi, bonus.shape), 1 / H)
    return rates.condition("log_barrier", H, 1 / i["rate"][..., None], pi, np.asarray(B))


_claim = partial(
    Claim,
    paper=PAPER,
    kind="<=",
    tolerance=1e-9,
    reason="a bonus of positive terms and its backup: 1e-9 is far above their rounding",
    where="best of both worlds, section 2.7",
    right=lambda i: 1.0,
)


def _worst(left: Callable[[Instance], Floats]) -> Callable[[Instance], float]:
    return lambda i: float(left(i).max())


CLAIMS = (
    _claim(
        name="bobw_tsallis_condition",
        statement="In the theory mode 4 H eta sqrt(pi) B <= 1: any policy, any history, transitions known or not.",
        draw=partial(_theory_state, kind="tsallis"),
        left=_worst(_tsallis_condition),
    ),
    _claim(
        name="bobw_shannon_condition",
        statement="In the theory mode 2 H eta B <= 1: any policy, transitions known or not.",
        draw=partial(_theory_state, kind="shannon"),
        left=_worst(_shannon_condition),
    ),
    _claim(
        name="bobw_log_barrier_condition",
        statement="In the theory mode 2 H eta pi B <= 1 in real episodes, on every trajectory.",
        draw=partial(_log_barrier_state, virtual=False),
        left=_worst(_real_condition),
    ),
    _claim(
        name="bobw_virtual_condition",
        statement="In the theory mode 2 H eta pi B <= 1 in virtual episodes.",
        draw=partial(_log_barrier_state, virtual=True),
        left=_worst(_virtual_condition),
    ),
)
