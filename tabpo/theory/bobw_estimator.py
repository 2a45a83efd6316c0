"""Claims of best of both worlds about the estimator, L4, its bias, L5, and the part of the bonus that pays for it."""

from __future__ import annotations

from functools import partial

import numpy as np

from tabpo.theory.bobw_common import (
    PAPER,
    Episode,
    confidence_set,
    distributions,
    exploration,
    model,
    others,
    q_values,
    quotient,
    relative,
    sizes,
    state_occupancy,
    steps_left,
    with_bounds,
)
from tabpo.theory.claims import Claim, Floats, Instance


def xi(policy: Floats) -> Floats:
    """Return ``sum_a sqrt(pi) (1 - pi)`` over the last axis."""
    return np.asarray((np.sqrt(policy) * others(policy)).sum(-1))


def bias_bonus(policy: Floats, upper: Floats, lower: Floats, gamma: float) -> Floats:
    """Return b^bias (H, S, A) of section 2.3: ``(H - h) (1 - pi) (upper - lower + gamma) / (upper + gamma)``."""
    share = quotient(upper - lower + gamma, upper + gamma)
    return np.asarray((steps_left(len(policy)) * share)[:, :, None] * others(policy))


# L4: the moments of Qhat = 1{s, a} L / (d pi), d = upper + gamma, over all trajectories


def _episode(rng: np.random.Generator, zeros: bool = True) -> Instance:
    """Return a model, a policy, and denominators d (H, S) of at least the occupancy; 0 only where that is."""
    H, S, A = sizes(rng)
    i = {**model(rng, H, S, A), "policy": distributions(rng, (H, S), A, zeros)}
    mu = state_occupancy(i)
    upper = mu + float(rng.choice([0.0, rng.random()])) * (1 - mu) * rng.random((H, S))
    return {**i, "denominator": upper + exploration(rng)}


def _inverse(x: Floats) -> Floats:
    """Return 1 / x, and 0 for 0: where the estimator's denominator is 0 there is no trajectory."""
    return np.divide(1.0, x, out=np.zeros(x.shape), where=x > 0)


class _Moments:
    """Expectations over all trajectories, (H, S, ...)."""

    def __init__(self, i: Instance) -> None:
        self.episode = Episode.of(i)
        _, self.S, A = i["policy"].shape
        at = (np.arange(len(i["policy"]))[:, None], self.episode.states)
        self.policy, self.others = i["policy"][at], others(i["policy"])[at]  # at the visited states, (H, N, A)
        self.played = np.eye(A)[self.episode.actions]
        self.shifted = self.episode.to_go * _inverse(i["denominator"])[at]  # x = L / d at the visited states
        self.centred = np.where(self.played > 0, self.others, -self.policy)  # 1(s, a) - pi(a|s) 1(s)

    def estimate(self) -> Floats:
        """Return E Qhat, shape (H, S, A)."""
        return self._total(self.shifted[..., None] * self.played * _inverse(self.policy))

    def deviation(self) -> Floats:
        """Return E[Qhat - x], shape (H, S, A)."""
        return self.estimate() - self._total(self.shifted)[..., None]

    def zeta(self) -> Floats:
        """Return E zeta, ``zeta = (1(s, a) - pi 1(s))^2 L^2``, shape (H, S, A)."""
        return self._total(self.centred**2 * self.episode.to_go[..., None] ** 2)

    def tsallis(self) -> Floats:
        """Return ``E sum_a pi^(3/2) (Qhat - x)^2``, shape (H, S)."""
        return self._total(self.shifted**2 * (self.centred**2 * np.sqrt(_inverse(self.policy))).sum(-1))

    def shannon(self) -> Floats:
        """Return ``E sum_a pi Qhat^2``, shape (H, S)."""
        return self._total(self.shifted**2 * (self.played * _inverse(self.policy)).sum(-1))

    def _total(self, values: Floats) -> Floats:
        return self.episode.total(values, self.S)


def _means(i: Instance) -> Floats:
    moments = _Moments(i)
    return np.stack([moments.estimate(), moments.deviation()])


def _stated_means(i: Instance) -> Floats:
    q = q_values(i)
    seen = (state_occupancy(i) * _inverse(i["denominator"]))[:, :, None]
    return np.stack([seen * q, seen * (q - (i["policy"] * q).sum(2, keepdims=True))])


def _zeta_bound(i: Instance) -> Floats:
    pi = i["policy"]
    return np.asarray((steps_left(len(pi)) ** 2 * state_occupancy(i))[..., None] * pi * others(pi))


def _square_bound(i: Instance) -> Floats:
    """Return ``(H - h)^2 mu / d^2``."""
    return np.asarray(steps_left(len(i["policy"])) ** 2 * state_occupancy(i) * _inverse(i["denominator"]) ** 2)


# L5, and the bonus for it


