"""Claims of best of both worlds about values and dilated bonuses, L1 to L3, and about self-bounding regimes."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from tabpo import confidence, planning
from tabpo.theory.bobw_common import (
    PAPER,
    Episode,
    confidence_set,
    distributions,
    model,
    q_values,
    sizes,
    state_occupancy,
    with_bounds,
)
from tabpo.theory.claims import Claim, Floats, Instance
from tabpo.theory.instances import log_uniform, losses

DILATED = "Luo, Wei, Lee, NeurIPS 2021"


def _bonus(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Return bonuses of at least 0: everywhere, rare and large, or none."""
    kinds = (rng.random(shape), (rng.random(shape) < 0.2) * rng.exponential(5.0, shape), np.zeros(shape))
    return np.asarray(log_uniform(rng, 1e-2, 10.0) * kinds[rng.choice(3, p=[0.48, 0.48, 0.04])])


def _two_policies(rng: np.random.Generator) -> Instance:
    """Return a model, ``policy`` pi, ``other`` u and a ``bonus`` (H, S, A)."""
    H, S, A = sizes(rng)
    return {**model(rng, H, S, A), **_policies(rng, H, S, A)}


def _policies(rng: np.random.Generator, H: int, S: int, A: int) -> Instance:
    return {
        "policy": distributions(rng, (H, S), A, zeros=True),
        "other": distributions(rng, (H, S), A, zeros=True),
        "bonus": _bonus(rng, (H, S, A)),
    }


# L1


def _difference(i: Instance) -> Floats:
    """Return V^pi - V^u over all trajectories, twice."""
    return np.full(2, Episode.of(i, "policy").value() - Episode.of(i, "other").value())


def _two_forms(i: Instance) -> list[float]:
    """Return the difference of values at mu^u with Q^pi, and at mu^pi with Q^u."""
    pi, u = i["policy"], i["other"]
    result = []
    for here, values in (("other", "policy"), ("policy", "other")):
        result.append(float((state_occupancy(i, here)[:, :, None] * (pi - u) * q_values(i, policy=values)).sum()))
    return result


# L2: B = b + (1 + 1/H) p <pi, B>


def dilated(i: Instance) -> Floats:
    """Return B in the shape of the policy, for known transitions."""
    return q_values(i, "bonus", dilation=1 / len(i["policy"]))


def _at_start(i: Instance, B: Floats) -> float:
    """Return <pi, B> at the first state."""
    return float((i["initial"][:, None] * i["policy"][0] * B[0]).sum())


def _drift(i: Instance, B: Floats) -> float:
    """Return ``sum_s mu^u(s) <pi - u, B>(s)``."""
    return float((state_occupancy(i, "other")[:, :, None] * (i["policy"] - i["other"]) * B).sum())


def _drift_identity(i: Instance, B: Floats) -> float:
    """Return <pi, B>(s_0) - V^u(b) - (1/H) sum over later s of mu^u(s) <pi, B>(s)."""
    later = float((state_occupancy(i, "other")[1:, :, None] * i["policy"][1:] * B[1:]).sum())
    return _at_start(i, B) - Episode.of(i, "other", "bonus").value() - later / len(B)


def _dilated_sum(i: Instance) -> float:
    """Return the expectation over all trajectories of ``sum_h (1 + 1/H)^h b_h``."""
    H = len(i["policy"])
    stretched = i["bonus"] * (1 + 1 / H) ** np.arange(H)[:, None, None]
    return Episode.of({**i, "bonus": stretched}, "policy", "bonus").value()


def _dilated_bound(i: Instance) -> float:
    H = len(i["policy"])
    return float((1 + 1 / H) ** (H - 1) * Episode.of(i, "policy", "bonus").value())


def _in_a_set(rng: np.random.Generator) -> Instance:
    """Return a set with a member, two policies, and ``dilated``, the largest B over the set."""
    H, S, A = sizes(rng)
    i = with_bounds({**confidence_set(rng, H, S, A), **_policies(rng, H, S, A)})
    B, _ = confidence.extended_evaluate(i["centre"], i["radius"], i["bonus"], i["policy"], True, 1 / H)
    return {**i, "dilated": np.asarray(B)}


def _dilated_bound_over_set(i: Instance) -> float:
    H = len(i["policy"])
    return float((1 + 1 / H) ** (H - 1) * (i["upper"] * (i["policy"] * i["bonus"]).sum(2)).sum())


# L3


def _play(rng: np.random.Generator) -> Instance:
    """Return T <= 10 episodes' policies, losses and bonuses (H, S, A, T), and the comparator ``other``."""
    (H, S, A), T = sizes(rng), int(rng.integers(1, 11))
    return {
        **model(rng, H, S, A),
        "losses": losses(rng, (H, S, A, T)),
        "policy": np.moveaxis(distributions(rng, (H, S, T), A, zeros=True), -1, 2),
        "bonus": _bonus(rng, (H, S, A, T)),
        "other": distributions(rng, (H, S), A, zeros=True),
    }


def _expected(i: Instance, losses: str) -> float:
    """Return ``sum_t V^{pi_t}`` of losses or bonuses, by occupancies."""
    mu = state_occupancy(i)
    return float((mu[:, :, None] * i["policy"] * i[losses]).sum())


def _regret(i: Instance) -> float:
    mu = state_occupancy(i, "other")
    return _expected(i, "losses") - float((mu[:, :, None] * i["other"] * i["losses"].sum(3)).sum())


