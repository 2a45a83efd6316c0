"""Lemmas that DAPO's analysis rests on: value difference, delay combinatorics, Hedge, stability of a step."""

from __future__ import annotations

from functools import partial

import numpy as np

from tabpo import kernels, planning
from tabpo.theory.claims import Claim, Floats, Instance
from tabpo.theory.instances import delays, distributions, log_uniform, model, policy, sizes

DAPO_PAPER = "Lancewicki, Rosenberg, Sotnikov, ICML 2023"
CFPO_PAPER = "Cassel, Rosenberg, NeurIPS 2024"
WHOLE = "whole numbers: no rounding"


def _values(i: Instance, losses: str, name: str) -> tuple[Floats, float]:
    """Return a policy's action values and its expected loss."""
    q, values = planning.evaluate(i["transitions"], i[losses], i[name])
    return np.asarray(q), float(i["initial"] @ values[0])


# L1 and L2: value differences


def _two_policies(rng: np.random.Generator) -> Instance:
    """Return a model, whose transitions may leak, two policies and any action values."""
    H, S, A = sizes(rng)
    instance = model(rng, H, S, A)
    if rng.random() < 0.5:
        instance["transitions"] = instance["transitions"] * rng.random((H, S, A, 1))
    arbitrary = rng.normal(size=(H, S, A)) * log_uniform(rng, 0.1, 100.0)
    return {**instance, "policy": policy(rng, H, S, A), "other": policy(rng, H, S, A), "arbitrary": arbitrary}


def _under(i: Instance, name: str, values: Floats) -> float:
    """Return ``E sum_h values_h(s_h)`` under a policy; values (H, S)."""
    mu = planning.state_occupancy(i["transitions"], i["initial"], i[name])
    return float((np.asarray(mu) * values).sum())


def _l1_left(i: Instance) -> float:
    return _values(i, "losses", "policy")[1] - _values(i, "losses", "other")[1]


def _l1_right(i: Instance) -> float:
    q, _ = _values(i, "losses", "policy")
    return _under(i, "other", ((i["policy"] - i["other"]) * q).sum(2))


def _l2_left(i: Instance) -> float:
    estimated = float((i["initial"][:, None] * i["other"][0] * i["arbitrary"][0]).sum())
    return _values(i, "losses", "policy")[1] - estimated


def _l2_right(i: Instance) -> float:
    q, pi, other = i["arbitrary"], i["policy"], i["other"]
    values = np.append((other * q).sum(2), np.zeros((1, q.shape[1])), axis=0)  # Vhat, with Vhat_{H+1} = 0
    residual = i["losses"] + np.einsum("hsap,hp->hsa", i["transitions"], values[1:]) - q
    return _under(i, "policy", ((pi - other) * q).sum(2)) + _under(i, "policy", (pi * residual).sum(2))


# L3: delay combinatorics


def _delays(rng: np.random.Generator) -> Instance:
    return {"delays": delays(rng, int(rng.integers(1, 31)))}


def _overlaps(i: Instance) -> int:
    """Return ``sum_j M_j``, M_j the number of arrivals between the start of episode j and its own arrival."""
    arrival = np.arange(len(i["delays"])) + i["delays"]
    start = np.arange(len(arrival))
    return int(((arrival[:, None] >= start) & (arrival[:, None] < arrival)).sum())


def _arrivals(i: Instance) -> Floats:
    """Return m^k, the number of arrivals at the end of each episode."""
    n_episodes = len(i["delays"])
    return np.bincount(np.arange(n_episodes) + i["delays"], minlength=n_episodes).astype(np.float64)


def _total_delay(i: Instance) -> int:
    return int(i["delays"].sum())


# L4: exponential weights


def _hedge_game(rng: np.random.Generator) -> Instance:
    """Return losses G (K, A) and a step size with ``step_size G >= -1``: small, one-sided, or rare and large."""
    n_rounds, A = int(rng.integers(1, 31)), int(rng.integers(1, 7))
    step_size = log_uniform(rng, 1e-3, 3.0)
    shape = (n_rounds, A)
    kinds = (
        rng.uniform(-1, 1, shape),
        rng.uniform(-1, 10, shape),
        np.where(rng.random(shape) < 0.1, 50.0 * rng.random(shape), -rng.random(shape)),
        -np.ones(shape) * (np.arange(A) == 0),
        rng.normal(size=shape).clip(-1) * 0.05,
    )
    return {"losses": kinds[rng.integers(len(kinds))] / step_size, "step_size": step_size}


def _played(i: Instance) -> Floats:
    """Return the distributions (K, A) of exponential weights."""
    before = np.cumsum(i["losses"], axis=0) - i["losses"]
    exponents = -i["step_size"] * before
    weights = np.exp(exponents - exponents.max(1, keepdims=True))
    return np.asarray(weights / weights.sum(1, keepdims=True))


def _l4_left(i: Instance) -> Floats:
    return np.asarray((_played(i) * i["losses"]).sum() - i["losses"].sum(0))  # against every action


