"""Properties P1 to P6 of DAPO's estimator and bonus, and the bonus identities (L8). Transitions are known."""

from __future__ import annotations

import math
from functools import partial

import numpy as np

from tabpo import estimators, kernels, planning
from tabpo.theory.claims import Claim, Floats, Instance
from tabpo.theory.instances import all_trajectories, delayed_episode, probabilities

PAPER = "Lancewicki, Rosenberg, Sotnikov, ICML 2023"
SUMS = "sums of at most 600 terms of one sign, or a backward recursion of 3 steps: 1e-9 is far above their rounding"


def _horizon(i: Instance) -> int:
    return int(i["acting"].shape[0])


def _state_occupancy(i: Instance, policy: str = "acting") -> Floats:
    return np.asarray(planning.state_occupancy(i["transitions"], i["initial"], i[policy]))


def _occupancy(i: Instance, policy: str = "acting") -> Floats:
    return np.asarray(_state_occupancy(i, policy)[:, :, None] * i[policy])


def _q_values(i: Instance) -> Floats:
    return np.asarray(planning.evaluate(i["transitions"], i["losses"], i["acting"])[0])


def _ratio(i: Instance) -> Floats:
    return np.asarray(estimators.delay_adapted_ratio(i["acting"], i["arrival"]))


def _distance(i: Instance) -> Floats:
    """Return TV(sigma, pi)(s), shape (H, S)."""
    return np.asarray(np.abs(i["arrival"] - i["acting"]).sum(2) / 2)


def _moments(i: Instance) -> tuple[Floats, Floats]:
    """Return the mean and the second moment of the estimator (H, S, A), summed over all trajectories."""
    H, S, A = i["acting"].shape
    states, actions = all_trajectories(H, S, A)
    n = states.shape[1]
    acting, arrival, mu = (
        np.repeat(array[..., None], n, axis=-1) for array in (i["acting"], i["arrival"], _state_occupancy(i))
    )
    observed = i["losses"][np.arange(H)[:, None], states, actions]
    estimates = estimators.q_estimate(observed, acting, arrival, mu, states, actions, i["exploration"])
    weights = probabilities(i["transitions"], i["initial"], acting, states, actions)
    return estimates @ weights, estimates**2 @ weights


def bonus(i: Instance) -> Floats:
    """Return DAPO's exploration bonus b_h(s) of an instance, shape (H, S)."""
    gamma = np.array([float(i["exploration"])])
    wide = [array[..., None] for array in (i["acting"], i["arrival"], _state_occupancy(i))]
    weight = 3 * gamma * _horizon(i)
    return np.asarray(kernels.exploration_bonus(*wide, gamma, weight, True))[..., 0]


def bonus_q_values(i: Instance, dilation: float = 0.0) -> tuple[Floats, Floats]:
    """Return (B_h(s, a), its values V^B (H + 1, S)) of an instance under the acting policy."""
    q, values = kernels.q_values(
        i["transitions"], bonus(i)[:, :, None, None], np.ascontiguousarray(i["acting"][..., None]), dilation
    )
    return np.asarray(q)[..., 0], np.asarray(values)[..., 0]


def _under_comparator(i: Instance, weights: Floats, values: Floats) -> float:
    """Return ``sum_h E_{s ~ mu*} <weights, values>``."""
    return float((_state_occupancy(i, "comparator")[:, :, None] * weights * values).sum())


def _p1_mean(i: Instance) -> Floats:
    return _moments(i)[0]


def _p1_stated_mean(i: Instance) -> Floats:
    m = _occupancy(i)
    return np.asarray(_ratio(i) * m / (m + i["exploration"]) * _q_values(i))


def _p2_left(i: Instance) -> Floats:
    return np.concatenate([(i["arrival"] * _ratio(i)).ravel(), (i["arrival"] * (1 - _ratio(i))).sum(2).ravel()])


def _p2_right(i: Instance) -> Floats:
    return np.concatenate([np.minimum(i["arrival"], i["acting"]).ravel(), _distance(i).ravel()])


def _p3_left(i: Instance) -> Floats:
    return np.asarray((i["arrival"] * (_q_values(i) - _moments(i)[0])).sum(2))


def _p3_right(i: Instance) -> Floats:
    return _horizon(i) * _distance(i) + bonus(i) / 3


def _p4_left(i: Instance) -> Floats:
    return np.asarray((i["arrival"] * _moments(i)[1]).sum(2))


def _p4_right(i: Instance) -> Floats:
    return np.asarray(_horizon(i) * bonus(i) / (3 * i["exploration"]))


def _p5_left(i: Instance) -> Floats:
    b, q = bonus(i).ravel(), bonus_q_values(i)[0].ravel()
    return np.concatenate([b, q, -b, -q])


def _p5_right(i: Instance) -> Floats:
    H, S, A = i["acting"].shape
    steps_left = np.repeat(np.arange(H, 0, -1), S * A)  # H - h + 1 for h = 1 ... H
    return np.concatenate([np.full(H * S, 3.0 * H), 3.0 * H * steps_left, np.zeros(H * S + H * S * A)])


