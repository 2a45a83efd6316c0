"""Best-of-both-worlds policy optimization once more: one run, one state after the other, leaders by Brent's method.

Written from section 2 of the specification, to hold the simulation against. None of the package's kernels, leaders,
confidence sets or models is used.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import brentq

from tests.reference_loop import TRAJECTORY, draw, expected_loss, occupancy, philox


def normalised(weight_of, low, high):
    """Return the weights, decreasing in the unknown y from low to high, that sum to 1."""
    if math.fsum(weight_of(low)) <= 1:
        return weight_of(low)
    y = brentq(lambda y: math.fsum(weight_of(y)) - 1, low, high * (1 + 1e-12), xtol=1e-300, rtol=1e-15)
    return weight_of(y)


@dataclass
class Rates:
    """What the three have in common. ``initial`` is c_0 = 1/eta_0; ``scale`` multiplies the bonus."""

    sizes: tuple[int, int, int]
    n_episodes: int
    initial: float
    scale: float
    theory: bool = True
    paper: bool = False  # rates that end at w_{t-1}

    def virtual(self, d):
        """Return the bonus (H, S) of a virtual episode, or None."""


@dataclass
class Tsallis(Rates):
    c1: float = 2.0

    def __post_init__(self):
        self.sums = np.zeros(self.sizes[:2])  # X_t
        self.inverse = np.full(self.sizes[:2], self.initial)  # 1/eta of the last leaders

    def of(self, total):
        return self.initial + self.c1 * self.sizes[0] * math.sqrt(total)

    def leader(self, h, s, L, w):
        self.inverse[h, s] = self.of(self.sums[h, s] + (0 if self.paper else w))
        b, n = self.inverse[h, s], len(L)
        if b == 0:
            return [1 / n] * n
        least = min(L)
        return normalised(lambda y: [(b / (x - least + y)) ** 2 for x in L], b, b * math.sqrt(n))

    def bonus(self, h, s, p, w):
        H, _, A = self.sizes
        before = self.of(self.sums[h, s])
        self.sums[h, s] += w
        after = self.of(self.sums[h, s])
        eta = 1 / (before if self.paper else after) if (before if self.paper else after) else 0.0
        xi = sum(math.sqrt(x) * (1 - x) for x in p)
        spread, overflow = (2 + 8 / self.c1**2, 4 / self.c1**2) if self.theory else (1, 0.25)
        return self.scale * (after - before) * (spread * xi + overflow * math.sqrt(A) * (eta * w > 1 / (4 * H)))

    def condition(self, h, s, p):
        inverse = self.inverse[h, s]
        return [4 * self.sizes[0] * math.sqrt(x) / inverse if inverse else 0.0 for x in p]


@dataclass
class Shannon(Rates):
    kappa: float = 1.0
    log_term: float = 1.0

    def __post_init__(self):
        self.Y, self.M = np.zeros(self.sizes[:2]), np.zeros(self.sizes[:2])
        self.beta = np.full(self.sizes[:2], self.initial)  # of the last episode (paper: of the one to come)
        self.inverse = self.beta.copy()  # of the last leaders

    def increase(self, Y, M, w):
        return self.kappa * w / math.sqrt(Y + M) if w else 0.0

    def largest(self, h, s, w):
        return max(self.M[h, s], math.log(self.sizes[2]) * w)

    def leader(self, h, s, L, w):
        step = 0 if self.paper else self.increase(self.Y[h, s], self.largest(h, s, w), w)
        self.inverse[h, s] = b = self.beta[h, s] + step
        return [1 / math.fsum(math.exp(min((x - y) / b, 700)) for y in L) if b else 1 / len(L) for x in L]

    def bonus(self, h, s, p, w):
        H, _, A = self.sizes
        entropy = -sum(x * math.log(x) for x in p if x)
        root = math.sqrt(self.Y[h, s] + self.M[h, s])
        self.M[h, s] = self.largest(h, s, w)
        step = self.increase(self.Y[h, s], self.M[h, s], w)
        self.Y[h, s] += entropy * w
        if self.paper:
            step = self.increase(self.Y[h, s], self.M[h, s], w)
        self.beta[h, s] += step
        stability = H**2 * A * self.log_term / self.kappa if self.theory else self.kappa
        return self.scale * (step * entropy + stability * (math.sqrt(self.Y[h, s] + self.M[h, s]) - root))

    def condition(self, h, s, p):
        return [2 * self.sizes[0] / self.inverse[h, s] if self.inverse[h, s] else 0.0] * len(p)


@dataclass
class LogBarrier(Rates):
    has_virtual: bool = False
    n_virtual: int = field(default=0, init=False)

    def __post_init__(self):
        self.v = np.full(self.sizes, float(self.initial))  # 1/eta(s, a)
        self.inverse = self.v.copy()
        self.log_episodes = math.log(self.n_episodes)
        self.log_comparator = math.log(self.n_episodes * (self.sizes[2] if self.theory else 1))

    def leader(self, h, s, L, w):
        v = self.inverse[h, s] = self.v[h, s].copy()
        gaps = [x - min(L) for x in L]
        low = max(b - g for b, g in zip(v, gaps, strict=True))
        return normalised(lambda y: [b / (g + y) for b, g in zip(v, gaps, strict=True)], low, sum(v))

    def bonus(self, h, s, p, w):
        return 0.0

    def observed(self, states, actions, to_go, policy, d):
        """Return b_t^reg (H, S) of a trajectory."""
        H, S, A = self.sizes
        b = np.zeros((H, S))
        for h, s in enumerate(states):
            for a in range(A):
                zeta = ((a == actions[h]) - policy[h, s, a]) ** 2 * to_go[h] ** 2
                step = zeta / self.v[h, s, a] / (d[h, s] ** 2 * self.log_episodes)
                self.v[h, s, a] += step
                b[h, s] += self.scale * self.log_comparator * step
        return b

    def virtual(self, d):
        if not self.has_virtual:
            return None
        H, S, A = self.sizes
        ratios = {(h, s, a): 1 / (self.v[h, s, a] * d[h, s]) for h, s, a in np.ndindex(H, S, A)}
        place = max(ratios, key=ratios.get)  # the first of the largest
        if ratios[place] <= 1 / (21 * H**2):
            return None
        self.n_virtual += 1
        step = self.v[place] / (66 * H * self.log_episodes)
        self.v[place] += step
        b = np.zeros((H, S))
        b[place[:2]] = 3 * self.log_comparator * step
        return b

    def condition(self, h, s, p):
        return [2 * self.sizes[0] * x / v for x, v in zip(p, self.inverse[h, s], strict=True)]


class Known:
    """The true transitions, with the methods of :class:`tests.reference_unknown.Sets`."""

    def __init__(self, transitions):
        self.transitions = transitions

    def reach(self, initial, policy, sign):
        return occupancy(self.transitions, initial, policy)

    def q_values(self, losses, policy, sign, dilation):
        H, S, A = policy.shape
        q, values = np.zeros((H, S, A)), np.zeros(S)
        for h in reversed(range(H)):
            for s, a in np.ndindex(S, A):
                q[h, s, a] = losses[h, s, a] + (1 + dilation) * sum(self.transitions[h, s, a] * values)
            values = np.array([sum(policy[h, s] * q[h, s]) for s in range(S)])
        return q

    def count(self, trajectories):
        pass


@dataclass
class Played:
    """The policies (K, H, S, A), the expected losses (K,), the largest value of condition CB, the cumulative L."""

    policies: np.ndarray
    expected: np.ndarray
    largest: float
    L: np.ndarray


def play(mdp, losses, delays, rates, c, seed, run, *, sets=None, bias_scale=1.0, adapt=True, counts="immediate"):
    """Play one run, with ``gamma_t = c / (c + t)``, and the transitions known unless there are sets."""
    K, H, S, A = losses.shape
    sets = Known(mdp.transitions) if sets is None else sets
    uniforms = philox(seed, TRAJECTORY, run).random((K, 2 * H))
    L, largest = np.zeros((H, S, A)), 0.0
    played, policies = [], []

    def leaders(gamma):
        policy, d, w = np.zeros((H, S, A)), np.zeros((H, S)), np.zeros((H, S))
        upper, lower = np.zeros((H, S)), np.zeros((H, S))
        for h in range(H):
            upper[h], lower[h] = (sets.reach(mdp.initial, policy, sign)[h] for sign in (1, -1))
            for s in range(S):
                d[h, s] = upper[h, s] + gamma
                w[h, s] = 1 / d[h, s] if d[h, s] else 0
                policy[h, s] = rates.leader(h, s, L[h, s], w[h, s])
        return policy, d, w, upper, lower

    def bear(policy, B):
        condition = [rates.condition(h, s, policy[h, s]) * B[h, s] for h, s in np.ndindex(H, S)]
        return max(largest, np.max(condition))

    for k in range(K):
        gamma = c / (c + k + 1)
        policy, d, w, upper, lower = leaders(gamma)
        while (b := rates.virtual(d)) is not None:
            B = sets.q_values(np.repeat(b[:, :, None], A, axis=2), policy, 1, 1 / H)
            largest, L = bear(policy, B), L - B
            policy, d, w, upper, lower = leaders(gamma)
        b, states, actions, observed = np.zeros((H, S, A)), [], [], []
        distribution = mdp.initial
        for h, s, a in np.ndindex(H, S, A):
            b[h, s, a] = rates.bonus(h, s, policy[h, s], w[h, s]) if a == 0 else b[h, s, 0]
        for h, s, a in np.ndindex(H, S, A):
            width = upper[h, s] - lower[h, s] + gamma
            b[h, s, a] += bias_scale * (H - h) * (1 - policy[h, s, a]) * width / d[h, s] if d[h, s] else 0
        for h in range(H):
            states.append(draw(distribution, uniforms[k, 2 * h]))
            actions.append(draw(policy[h, states[h]], uniforms[k, 2 * h + 1]))
            observed.append(losses[k, h, states[h], actions[h]])
            distribution = mdp.transitions[h, states[h], actions[h]]
        policies.append(policy)
        played.append((policy, d, b, copy.deepcopy(sets), states, actions, observed))
        arriving = [played[j] for j in range(k + 1) if j + delays[j] == k]
        for pi, d_j, b_j, sets_j, s_j, a_j, l_j in arriving:
            to_go = [math.fsum(l_j[h:]) for h in range(H)]
            if isinstance(rates, LogBarrier):
                b_j = b_j + rates.observed(s_j, a_j, to_go, pi, d_j)[:, :, None]
            B = sets_j.q_values(b_j, pi, 1, 1 / H)
            largest = bear(policy, B)
            L = L - B
            for h, (s, a) in enumerate(zip(s_j, a_j, strict=True)):
                ratio = pi[h, s, a] / max(pi[h, s, a], policy[h, s, a]) if adapt else 1
                L[h, s, a] += ratio * to_go[h] / (d_j[h, s] * pi[h, s, a])
        counted = arriving if counts == "lagged" else played[-1:]
        sets.count([(one[4], one[5]) for one in counted])
    expected = [expected_loss(mdp.transitions, mdp.initial, pi, losses[k]) for k, pi in enumerate(policies)]
    return Played(np.array(policies), np.array(expected), largest, L)