def _l4_right(i: Instance) -> Floats:
    eta, n_actions = i["step_size"], i["losses"].shape[1]
    bound = np.log(n_actions) / eta + eta * float((_played(i) * i["losses"] ** 2).sum())
    return np.full(n_actions, bound)


# L6: stability of one step


def _step(rng: np.random.Generator, least: float = -np.inf) -> Instance:
    """Return a distribution, a gradient of any size and a step size with ``step_size gradient >= least``."""
    A = int(rng.integers(1, 7))
    scale = log_uniform(rng, 1e-3, 10.0)
    kinds = (rng.normal(size=A), rng.random(A), -rng.random(A), rng.normal(size=A) * (rng.random(A) < 0.3))
    step_size = log_uniform(rng, 1e-2, 3.0)
    exponents = (scale * kinds[rng.integers(len(kinds))]).clip(least)
    return {
        "distribution": distributions(rng, (), A),
        "gradient": exponents / step_size,
        "step_size": step_size,
    }


def _moved(i: Instance) -> float:
    """Return the l1 distance of a distribution and the one after the step."""
    with np.errstate(divide="ignore"):
        log_weights = np.log(i["distribution"])
    given = (log_weights[None, None, :, None], i["gradient"][None, None, :, None], np.array([i["step_size"]]))
    _, after = kernels.exponential_weights(*(np.ascontiguousarray(array) for array in given))
    return float(np.abs(np.asarray(after)[0, 0, :, 0] - i["distribution"]).sum())


def _l6_left(i: Instance) -> float:
    return _moved(i) / 2


def _l6_right(i: Instance) -> float:
    gradient = i["gradient"]
    return float(i["step_size"] * (i["distribution"] @ gradient.clip(0) + (-gradient).clip(0).max()))


def _l6_second_order_right(i: Instance) -> float:
    return float(i["step_size"] * np.sqrt(2 * (i["distribution"] @ i["gradient"] ** 2)))


_claim = partial(Claim, paper=DAPO_PAPER, tolerance=1e-10, reason="a few dozen additions, in the size of the sides")

CLAIMS = (
    _claim(
        name="value_difference",
        where="section 6, L1",
        statement="V^pi - V^pi' = sum_h E_{s ~ mu^pi'}<pi - pi', Q^pi>(s).",
        draw=_two_policies,
        left=_l1_left,
        right=_l1_right,
        kind="==",
    ),
    _claim(
        name="extended_value_difference",
        paper=CFPO_PAPER,
        where="lemma 14; section 6, L2",
        statement=(
            "For any Qhat, Vhat = <pihat, Qhat>: V^pi - Vhat = E_pi sum_h (<Qhat, pi - pihat> + c + p Vhat - Qhat), "
            "also for transitions that leak."
        ),
        draw=_two_policies,
        left=_l2_left,
        right=_l2_right,
        kind="==",
    ),
    _claim(
        name="overlaps",
        where="section 6, L3",
        statement="sum_j M_j <= D, where M_j counts the arrivals while episode j's feedback is under way.",
        draw=_delays,
        left=_overlaps,
        right=_total_delay,
        kind="<=",
        tolerance=0.0,
        reason=WHOLE,
    ),
    _claim(
        name="squared_arrivals",
        where="section 6, L3",
        statement="sum_k (m^k)^2 <= K + 2 D, where m^k counts the arrivals at the end of episode k.",
        draw=_delays,
        left=lambda i: float((_arrivals(i) ** 2).sum()),
        right=lambda i: len(i["delays"]) + 2 * _total_delay(i),
        kind="<=",
        tolerance=0.0,
        reason=WHOLE,
    ),
    _claim(
        name="pairs_of_arrivals",
        where="section 6, L3",
        statement="sum_k m^k (m^k - 1) <= 2 D.",
        draw=_delays,
        left=lambda i: float((_arrivals(i) * (_arrivals(i) - 1)).sum()),
        right=lambda i: 2 * _total_delay(i),
        kind="<=",
        tolerance=0.0,
        reason=WHOLE,
    ),
    _claim(
        name="hedge",
        paper=CFPO_PAPER,
        where="lemma 13; section 6, L4",
        statement="If eta G >= -1: sum_k <pi^k - u, G^k> <= ln A / eta + eta sum_k <pi^k, (G^k)^2> for all u.",
        draw=_hedge_game,
        left=_l4_left,
        right=_l4_right,
        kind="<=",
    ),
    _claim(
        name="step_stability",
        where="section 6, L6",
        statement="TV(pi^k, pi^{k+1}) <= eta (<pi^k, G_+> + max_a G_-).",
        draw=_step,
        left=_l6_left,
        right=_l6_right,
        kind="<=",
    ),
    _claim(
        name="step_stability_second_order",
        where="section 6, L6",
        statement="If eta G >= -1: the l1 distance of pi^k and pi^{k+1} is at most eta sqrt(2 <pi^k, G^2>).",
        draw=partial(_step, least=-1.0),
        left=_moved,
        right=_l6_second_order_right,
        kind="<=",
    ),
)
