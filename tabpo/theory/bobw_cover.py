"""Claims of best of both worlds: the bonus pays for the stability of -B, L15, and of the estimates, L16."""

from __future__ import annotations

from functools import partial

import numpy as np

from tabpo.theory import bobw_rates as rates
from tabpo.theory.bobw_common import (
    PAPER,
    Episode,
    distributions,
    exploration,
    model,
    others,
    relative,
    sizes,
    state_occupancy,
)
from tabpo.theory.bobw_estimator import xi
from tabpo.theory.bobw_ftrl import FLOOR, REGULARIZERS, ROUNDING, stability
from tabpo.theory.claims import Claim, Floats, Instance
from tabpo.theory.instances import log_uniform

# L15


def _step_against_bonus(rng: np.random.Generator) -> Instance:
    """Return a leader ``policy`` (A,), its step size, and a bonus B (A,) that just satisfies CB, or by far."""
    kind = str(rng.choice(list(REGULARIZERS)))
    A = int(rng.integers(1, 7))
    H = int(rng.integers(2 if kind == "log_barrier" else 1, 11))
    step_size = log_uniform(rng, 1e-6, 1e6) * 10 ** rng.uniform(-1, 1, A if kind == "log_barrier" else 1)
    losses = rng.normal(size=A) * 10 ** rng.uniform(-3, 2) / step_size.max()
    policy = np.asarray(REGULARIZERS[kind].leader(losses, step_size))
    shape = (rng.random(A), np.eye(A)[rng.integers(A)], np.ones(A), 10 ** -rng.uniform(0, 12, A))[rng.integers(4)]
    at_one = shape / policy ** rates.POWER[kind]  # CB at all actions alike
    B = (shape, at_one)[rng.integers(2)] / step_size
    level = float(rng.choice([1.0, log_uniform(rng, 1e-6, 1.0)]))
    B *= level / rates.condition(kind, H, step_size, policy, B).max()
    return {"kind": kind, "horizon": H, "policy": policy, "step_size": step_size, "B": B}


def _against_bonus(i: Instance) -> tuple[Floats, Floats]:
    """Return Stab(-B) with psi / 2, and <pi, B> / H with what rounding may add."""
    gain, rounding = stability(REGULARIZERS[i["kind"]], i["policy"], -i["B"], 2 * i["step_size"])
    return gain, i["policy"] @ i["B"] / i["horizon"] + rounding


# L16: conditional stability, over all trajectories of one episode


def _episode(rng: np.random.Generator) -> Instance:
    """Return a model, a positive policy, and denominators d (H, S) > 0 of at least the occupancy."""
    H, S, A = sizes(rng, 100)
    i = {**model(rng, H, S, A), "policy": distributions(rng, (H, S), A)}
    mu = state_occupancy(i)
    d = mu + float(rng.choice([0.0, rng.random()])) * (1 - mu) + exploration(rng)
    return {**i, "denominator": np.where(d > 0, d, 1.0)}


def _visited_stability(i: Instance, kind: str, step_size: Floats) -> tuple[Episode, Floats, Floats]:
    """Return the episode, and at its visited states, (H, N), Stab(Qhat) with psi / 2 and its rounding; else it is 0."""
    episode = Episode.of(i)
    at = (np.arange(len(i["policy"]))[:, None], episode.states)
    pi = i["policy"][at]
    played = np.eye(pi.shape[-1])[episode.actions]
    estimate = played * (episode.to_go / i["denominator"][at])[..., None] / pi
    return episode, *stability(REGULARIZERS[kind], pi, estimate, 2 * step_size[at])


def _expected(i: Instance, kind: str, bound: Floats) -> tuple[Floats, Floats]:
    """Return E Stab(Qhat) (H, S) with psi / 2, and the bound with what rounding may add."""
    episode, gain, rounding = _visited_stability(i, kind, i["step_size"][..., None])
    S = i["policy"].shape[1]
    return episode.total(gain, S), bound + episode.total(rounding, S)


def _tsallis_episode(rng: np.random.Generator) -> Instance:
    """Return an episode with ``before`` = X_{t-1}, ``c_1`` and ``first_rate``."""
    i = _episode(rng)
    shape = i["denominator"].shape
    before = 10 ** rng.uniform(-3, 6, shape) * rng.integers(0, 2, shape) / i["denominator"]
    first_rate = float(rng.choice([0.0, log_uniform(rng, 1e-3, 1e3)]))
    return {**i, "before": before, "c_1": log_uniform(rng, 0.1, 10.0), "first_rate": first_rate}


def _tsallis_cover(i: Instance) -> tuple[Floats, Floats]:
    """Return E Stab(Qhat) and the part of the bonus that pays for it: ``(8 / c_1^2) xi`` or ``(4 / c_1^2) sqrt(A)``."""
    H, _, A = i["policy"].shape
    w = 1 / i["denominator"]
    rate, increase = rates.tsallis_rate(i["first_rate"], i["c_1"], H, i["before"], w)
    share = np.where(w / rate <= 1 / (4 * H), 8 * xi(i["policy"]), 4 * np.sqrt(A)) / i["c_1"] ** 2
    return _expected({**i, "step_size": 1 / rate}, "tsallis", increase * share)


def _tsallis_payment(i: Instance) -> tuple[Floats, Floats]:
    """Return E Stab(Qhat) with the penalty of a deterministic u, the largest, and b^reg, (H, S)."""
    H = len(i["policy"])
    w = 1 / i["denominator"]
    rate, increase = rates.tsallis_rate(i["first_rate"], i["c_1"], H, i["before"], w)
    regular = rates.tsallis_bonus(rate, increase, i["c_1"], H, i["policy"], w)
    gain, bound = _expected({**i, "step_size": 1 / rate}, "tsallis", regular)
    penalty = increase * 2 * (np.sqrt(i["policy"]).sum(-1) - 1)
    return gain + penalty, bound + ROUNDING * increase