def _p6_value(i: Instance) -> float:
    return float(i["initial"] @ bonus_q_values(i)[1][0])


def _p6_cost(i: Instance) -> float:
    return float((_state_occupancy(i) * bonus(i)).sum())


def _p6_bound(i: Instance) -> float:
    H, S, A = i["acting"].shape
    return float(3 * i["exploration"] * H**2 * S * A)


def _l8_left(i: Instance) -> float:
    return _under_comparator(i, i["acting"] - i["comparator"], bonus_q_values(i)[0])


def _l8_right(i: Instance) -> float:
    return _p6_cost(i) - float((_state_occupancy(i, "comparator") * bonus(i)).sum())


def _l8_dilated_left(i: Instance) -> float:
    H = _horizon(i)
    q, _ = bonus_q_values(i, 1 / H)
    drift = _under_comparator(i, i["acting"] - i["comparator"], q)
    returned = float((_state_occupancy(i, "comparator") * bonus(i)).sum())
    return drift + returned + _under_comparator(i, i["acting"], q) / H


def _l8_dilated_right(i: Instance) -> float:
    H = _horizon(i)
    return float((1 + 1 / H) * (i["initial"] @ bonus_q_values(i, 1 / H)[1][0]))


def _l8_dilated_bound(i: Instance) -> float:
    return math.e * _p6_value(i)


_claim = partial(Claim, paper=PAPER, draw=delayed_episode, tolerance=1e-9, reason=SUMS)

CLAIMS = (
    _claim(
        name="dapo_p1",
        where="section 2.3, P1",
        statement="The mean of the estimator over all trajectories is r m / (m + gamma) Q, m the acting occupancy.",
        left=_p1_mean,
        right=_p1_stated_mean,
        kind="==",
    ),
    _claim(
        name="dapo_p1_optimism",
        where="section 2.3, P1",
        statement="The mean of the estimator is at most Q.",
        left=_p1_mean,
        right=_q_values,
        kind="<=",
    ),
    _claim(
        name="dapo_p2",
        where="section 2.3, P2",
        statement="sigma r = min(sigma, pi), and sum_a sigma (1 - r) = TV(sigma, pi).",
        left=_p2_left,
        right=_p2_right,
        kind="==",
        tolerance=1e-13,
        reason="a product and a sum of 3 terms in [0, 1]",
    ),
    _claim(
        name="dapo_p3",
        where="section 2.3, P3 (bias)",
        statement="E<sigma, Q - Qhat>(s) is at most H TV(sigma, pi)(s) + b(s) / 3.",
        left=_p3_left,
        right=_p3_right,
        kind="<=",
    ),
    _claim(
        name="dapo_p4",
        where="section 2.3, P4 (variance)",
        statement="E<sigma, Qhat^2>(s) is at most H b(s) / (3 gamma).",
        left=_p4_left,
        right=_p4_right,
        kind="<=",
    ),
    _claim(
        name="dapo_p5",
        where="section 2.3, P5",
        statement="0 <= b <= 3 H and 0 <= B_h <= 3 H (H - h + 1), h counted from 1.",
        left=_p5_left,
        right=_p5_right,
        kind="<=",
    ),
    _claim(
        name="dapo_p6_identity",
        where="section 2.3, P6 (cost of the bonus)",
        statement="The value of the acting policy for the bonus is sum_{h,s} mu_h(s) b_h(s).",
        left=_p6_value,
        right=_p6_cost,
        kind="==",
    ),
    _claim(
        name="dapo_p6",
        where="section 2.3, P6 (cost of the bonus)",
        statement="The value of the acting policy for the bonus is at most 3 gamma H^2 S A.",
        left=_p6_value,
        right=_p6_bound,
        kind="<=",
    ),
    _claim(
        name="bonus_identity",
        where="section 2.3 BONUS and section 6, L8",
        statement="sum_h E_{mu*}<pi - pi*, B> = V^pi(b) - V^{pi*}(b).",
        left=_l8_left,
        right=_l8_right,
        kind="==",
    ),
    _claim(
        name="dilated_bonus_identity",
        paper="Luo, Wei, Lee, NeurIPS 2021",
        where="section 6, L8 (dilated)",
        statement="For B = b + (1 + 1/H) p<pi, B>: sum_h E_{mu*}[<pi - pi*, B> + b + <pi, B> / H] = (1 + 1/H) V^B.",
        left=_l8_dilated_left,
        right=_l8_dilated_right,
        kind="==",
    ),
    _claim(
        name="dilated_bonus",
        paper="Luo, Wei, Lee, NeurIPS 2021",
        where="section 6, L8 (dilated)",
        statement="For B = b + (1 + 1/H) p<pi, B>: (1 + 1/H) V^B is at most e V^pi(b).",
        left=_l8_dilated_right,
        right=_l8_dilated_bound,
        kind="<=",
    ),
)
