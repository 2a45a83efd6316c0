"""Claims of best of both worlds: what L3 leaves of the regret is at most the bounds with explicit constants, T1 to T4.

After (P) at every state the regret is at most ``sum_s mu^u(s) N(s) + (1 + 1/H)^H sum_t V^{pi_t}(b_t)``. This is
evaluated for any occupancies and policies in the place of those that a learner would have; known transitions.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import numpy as np

from tabpo.theory import bobw_rates as rates
from tabpo.theory import bounds
from tabpo.theory.bobw_common import PAPER, distributions, others, relative
from tabpo.theory.bobw_sums import entropy
from tabpo.theory.claims import Claim, Floats, Instance
from tabpo.theory.instances import log_uniform


def draw(rng: np.random.Generator) -> Instance:
    """Return T episodes' occupancies (T, H, S) and policies (T, H, S, A), the first one uniform, and gaps (H, S, A).

    The policies are any, or leave the action without a gap with probability of about (t + 1)^-power.
    """
    H, S, A = (int(rng.integers(low, high + 1)) for low, high in ((1, 2), (1, 2), (2, 3)))
    T = int(log_uniform(rng, 2, 3000))
    still = int(rng.integers(2))  # one occupancy for all episodes
    mu = np.broadcast_to(distributions(rng, (1 if still else T, H), S, zeros=True), (T, H, S))
    best = np.eye(A)[rng.integers(A, size=(H, S))]
    leave = (1 + np.arange(T)[:, None, None, None]) ** -float(rng.choice([0.0, 0.5, 1.0, 3.0]))
    away = distributions(rng, (T, H, S), A) if rng.random() < 0.5 else np.ones(A) / A
    policies = leave * away + (1 - leave) * best
    policies[0] = 1 / A
    return {"occupancy": mu, "policies": policies, "gaps": 10 ** rng.uniform(-3, 0, (H, S, A)) * (1 - best)}


def _bias_cost(i: Instance, gamma: Floats) -> float:
    """Return ``sum_t V^{pi_t}(b_t^bias)``."""
    pi, mu = i["policies"], i["occupancy"]
    steps_left = np.arange(mu.shape[1], 0, -1.0)[:, None]
    return float((mu * steps_left * gamma / (mu + gamma) * (pi * others(pi)).sum(3)).sum())


def _tsallis_rest(i: Instance) -> float:
    T, H, _, A = i["policies"].shape
    offset, first_rate = rates.constants("tsallis", H, A, T)
    gamma = offset / (offset + np.arange(1, T + 1)[:, None, None])
    w = 1 / (i["occupancy"] + gamma)
    rate, increase = rates.tsallis_rate(first_rate, 2.0, H, np.cumsum(w, axis=0) - w, w)
    regular = rates.tsallis_bonus(rate, increase, 2.0, H, i["policies"], w)
    cost = float((i["occupancy"] * regular).sum()) + _bias_cost(i, gamma)
    return float(H * 2 * first_rate * (math.sqrt(A) - 1) + (1 + 1 / H) ** H * cost)


def _shannon_rest(i: Instance) -> float:
    T, H, S, A = i["policies"].shape
    offset, first_rate = rates.constants("shannon", H, A, T)
    gamma = offset / (offset + np.arange(1, T + 1)[:, None, None])
    w = 1 / (i["occupancy"] + gamma)
    gains = entropy(i["policies"]) * w
    before = np.cumsum(gains, axis=0) - gains, np.zeros((T, H, S))
    before[1][1:] = math.log(A) * np.maximum.accumulate(w, axis=0)[:-1]
    _, regular, _, _ = rates.shannon_bonus(H, rates.log_term(T, offset), before, i["policies"], w)
    cost = float((i["occupancy"] * regular).sum()) + _bias_cost(i, gamma)
    return float(H * first_rate * math.log(A) + (1 + 1 / H) ** H * cost)


def _against(
    rest: Callable[[Instance], float], bound: Callable[..., float]
) -> Callable[[Instance], tuple[Floats, Floats]]:
    """Return, of an instance, the rest twice, and the two bounds: against any losses, and with the gaps.

    C is the least with which the rest R satisfies ``R >= sum mu pi Delta - C``.
    """

    def sides(i: Instance) -> tuple[Floats, Floats]:
        T, H, S, A = i["policies"].shape
        left = rest(i)
        paid = float((i["occupancy"][..., None] * i["policies"] * i["gaps"]).sum())
        corruption = max(paid - left, 0.0)
        return np.full(2, left), np.array([bound(H, S, A, T), bound(H, S, A, T, i["gaps"], corruption)])

    return sides


_claim = partial(
    Claim,
    paper=PAPER,
    draw=draw,
    kind="<=",
    tolerance=1e-9,
    reason="the quotient of sums of at most 10^5 terms of one sign; 1e-9 is far above their rounding",
)

CLAIMS = (
    _claim(
        name="bobw_tsallis_regret",
        where="best of both worlds, section 3, T1 and T2",
        statement=(
            "What L3 leaves, with b of the theory mode and any policies, over bounds.bobw_tsallis_regret is at most 1, "
            "without gaps and with any."
        ),
        **relative(_against(_tsallis_rest, bounds.bobw_tsallis_regret)),
    ),
    _claim(
        name="bobw_shannon_regret",
        where="best of both worlds, section 3, T3 and T4",
        statement=(
            "What L3 leaves, with b of the theory mode and any policies, over bounds.bobw_shannon_regret is at most 1, "
            "without gaps and with any."
        ),
        **relative(_against(_shannon_rest, bounds.bobw_shannon_regret)),
    ),
)