def _with_step_size(rng: np.random.Generator) -> Instance:
    """Return an episode with step sizes (H, S) of any size in units of d."""
    i = _episode(rng)
    return {**i, "step_size": i["denominator"] * 10 ** rng.uniform(-6, 3, i["denominator"].shape)}


def _shannon_cover(i: Instance) -> tuple[Floats, Floats]:
    """Return E Stab(Qhat) and ``H^2 A w eta``."""
    H, _, A = i["policy"].shape
    return _expected(i, "shannon", H**2 * A * i["step_size"] / i["denominator"])


def _log_barrier_episode(rng: np.random.Generator) -> Instance:
    """Return an episode with step sizes (H, S, A) of at most d / (4 H), a comparator, and T >= A."""
    i = _episode(rng)
    H, S, A = i["policy"].shape
    share = 10 ** -(float(rng.choice([0.0, 3.0])) * rng.random((H, S, A)))
    return {
        **i,
        "step_size": i["denominator"][..., None] * share / (4 * H),
        "other": distributions(rng, (H, S), A, zeros=True),
        "n_episodes": max(A, int(log_uniform(rng, 2, 1e6))),
    }


def _log_barrier_cover(i: Instance) -> tuple[Floats, Floats]:
    """Return Stab(Qhat) and ``2 sum_a eta zeta / d^2`` on every trajectory, (H, N)."""
    episode, gain, rounding = _visited_stability(i, "log_barrier", i["step_size"])
    at = (np.arange(len(i["policy"]))[:, None], episode.states)
    zeta = zeta_on(i["policy"], episode)
    return gain, 2 * (i["step_size"][at] * zeta).sum(-1) / i["denominator"][at] ** 2 + rounding


def _log_barrier_payment(i: Instance, power: float = 3.0) -> tuple[Floats, Floats]:
    """Return Stab(Qhat) and the penalty of u' = (1 - T^-power) u + T^-power / A on trajectories, and b^reg, (H, N)."""
    episode, gain, rounding = _visited_stability(i, "log_barrier", i["step_size"])
    at = (np.arange(len(i["policy"]))[:, None], episode.states)
    T, A = i["n_episodes"], i["policy"].shape[2]
    mixed = (1 - T**-power) * i["other"] + T**-power / A
    d = i["denominator"][at][..., None]
    increase = rates.log_barrier_increase(1 / i["step_size"][at], zeta_on(i["policy"], episode), d, T)
    penalty = (increase * (np.log(i["policy"]) - np.log(mixed))[at]).sum(-1)
    return gain + penalty, rates.log_barrier_bonus(increase, T) + rounding


def zeta_on(policy: Floats, episode: Episode) -> Floats:
    """Return zeta at the visited states of each trajectory, (H, N, A): ``(1(s, a) - pi(a|s))^2 L^2``."""
    at = (np.arange(len(policy))[:, None], episode.states)
    played = np.eye(policy.shape[-1])[episode.actions] > 0
    return np.asarray((np.where(played, others(policy)[at], policy[at]) * episode.to_go[..., None]) ** 2)


_claim = partial(Claim, paper=PAPER, kind="<=", tolerance=1e-9, reason=FLOOR)

CLAIMS = (
    _claim(
        name="bobw_bonus_stability",
        where="best of both worlds, section 5, L15",
        statement="If CB holds, and H >= 2 for the log-barrier: Stab(-B) with psi / 2 over <pi, B> / H is at most 1.",
        draw=_step_against_bonus,
        **relative(_against_bonus),
    ),
    _claim(
        name="bobw_tsallis_cover",
        where="best of both worlds, section 5, L16",
        statement=(
            "E Stab(Qhat) with psi / 2 over (8 / c_1^2) (beta_t - beta_{t-1}) xi is at most 1 if eta w <= 1 / (4 H); "
            "over (4 / c_1^2) (beta_t - beta_{t-1}) sqrt(A) otherwise."
        ),
        draw=_tsallis_episode,
        **relative(_tsallis_cover),
    ),
    _claim(
        name="bobw_shannon_cover",
        where="best of both worlds, section 5, L16",
        statement="E Stab(Qhat) with psi / 2 over H^2 A w eta is at most 1.",
        draw=_with_step_size,
        **relative(_shannon_cover),
    ),
    _claim(
        name="bobw_log_barrier_cover",
        where="best of both worlds, section 5, L16",
        statement="If eta <= d / (4 H): Stab(Qhat) with psi / 2 over 2 sum_a eta zeta / d^2 is at most 1, pathwise.",
        draw=_log_barrier_episode,
        **relative(_log_barrier_cover),
    ),
    _claim(
        name="bobw_tsallis_bonus",
        where="best of both worlds, section 2.4",
        statement="E Stab(Qhat) with psi / 2 + (beta_t - beta_{t-1}) (phi(u) - phi(pi_t)) over b^reg is at most 1.",
        draw=_tsallis_episode,
        **relative(_tsallis_payment),
    ),
    _claim(
        name="bobw_log_barrier_bonus",
        where="best of both worlds, section 2.6",
        statement=(
            "If eta <= d / (4 H): Stab(Qhat) with psi / 2 + sum_a (beta_{t+1} - beta_t) ln(pi_t / u') over "
            "b^reg is at most 1, pathwise."
        ),
        draw=_log_barrier_episode,
        **relative(_log_barrier_payment),
    ),
)
