"""Elementary claims of best of both worlds: penalties, L11, and sums over episodes, L12 to L14 and of the rates."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np

from tabpo.theory.bobw_common import PAPER, distributions, others, relative
from tabpo.theory.bobw_estimator import xi
from tabpo.theory.claims import Claim, Floats, Instance
from tabpo.theory.instances import log_uniform

# L11: penalties phi(u) - phi(pi)


def _two_distributions(rng: np.random.Generator) -> Instance:
    """Return ``policy`` (A,), some ``others`` u (5, A) with zeros, and T >= 2."""
    A = int(rng.integers(1, 7))
    return {
        "policy": distributions(rng, (), A),
        "others": distributions(rng, (5,), A, zeros=True),
        "n_episodes": int(log_uniform(rng, 2, 1e6)),
    }


def _root_excess(pi: Floats) -> float:
    """Return ``sum_a sqrt(pi) - 1`` without cancellation: ``1 - sqrt(x) = (1 - x) / (1 + sqrt(x))`` for the largest."""
    roots = np.sort(np.sqrt(pi))
    rest = np.sort(pi)[:-1].sum()
    return float(roots[:-1].sum() - rest / (1 + roots[-1]))


def _tsallis_penalty(i: Instance) -> tuple[Floats, Floats]:
    """Return the chain phi(u) - phi(pi), 2 (sum sqrt(pi) - 1), 2 xi, and xi against its two bounds."""
    pi = i["policy"]
    excess, spread = _root_excess(pi), float(xi(pi))
    roots = np.sqrt(pi)
    penalty = 2 * (excess - np.array([_root_excess(u) for u in i["others"]]).min())
    rest = float(others(roots).min())  # sum over a != a' of sqrt(pi_a), for the best a'
    return np.array([penalty, 2 * excess, spread, spread]), np.array(
        [2 * excess, 2 * spread, 2 * rest, np.sqrt(len(pi) - 1)]
    )


def entropy(pi: Floats) -> Floats:
    """Return ``-sum_a pi ln pi``, of terms that keep their digits: ``-ln pi`` is ``-log1p(-others)``."""
    rest = others(pi)
    surprise = np.where(rest < 0.5, -np.log1p(-np.minimum(rest, 0.5)), -np.log(np.where(pi > 0, pi, 1.0)))
    return np.asarray((pi * surprise).sum(-1))


def _shannon_penalty(i: Instance) -> tuple[Floats, Floats]:
    """Return the chain phi(u) - phi(pi), Ent(pi), y (1 + ln((A - 1) / y)) for every a', y = 1 - pi(a')."""
    pi = i["policy"]
    ent = float(entropy(pi))
    penalty = ent - float(entropy(i["others"]).min())
    y = np.maximum(others(pi), np.finfo(np.float64).tiny)
    bounds = y * (1 + np.log(max(len(pi) - 1, 1) / y))
    return np.concatenate([[penalty], np.full(len(pi), ent)]), np.concatenate([[ent], bounds])


def _log_barrier_penalty(i: Instance) -> tuple[Floats, Floats]:
    """Return ``ln(1 / u') - ln(1 / pi)`` for u' mixed with the uniform distribution, and 3 ln(A T)."""
    T, A = i["n_episodes"], len(i["policy"])
    mixed = (1 - T**-3.0) * i["others"] + T**-3.0 / A
    penalties = np.log(i["policy"]) - np.log(mixed)
    return penalties, np.full(penalties.shape, 3 * np.log(A * T))


# L12 and L13


def _weights(rng: np.random.Generator, T: int, most: float = 24.0) -> Floats:
    """Return positive numbers (T,) over up to ``most`` orders of magnitude, in any order or sorted."""
    weights = 10 ** (float(rng.choice([0.0, 1.0, most])) * rng.random(T))
    return (weights, np.sort(weights), np.sort(weights)[::-1])[rng.integers(3)]


def _log_sum(i: Instance) -> tuple[float, float]:
    total = np.cumsum(i["weights"])
    return float((i["weights"] / total).sum()), float(1 + np.log(total[-1] / total[0]))


def _regret_bounds(rng: np.random.Generator) -> Instance:
    """Return the largest regret that the first condition admits, and a C with which the second admits it."""
    n = int(rng.integers(1, 7))
    a, gaps = 10 ** rng.uniform(-3, 3, n), 10 ** rng.uniform(-3, 1, n)
    x = a / gaps**2 * 10 ** (float(rng.choice([0.0, 0.3, 6.0])) * rng.normal(size=n))
    lower_order = float(rng.choice([0.0, 10 ** rng.uniform(-3, 3)]))
    largest = float(np.sqrt(a * x).sum() + lower_order)
    corruption = max(float(gaps @ x) - largest, 0.0) + float(rng.choice([0.0, 10 ** rng.uniform(-3, 3)]))
    return {"a": a, "gaps": gaps, "x": x, "lower_order": lower_order, "corruption": corruption, "regret": largest}


def _self_bounding(i: Instance) -> tuple[float, float]:
    unit = float((i["a"] / i["gaps"]).sum())
    return i["regret"], unit + 2 * np.sqrt(unit * i["corruption"]) + 2 * i["lower_order"]


# L14: visits of one state and action


def _visits(rng: np.random.Generator) -> Instance:
    """Return the probability of a visit (T, T) in episode t after n visits: any learner, as far as counts show it."""
    T = int(rng.integers(1, 41))
    kinds = (
        rng.random((T, T)),
        rng.integers(0, 2, (T, T)).astype(np.float64),
        1 / (1 + np.arange(T)) * np.ones((T, 1)),
    )
    return {"visit": kinds[rng.integers(len(kinds))] ** float(rng.choice([0.0, 1.0, 5.0]))}


def _expected_count_sum(i: Instance) -> float:
    """Return ``E sum_t mu_t / max(1, N_t)``, by the distribution of N_t, one episode after the other."""
    visit = i["visit"]
    T = len(visit)
    counts, total = np.eye(1, T + 1)[0], 0.0
    for t in range(T):
        seen = counts[:T] * visit[t]
        total += float((seen / np.maximum(np.arange(T), 1)).sum())
        counts[:T] -= seen
        counts[1:] += seen
    return total


# The rates of sections 2.5 and 2.6


def _shannon_history(rng: np.random.Generator) -> Instance:
    """Return T episodes of w in [1/2, 1 + t / c_gamma] and entropies at a state; the first policy is uniform."""
    T, A = int(rng.integers(1, 101)), int(rng.integers(2, 7))
    offset = log_uniform(rng, 1e-2, 1e6)
    largest = 1 + np.arange(1, T + 1) / offset
    w = (largest, 0.5 * np.ones(T), 0.5 * (2 * largest) ** rng.random(T))[rng.integers(3)]
    entropies = np.log(A) * 10 ** -(float(rng.choice([0.0, 12.0])) * rng.random(T))
    entropies[0] = np.log(A)
    return {"w": w, "entropy": entropies, "offset": offset, "n_actions": A, "first_rate": float(rng.choice([0.0, 1.0]))}


def _shannon_sum(i: Instance) -> tuple[float, float]:
    """Return ``sum_t w_t / beta_t`` and its bound, both without H^2 A and with kappa = 1."""
    w, T = i["w"], len(i["w"])
    Y = np.cumsum(i["entropy"] * w)
    M = np.log(i["n_actions"]) * np.maximum.accumulate(w)
    rates = i["first_rate"] + np.cumsum(w / np.sqrt(Y - i["entropy"] * w + M))
    return float((w / rates).sum()), (1 + np.log(2 * T * (1 + T / i["offset"]))) * float(np.sqrt(Y[-1] + M[-1]))


def _log_barrier_history(rng: np.random.Generator) -> Instance:
    """Return 1 / eta (T + 1,) of real episodes at a state and action, with d and zeta; eta / d <= 1 / (21 H^2)."""
    T, H = int(rng.integers(2, 101)), int(rng.integers(1, 5))
    zeta = H**2 * (rng.random(T), np.ones(T), (rng.random(T) < 0.1).astype(np.float64))[rng.integers(3)]
    relative_step = 10 ** -(float(rng.choice([0.0, 3.0])) * rng.random(T))  # eta / d, in units of its largest
    rates = np.empty(T + 1)
    rates[0] = 21 * H**2 * 10 ** rng.uniform(0, 3)
    d = np.empty(T)
    for t in range(T):
        d[t] = min(21 * H**2 / (relative_step[t] * rates[t]), 2.0)
        rates[t + 1] = rates[t] + zeta[t] / (rates[t] * d[t] ** 2 * np.log(T))
    return {"rates": rates, "d": d, "zeta": zeta}


def _log_barrier_sum(i: Instance) -> tuple[float, float]:
    rates, T = i["rates"], len(i["d"])
    growth = 1.01 * np.log(rates[-1] / rates[0]) / np.log(T)
    return float(i["d"] @ np.diff(rates)), float(np.sqrt(growth * i["zeta"].sum()))


def _virtual_episodes(rng: np.random.Generator) -> Instance:
    """Return 1 / eta of some pairs before and after 100 episodes of which those with eta / d above rho were virtual."""
    factor, n_pairs = log_uniform(rng, 1.0, 1e3), int(rng.integers(1, 4))  # kappa_v ln T
    threshold = float(log_uniform(rng, 1e-3, 1.0))
    rates = np.full(n_pairs, 1 / threshold)
    first = rates.copy()
    least = 10.0 ** rng.uniform(-4, 0)
    count = 0
    for d in least ** rng.random((100, n_pairs)):
        steps = 1 / (rates * d)
        worst = int(np.argmax(steps))
        if steps[worst] > threshold:
            rates[worst] *= 1 + 1 / factor
            count += 1
        else:
            rates = rates + 0.001 * rng.random(n_pairs) * rates
    return {"factor": factor, "first": first, "rates": rates, "count": count}


def _virtual_bound(i: Instance) -> float:
    """Return ``sum (kappa_v ln T + 1) ln(eta_1 / eta_{T+1})``."""
    return float((i["factor"] + 1) * np.log(i["rates"] / i["first"]).sum())


_claim = partial(
    Claim,
    paper=PAPER,
    kind="<=",
    tolerance=1e-9,
    reason="the quotient of sums of at most 100 terms of one sign; 1e-9 is far above their rounding",
)


def _quotient_claim(
    name: str,
    where: str,
    statement: str,
    draw: Callable[[np.random.Generator], Instance],
    sides: Callable[[Instance], tuple[Floats | float, Floats | float]],
) -> Claim:
    return _claim(
        name=f"bobw_{name}",
        where=f"best of both worlds, section {where}",
        statement=statement,
        draw=draw,
        **relative(sides),
    )


CLAIMS = (
    _quotient_claim(
        "tsallis_penalty",
        "5, L11",
        "For phi = -2 sum sqrt(p): phi(u) - phi(pi) <= 2 (sum sqrt(pi) - 1) <= 2 xi, xi <= sqrt(A - 1), and "
        "xi <= 2 sum_{a != a'} sqrt(pi_a) for any a'; as quotients of at most 1.",
        _two_distributions,
        _tsallis_penalty,
    ),
    _quotient_claim(
        "shannon_penalty",
        "5, L11",
        "For phi = sum p ln p: phi(u) - phi(pi) <= Ent(pi) <= y (1 + ln((A - 1) / y)), y = 1 - pi(a') for any a'; as "
        "quotients of at most 1.",
        _two_distributions,
        _shannon_penalty,
    ),
    _quotient_claim(
        "log_barrier_penalty",
        "5, L11",
        "For u' = (1 - T^-3) u + T^-3 / A: ln(1 / u'(a)) - ln(1 / pi(a)) over 3 ln(A T) is at most 1.",
        _two_distributions,
        _log_barrier_penalty,
    ),
    _quotient_claim(
        "log_sum",
        "5, L12",
        "sum_t w_t / X_t over 1 + ln(X_T / X_1) is at most 1, X_t = w_1 + ... + w_t.",
        lambda rng: {"weights": _weights(rng, int(rng.integers(1, 51)))},
        _log_sum,
    ),
    _quotient_claim(
        "self_bounding",
        "5, L13",
        "If R <= sum sqrt(a_i x_i) + c and R >= sum Delta_i x_i - C: R over U + 2 sqrt(U C) + 2 c is at most 1, "
        "U = sum a_i / Delta_i.",
        _regret_bounds,
        _self_bounding,
    ),
    _quotient_claim(
        "count_sum",
        "5, L14",
        "E sum_t mu_t(s, a) / max(1, N_t(s, a)) over 2 + ln T is at most 1, whatever the learner.",
        _visits,
        lambda i: (_expected_count_sum(i), 2 + np.log(len(i["visit"]))),
    ),
    _quotient_claim(
        "shannon_sum",
        "2.5",
        "sum_t w_t / beta_t over (Lambda / kappa) sqrt(Y_T + M_T) is at most 1.",
        _shannon_history,
        _shannon_sum,
    ),
    _quotient_claim(
        "log_barrier_sum",
        "3, T5",
        "If eta / d <= 1 / (21 H^2): sum_t d_t (1 / eta_{t+1} - 1 / eta_t) over "
        "sqrt(1.01 ln(eta_1 / eta_{T+1}) / ln T sum_t zeta_t) is at most 1.",
        _log_barrier_history,
        _log_barrier_sum,
    ),
    _quotient_claim(
        "virtual_episodes",
        "2.6",
        "The number of virtual episodes over sum_{s, a} (kappa_v ln T + 1) ln(eta_1 / eta_{T+1}) is at most 1.",
        _virtual_episodes,
        lambda i: (i["count"], _virtual_bound(i)),
    ),
)