def least_local_regret(i: Instance) -> Floats:
    """Return the smallest N(s) that satisfies (P), shape (H, S).

    ``sum_t <pi_t - u, Q_t - B_t>(s) <= N(s) + sum_t <u, b_t>(s) + (1/H) sum_t <pi_t, B_t>(s)``.
    """
    H, u = len(i["policy"]), i["other"][..., None]
    B = dilated(i)
    terms = (i["policy"] - u) * (q_values(i) - B) - u * i["bonus"] - i["policy"] * B / H
    return np.asarray(terms.sum((2, 3)))


def _l3_right(i: Instance) -> float:
    H = len(i["policy"])
    local = float((state_occupancy(i, "other") * least_local_regret(i)).sum())
    return local + (1 + 1 / H) ** H * _expected(i, "bonus")


# The self-bounding regime


def _corrupted(rng: np.random.Generator) -> Instance:
    """Return T episodes of ``losses`` that miss ``stationary`` ones, with the policies that play them."""
    i = _play(rng)
    stationary = losses(rng, i["policy"].shape[:3])
    amount = np.where(rng.random(i["losses"].shape[3]) < 0.5, log_uniform(rng, 1e-3, 1.0), 0.0)
    return {**i, "stationary": stationary, "losses": stationary[..., None] * (1 - amount) + amount * i["losses"]}


def _gap_sum(i: Instance) -> float:
    """Return ``sum_t sum_{s, a} mu_t(s) pi_t(a|s) Delta(s, a)`` less the corruption C."""
    _, values = planning.best_response(i["transitions"], i["stationary"])
    q = i["stationary"] + np.einsum("hsap,hp->hsa", i["transitions"], values[1:])
    gaps = q - np.asarray(values)[:-1, :, None]
    mu = state_occupancy(i)
    corruption = 2 * np.abs(i["losses"] - i["stationary"][..., None]).max((1, 2)).sum()
    return float((mu[:, :, None] * i["policy"] * gaps[..., None]).sum() - corruption)


def _regret_against_stationary_best(i: Instance) -> float:
    best, _ = planning.best_response(i["transitions"], i["stationary"])
    return _regret({**i, "other": best})


_claim = partial(Claim, paper=PAPER, tolerance=1e-12, reason="sums of at most 300 products, in the size of the sides")


def _sides(left: Any, right: Any) -> dict[str, Any]:
    return {"left": left, "right": right}


CLAIMS = (
    _claim(
        name="bobw_value_difference",
        where="best of both worlds, section 5, L1",
        statement="V^pi - V^u = sum_s mu^u <pi - u, Q^pi> = sum_s mu^pi <pi - u, Q^u>; V by all trajectories.",
        draw=_two_policies,
        left=_difference,
        right=_two_forms,
        kind="==",
    ),
    _claim(
        name="bobw_dilated_identity",
        paper=DILATED,
        where="best of both worlds, section 5, L2",
        statement="sum_s mu^u <pi - u, B> = <pi, B>(s_0) - V^u(b) - (1/H) sum_{s != s_0} mu^u <pi, B>.",
        draw=_two_policies,
        left=lambda i: _drift(i, dilated(i)),
        right=lambda i: _drift_identity(i, dilated(i)),
        kind="==",
    ),
    _claim(
        name="bobw_dilated_value",
        paper=DILATED,
        where="best of both worlds, section 5, L2",
        statement="<pi, B>(s_0) = sum_{s, a} mu^pi(s, a) (1 + 1/H)^h(s) b(s, a), over all trajectories.",
        draw=_two_policies,
        left=lambda i: _at_start(i, dilated(i)),
        right=_dilated_sum,
        kind="==",
    ),
    _claim(
        name="bobw_dilated_bound",
        paper=DILATED,
        where="best of both worlds, section 5, L2",
        statement="<pi, B>(s_0) <= (1 + 1/H)^(H-1) V^pi(b).",
        draw=_two_policies,
        left=lambda i: _at_start(i, dilated(i)),
        right=_dilated_bound,
        kind="<=",
    ),
    _claim(
        name="bobw_dilated_identity_over_set",
        paper=DILATED,
        where="best of both worlds, section 5, L2",
        statement="For B the largest over a set of transitions that has the true ones, L2's identity holds with <=.",
        draw=_in_a_set,
        left=lambda i: _drift(i, i["dilated"]),
        right=lambda i: _drift_identity(i, i["dilated"]),
        kind="<=",
    ),
    _claim(
        name="bobw_dilated_bound_over_set",
        paper=DILATED,
        where="best of both worlds, section 5, L2",
        statement="For B the largest over a set: <pi, B>(s_0) <= (1 + 1/H)^(H-1) sum_s upper(s) <pi, b>(s).",
        draw=_in_a_set,
        left=lambda i: _at_start(i, i["dilated"]),
        right=_dilated_bound_over_set,
        kind="<=",
    ),
    _claim(
        name="bobw_dilated_regret",
        where="best of both worlds, section 5, L3",
        statement="(P) with N(s) at every s implies Reg <= sum_s mu^u(s) N(s) + (1 + 1/H)^H sum_t V^{pi_t}(b_t).",
        draw=_play,
        left=_regret,
        right=_l3_right,
        kind="<=",
    ),
    _claim(
        name="bobw_corruption",
        where="best of both worlds, section 1, (SB)",
        statement="Reg(pi*) >= sum_t sum mu_t pi_t Delta - C, C = 2 sum_t sum_h max |l_t - l|, l of the gaps Delta.",
        draw=_corrupted,
        left=_gap_sum,
        right=_regret_against_stationary_best,
        kind="<=",
    ),
)