def _bias(rng: np.random.Generator) -> Instance:
    A, most = int(rng.integers(1, 7)), float(rng.integers(1, 11))
    policy, other = distributions(rng, (2,), A, zeros=True)
    share = (rng.random(A), (policy > other).astype(np.float64))[rng.integers(2)]
    return {"policy": policy, "other": other, "most": most, "values": most * share}


def _set_episode(rng: np.random.Generator) -> Instance:
    """Return a model within a set, its occupancy bounds, a policy, a comparator and gamma > 0."""
    H, S, A = sizes(rng)
    i = {**confidence_set(rng, H, S, A), "policy": distributions(rng, (H, S), A, zeros=True)}
    i = with_bounds({**i, "other": distributions(rng, (H, S), A, zeros=True)})
    gamma = exploration(rng, zero=False)
    return {**i, "exploration": gamma, "denominator": i["upper"] + gamma}


def _bonus(i: Instance) -> Floats:
    return bias_bonus(i["policy"], i["upper"], i["lower"], i["exploration"])


def _underestimate(i: Instance) -> Floats:
    """Return ``<pi - u, Q - E Qhat>``, shape (H, S)."""
    return np.asarray(((i["policy"] - i["other"]) * (q_values(i) - _Moments(i).estimate())).sum(2))


def _cost_against_any_action(i: Instance) -> Floats:
    """Return ``2 (H - h) (upper - lower + gamma) / d (1 - pi(a'|s))`` for every a', shape (H, S, A)."""
    share = (i["upper"] - i["lower"] + i["exploration"]) / i["denominator"]
    return np.asarray(2 * (steps_left(len(share)) * share)[:, :, None] * others(i["policy"]))


_claim = partial(Claim, paper=PAPER, tolerance=1e-12, reason="sums of at most 300 products, in the size of the sides")
_SAME_SIGN = "the quotient of sums of at most 300 terms of one sign, each a few dozen roundings off"

CLAIMS = (
    _claim(
        name="bobw_estimator",
        where="best of both worlds, section 5, L4",
        statement="If pi > 0: E Qhat = (mu/d) Q and E[Qhat - x] = (mu/d) (Q - V), x = 1(s) L / d, by all trajectories.",
        draw=partial(_episode, zeros=False),
        left=_means,
        right=_stated_means,
        kind="==",
    ),
    _claim(
        name="bobw_zeta",
        where="best of both worlds, section 5, L4",
        statement="E zeta(s, a) over its bound (H - h)^2 mu pi (1 - pi) is at most 1.",
        draw=_episode,
        **relative(lambda i: (_Moments(i).zeta(), _zeta_bound(i))),
        kind="<=",
        reason=_SAME_SIGN,
    ),
    _claim(
        name="bobw_tsallis_variance",
        where="best of both worlds, section 5, L4",
        statement="E sum_a pi^(3/2) (Qhat - x)^2 over its bound (H - h)^2 (mu/d^2) xi is at most 1.",
        draw=_episode,
        **relative(lambda i: (_Moments(i).tsallis(), _square_bound(i) * xi(i["policy"]))),
        kind="<=",
        reason=_SAME_SIGN,
    ),
    _claim(
        name="bobw_shannon_variance",
        where="best of both worlds, section 5, L4",
        statement="E sum_a pi Qhat^2 over its bound (H - h)^2 A mu / d^2 is at most 1.",
        draw=_episode,
        **relative(lambda i: (_Moments(i).shannon(), _square_bound(i) * i["policy"].shape[2])),
        kind="<=",
        reason=_SAME_SIGN,
    ),
    _claim(
        name="bobw_bias",
        where="best of both worlds, section 5, L5",
        statement="sum_a (pi - u)(a) Q(a) <= (H - h) sum_a u(a) (1 - pi(a)) for 0 <= Q <= H - h.",
        draw=_bias,
        left=lambda i: float((i["policy"] - i["other"]) @ i["values"]),
        right=lambda i: float(i["most"] * (i["other"] @ others(i["policy"]))),
        kind="<=",
    ),
    _claim(
        name="bobw_bias_bonus",
        where="best of both worlds, section 2.3",
        statement="sum_a (pi - u) (Q - E Qhat) <= <u, b^bias> at every state, for transitions in the set.",
        draw=_set_episode,
        left=_underestimate,
        right=lambda i: (i["other"] * _bonus(i)).sum(2),
        kind="<=",
    ),
    _claim(
        name="bobw_bias_bonus_cost",
        where="best of both worlds, section 2.3",
        statement=(
            "<pi, b^bias> over 2 (H - h) (upper - lower + gamma) / d (1 - pi(a')) is at most 1 for any action a': "
            "what the bonus costs is self-bounding."
        ),
        draw=_set_episode,
        **relative(lambda i: ((i["policy"] * _bonus(i)).sum(2, keepdims=True), _cost_against_any_action(i))),
        kind="<=",
        reason=_SAME_SIGN,
    ),
)
