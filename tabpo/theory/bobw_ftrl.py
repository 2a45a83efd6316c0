"""Follow-the-regularised-leader at one state, and the claims of best of both worlds about it, L7.

A distribution, losses and a step size make one step: ``p+ = argmin_p <p, c> + D(p, pi)``, by the solvers of
:mod:`tabpo.regularizers`. Its stability is ``Stab = <pi - p+, c> - D(p+, pi)``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tabpo import regularizers
from tabpo.theory.bobw_common import PAPER, distributions, relative
from tabpo.theory.claims import Claim, Floats, Instance
from tabpo.theory.instances import log_uniform

ROUNDING = 1e-14
FLOOR = (
    "relative; Stab is a small difference of large sums, so 1e-14 (<pi + p+, |c|> + 1 / eta), what rounding may add to "
    "it, is part of the right side"
)


# Regularizers psi(p) = sum_a phi(p_a) / eta_a


@dataclass(frozen=True)
class Regularizer:
    """phi, its gradient and Bregman divergence by action, the leader, and how a step is measured.

    ``z = eta scale(pi) (c - x)`` for any x; ``inverse(pi, p)`` is the z with which the unconstrained step ends at p.
    """

    phi: Callable[[Floats], Floats]
    gradient: Callable[[Floats], Floats]
    divergence: Callable[[Floats, Floats], Floats]
    leader: Callable[[Floats, Any], Any]
    scale: Callable[[Floats], Floats]
    inverse: Callable[[Floats, Floats], Floats]


def _shannon_phi(p: Floats) -> Floats:
    return np.asarray(p * np.log(np.where(p > 0, p, 1.0)))


def _log_barrier_divergence(p: Floats, pi: Floats) -> Floats:
    return np.asarray(p / pi - 1 - np.log(p / pi))


REGULARIZERS = {
    "tsallis": Regularizer(
        phi=lambda p: -2 * np.sqrt(p),
        gradient=lambda p: -1 / np.sqrt(p),
        divergence=lambda p, pi: (np.sqrt(p) - np.sqrt(pi)) ** 2 / np.sqrt(pi),
        leader=regularizers.tsallis,
        scale=np.sqrt,
        inverse=lambda pi, p: np.sqrt(pi / p) - 1,
    ),
    "shannon": Regularizer(
        phi=_shannon_phi,
        gradient=lambda p: np.log(p) + 1,
        divergence=lambda p, pi: _shannon_phi(p) - p * np.log(pi) - p + pi,
        leader=regularizers.shannon,
        scale=np.ones_like,
        inverse=lambda pi, p: np.log(pi / p),
    ),
    "log_barrier": Regularizer(
        phi=lambda p: -np.log(p),
        gradient=lambda p: -1 / p,
        divergence=_log_barrier_divergence,
        leader=regularizers.log_barrier,
        scale=lambda p: p,
        inverse=lambda pi, p: pi / p - 1,
    ),
}


def power(q: float) -> Regularizer:
    """Return Tsallis' regularizer for q in (0, 1), ``phi = -p^q / (1 - q)``; q = 1/2 is ``REGULARIZERS["tsallis"]``."""
    return Regularizer(
        phi=lambda p: -(p**q) / (1 - q),
        gradient=lambda p: -q * p ** (q - 1) / (1 - q),
        divergence=lambda p, pi: (pi**q - p**q + q * pi ** (q - 1) * (p - pi)) / (1 - q),
        leader=partial(regularizers.tsallis, q=q),
        scale=lambda p: p ** (1 - q) / q,
        inverse=lambda pi, p: ((pi / p) ** (1 - q) - 1) / (1 - q),
    )


def stability(psi: Regularizer, pi: Floats, losses: Floats, step_size: Any) -> tuple[Floats, Floats]:
    """Return Stab of steps from pi, and what rounding may add to it.

    Parameters
    ----------
    psi : Regularizer
    pi, losses : (..., A)
        Positive probabilities, and losses c.
    step_size : (..., A) or (..., 1)
        eta; only the log-barrier's may differ between actions.

    Returns
    -------
    stability, rounding : (...)
    """
    after = np.asarray(psi.leader(losses - psi.gradient(pi) / step_size, step_size))
    gain = ((pi - after) * losses - psi.divergence(after, pi) / step_size).sum(-1)
    size = ((pi + after) * np.abs(losses)).sum(-1) + np.broadcast_to(1 / step_size, pi.shape).max(-1)
    return np.asarray(gain), np.asarray(ROUNDING * size)


# Steps


def draw_step(rng: np.random.Generator, kind: str, least: float = -1.0) -> Instance:
    """Return one step from ``policy`` (A,) with ``z >= least``, > -1 if that is -1: to a distribution, any, rare, huge.

    Step sizes span 12 orders of magnitude, for the log-barrier another 2 between actions.
    """
    A = int(rng.integers(1, 7))
    q = float(rng.uniform(0.05, 0.95)) if kind == "power" else 0.5
    psi, pi = regularizer(kind, q), distributions(rng, (), A)
    columns = A if kind == "log_barrier" else 1
    step_size = log_uniform(rng, 1e-6, 1e6) * 10 ** rng.uniform(-1, 1, columns)
    size = 10.0 ** rng.uniform(-6, 3)
    kinds: tuple[Callable[[], Floats], ...] = (
        lambda: psi.inverse(pi, distributions(rng, (), A)),
        lambda: rng.uniform(-1, 1, A),
        lambda: size * rng.normal(size=A),
        lambda: size * rng.random(A),
        lambda: np.where(rng.random(A) < 0.3, size * rng.normal(size=A), 0.0),
    )
    z = np.maximum(kinds[rng.integers(len(kinds))](), least + (1e-9 if least == -1 else 0))
    shift = float(rng.choice([0.0, 3.0]) * rng.normal() / step_size[0])
    losses = shift + z / (step_size * psi.scale(pi))
    return {"kind": kind, "q": q, "policy": pi, "step_size": step_size, "shift": shift, "losses": losses}


def regularizer(kind: str, q: float = 0.5) -> Regularizer:
    """Return the regularizer of an instance."""
    return power(q) if kind == "power" else REGULARIZERS[kind]


def stab(i: Instance, losses: str = "losses", halves: int = 1) -> tuple[float, float]:
    """Return Stab and its rounding, of ``psi / halves``."""
    gain, rounding = stability(regularizer(i["kind"], i["q"]), i["policy"], i[losses], halves * i["step_size"])
    return float(gain), float(rounding)


def _any_step(rng: np.random.Generator) -> Instance:
    """Return a step of any kind, losses ``extra`` and ``both`` sums, and eight distributions ``elsewhere``."""
    kind = str(rng.choice(list(REGULARIZERS)))
    i = draw_step(rng, kind)
    A = len(i["policy"])
    extra = np.resize(draw_step(rng, kind)["losses"], A) * rng.choice([-1.0, 1.0])
    return {**i, "extra": extra, "both": i["losses"] + extra, "elsewhere": distributions(rng, (8,), A)}


def _elsewhere(i: Instance) -> Floats:
    """Return <pi - p, c> - D(p, pi) for other distributions p, shape (8,), in units of 1 / eta."""
    psi, pi, eta = REGULARIZERS[i["kind"]], i["policy"], i["step_size"]
    gains = (pi - i["elsewhere"]) * i["losses"] - psi.divergence(i["elsewhere"], pi) / eta
    return np.asarray(gains.sum(-1) * eta.min())


def _at_leader(i: Instance) -> Floats:
    pi, c, eta = i["policy"], i["losses"], i["step_size"]
    size = (pi + i["elsewhere"]) @ np.abs(c) + (1 / eta).max()
    return np.asarray((sum(stab(i)) + ROUNDING * size) * eta.min())


def _halves(i: Instance) -> tuple[float, float]:
    """Return Stab of the sum, and the sum of the two with psi / 2."""
    whole, rounding = stab(i, "both")
    return whole, sum(stab(i, "losses", 2)) + sum(stab(i, "extra", 2)) + rounding


# L7: the game of T rounds at one state


def _game(rng: np.random.Generator) -> Instance:
    """Return losses (T, A), step sizes (T + 1, A or 1), the first of psi_0, and comparators (A + 3, A).

    Step sizes fall, or do as they like. The log-barrier's comparators are mixed with the uniform distribution.
    """
    kind = str(rng.choice(list(REGULARIZERS)))
    T, A = int(rng.integers(1, 9)), int(rng.integers(1, 7))
    columns = A if kind == "log_barrier" else 1
    step_sizes = log_uniform(rng, 1e-3, 1e3) * np.exp(rng.normal(size=(T + 1, columns)) * rng.choice([0.1, 2.0]))
    if rng.random() < 0.7:
        step_sizes = -np.sort(-step_sizes, axis=0)
    size = 10.0 ** rng.uniform(-3, 0) / step_sizes.max()
    kinds = (rng.normal(size=(T, A)), rng.random((T, A)), np.where(rng.random((T, A)) < 0.2, 20.0, -0.5))
    comparators = np.concatenate([np.eye(A), distributions(rng, (3,), A, zeros=True)])
    if kind == "log_barrier":
        comparators = (1 - 1e-3) * comparators + 1e-3 / A
    return {
        "kind": kind,
        "losses": size * kinds[rng.integers(len(kinds))],
        "step_sizes": step_sizes,
        "comparators": comparators,
    }


def _leaders(i: Instance) -> Floats:
    """Return pi_1, ..., pi_T, shape (T, A)."""
    before = np.cumsum(i["losses"], axis=0) - i["losses"]
    return np.asarray(REGULARIZERS[i["kind"]].leader(before, i["step_sizes"][1:]))


def _game_regret(i: Instance) -> Floats:
    """Return ``sum_t <pi_t - u, c_t>`` in units of 1 / eta_0, for every comparator."""
    regret = (_leaders(i) * i["losses"]).sum() - i["comparators"] @ i["losses"].sum(0)
    return np.asarray(regret * i["step_sizes"].min())


def _game_bound(i: Instance) -> Floats:
    psi, A = REGULARIZERS[i["kind"]], i["losses"].shape[1]
    pi, u, rates = _leaders(i), i["comparators"], 1 / i["step_sizes"]
    increase = np.diff(rates, axis=0)
    least = psi.leader(np.zeros(A), i["step_sizes"][0])  # psi_0 is least there
    start = ((psi.phi(u) - psi.phi(np.asarray(least))) * rates[0]).sum(-1)
    penalty = (psi.phi(u) * increase.sum(0)).sum(-1) - (psi.phi(pi) * increase).sum()
    gains, rounding = stability(psi, pi, i["losses"], i["step_sizes"][1:])
    return np.asarray((start + penalty + (gains + rounding).sum()) * i["step_sizes"].min())


_claim = partial(Claim, paper=PAPER, kind="<=", tolerance=1e-9, reason=FLOOR)

CLAIMS = (
    _claim(
        name="bobw_ftrl",
        where="best of both worlds, section 5, L7",
        statement=(
            "sum_t <pi_t - u, c_t> <= psi_0(u) - min psi_0 + sum_t [(psi_t - psi_{t-1})(u) - (psi_t - psi_{t-1})(pi_t) "
            "+ Stab_t], for the three regularizers and any step sizes; in units of 1 / eta."
        ),
        draw=_game,
        left=_game_regret,
        right=_game_bound,
        reason="what rounding adds to Stab is in the right side; the rest are sums of at most 50 terms",
    ),
    _claim(
        name="bobw_stability_is_largest",
        where="best of both worlds, section 5, L7",
        statement="Stab is the largest <pi - p, c> - D(p, pi) over all p, in units of 1 / eta.",
        draw=_any_step,
        left=_elsewhere,
        right=_at_leader,
    ),
    _claim(
        name="bobw_half_split",
        where="best of both worlds, section 5, L7",
        statement="Stab(c + c') over Stab(c) + Stab(c') with psi / 2 is at most 1.",
        draw=_any_step,
        **relative(_halves),
    ),
)
