"""Optimistic learners once more: one run, loops and dictionaries only. Written from their papers' boxes.

None of the package's kernels, counts or learners is used.
"""

from __future__ import annotations

import math
from collections import defaultdict

import numpy as np

from tests.reference_loop import FEEDBACK, TRAJECTORY, draw, expected_loss, philox


class Memory:
    """Counts and loss sums of one run, by (h, s, a) and (h, s, a, next state)."""

    def __init__(self, shape):
        self.shape = shape
        self.visits, self.next = defaultdict(int), defaultdict(int)
        self.losses, self.heard = defaultdict(float), defaultdict(int)

    def take(self, seen, arrived):
        for j in seen:
            for h, (s, a) in enumerate(j["path"]):
                self.visits[h, s, a] += 1
                if h + 1 < len(j["path"]):
                    self.next[h, s, a, j["path"][h + 1][0]] += 1
        for j in arrived:
            for h, (s, a) in enumerate(j["path"]):
                self.losses[h, s, a] += j["observed"][h]
                self.heard[h, s, a] += 1

    def mean_loss(self, h, s, a):
        return self.losses[h, s, a] / max(1, self.heard[h, s, a])

    def backup(self, h, s, a, values):
        S = self.shape[1]
        return sum(self.next[h, s, a, x] * values[x] for x in range(S)) / max(1, self.visits[h, s, a])


def greedy(q, sign):
    """Return the policy of the least (sign 1) or the greatest (-1) values in q, the lowest action among equals."""
    H, S, A = q.shape
    policy = np.zeros(q.shape)
    for h in range(H):
        for s in range(S):
            best = min(range(A), key=lambda a: (sign * q[h, s, a], a))
            policy[h, s, best] = 1.0
    return policy


class SlowMirrorDescent:
    """POMD for stochastic losses, or OPPO with full information."""

    def __init__(self, shape, K, delta, scale, eta, full=False):
        self.memory, self.policy = Memory(shape), np.full(shape, 1 / shape[2])
        self.K, self.delta, self.scale, self.eta, self.full = K, delta / 3, scale, eta, full
        self.log_weights = np.zeros(shape)

    def evaluate(self, losses, policy):
        H, S, A = self.memory.shape
        T = self.K * H
        q, values = np.zeros((H, S, A)), [0.0] * S
        for h in reversed(range(H)):
            for s in range(S):
                for a in range(A):
                    n = max(1, self.memory.visits[h, s, a])
                    bonus = H * math.sqrt(4 * S * math.log(3 * S * A * H * T / self.delta) / n)
                    if not self.full:
                        n = max(1, self.memory.heard[h, s, a])
                        bonus += math.sqrt(2 * math.log(2 * S * A * H * T / self.delta) / n)
                    backed = self.memory.backup(h, s, a, values)
                    q[h, s, a] = max(0.0, losses(h, s, a) - self.scale * bonus + backed)
            values = [sum(policy[h, s, a] * q[h, s, a] for a in range(A)) for s in range(S)]
        return q

    def learn(self, k, seen, arrived):
        if self.full:
            steps = [self.evaluate(lambda h, s, a, j=j: j["losses"][h, s, a], j["policy"]) for j in arrived]
        else:
            steps = [self.evaluate(self.memory.mean_loss, self.policy)]
        self.log_weights = self.log_weights - self.eta * sum(steps, np.zeros(self.policy.shape))
        weights = np.exp(self.log_weights - self.log_weights.max(2, keepdims=True))
        self.policy = weights / weights.sum(2, keepdims=True)
        self.memory.take(seen, arrived)


class SlowUCBVI:
    def __init__(self, shape, K, delta, scale, bonus, known=False):
        H, S, A = shape
        self.memory, self.q = Memory(shape), np.full(shape, float(H))
        self.policy, self.table = greedy(self.q, -1), None
        self.scale, self.kind, self.known = scale, bonus, known
        self.L = math.log(5 * (H * S) * A * (H * K) / delta)

    def bonus(self, h, s, a, values):
        H, S, A = self.memory.shape
        n, L = self.memory.visits[h, s, a], self.L
        extra = 0.0 if self.known else math.sqrt(2 * L / max(1, self.memory.heard[h, s, a]))
        if self.kind == "hoeffding":
            return extra + 7 * H * L * math.sqrt(1 / n)
        mean, variance, gap = self.memory.backup(h, s, a, values), 0.0, 0.0
        for x in range(S):
            share = self.memory.next[h, s, a, x] / n
            if share > 0:
                variance += share * (values[x] - mean) ** 2
                came = sum(self.memory.visits[h + 1, x, b] for b in range(A))
                gap += share * min(100**2 * H**3 * (H * S) ** 2 * A * L**2 / came, H**2)
        return extra + math.sqrt(8 * L * variance / n) + 14 * H * L / (3 * n) + math.sqrt(8 * gap / n)

    def learn(self, k, seen, arrived):
        self.memory.take(seen, arrived)
        if not seen and not arrived:
            return
        if arrived:
            self.table = arrived[-1]["losses"]
        H, S, A = self.memory.shape
        q, values = np.zeros((H, S, A)), [0.0] * S
        for h in reversed(range(H)):
            for s in range(S):
                for a in range(A):
                    q[h, s, a] = H
                    if self.memory.visits[h, s, a] > 0:
                        loss = self.memory.mean_loss(h, s, a)
                        if self.known:
                            loss = 0.0 if self.table is None else self.table[h, s, a]
                        upper = 1 - loss + self.memory.backup(h, s, a, values)
                        upper += self.scale * self.bonus(h, s, a, values)
                        q[h, s, a] = min(self.q[h, s, a], H, upper)
            values = [max(q[h, s]) for s in range(S)]
        self.q, self.policy = q, greedy(q, -1)


class SlowUCRL2:
    def __init__(self, shape, K, delta, scale):
        self.memory, self.q = Memory(shape), np.zeros(shape)
        self.policy, self.delta, self.scale = greedy(self.q, 1), delta, scale
        self.before = defaultdict(int), defaultdict(int)  # visits and losses heard at the start of the epoch
        self.n_epochs = 0

    def learn(self, k, seen, arrived):
        self.memory.take(seen, arrived)
        now = self.memory.visits, self.memory.heard
        if any(n >= max(1, 2 * old[key]) for new, old in zip(now, self.before, strict=True) for key, n in new.items()):
            self.before = tuple(defaultdict(int, counts) for counts in now)
            self.n_epochs += 1
            self.plan(len(next(iter(seen or arrived))["path"]) * (k + 1) + 1)

    def plan(self, t):
        H, S, A = self.memory.shape
        q, values = np.zeros((H, S, A)), [0.0] * S
        for h in reversed(range(H)):
            for s in range(S):
                for a in range(A):
                    heard, n = max(1, self.memory.heard[h, s, a]), max(1, self.memory.visits[h, s, a])
                    width = self.scale * math.sqrt(7 * math.log(2 * S * A * t / self.delta) / (2 * heard))
                    radius = self.scale * math.sqrt(14 * S * math.log(2 * A * t / self.delta) / n)
                    loss = max(0.0, self.memory.mean_loss(h, s, a) - width)
                    q[h, s, a] = loss + self.least(h, s, a, values, radius)
            values = [min(q[h, s]) for s in range(S)]
        self.q, self.policy = q, greedy(q, 1)

    def least(self, h, s, a, values, radius):
        """The inner minimum as the paper moves the mass: more on the best state, then less on the worst ones."""
        S, n = self.memory.shape[1], self.memory.visits[h, s, a]
        if h + 1 == self.memory.shape[0]:
            return 0.0
        if n == 0:
            return min(values)
        p = [self.memory.next[h, s, a, x] / n for x in range(S)]
        order = sorted(range(S), key=lambda x: values[x])
        p[order[0]] = min(1.0, p[order[0]] + radius / 2)
        for x in reversed(order):
            p[x] = max(0.0, p[x] - max(0.0, sum(p) - 1))
        return sum(p[x] * values[x] for x in range(S))


def play(transitions, initial, losses, delays, learner, seed, run, delayed=False, bernoulli=False):
    """Return the expected loss of each episode, (K,).

    ``learner.learn(k, seen, arrived)`` gets dictionaries with an episode's ``path`` of pairs (s, a), ``observed``
    losses, all ``losses`` and ``policy``.
    """
    K, H, _, _ = losses.shape
    uniforms = philox(seed, TRAJECTORY, run).random((K, 2 * H))
    noise = philox(seed, FEEDBACK, run).random((K, H))
    played, expected = [], []
    for k in range(K):
        policy, path, observed, distribution = learner.policy, [], [], initial
        for h in range(H):
            s = draw(distribution, uniforms[k, 2 * h])
            a = draw(policy[h, s], uniforms[k, 2 * h + 1])
            mean = losses[k, h, s, a]
            path.append((s, a))
            observed.append(float(noise[k, h] < mean) if bernoulli else mean)
            distribution = transitions[h, s, a]
        played.append({"path": path, "observed": observed, "losses": losses[k], "policy": policy})
        expected.append(expected_loss(transitions, initial, policy, losses[k]))
        arrived = [played[j] for j in range(k + 1) if j + delays[j] == k]
        learner.learn(k, arrived if delayed else played[-1:], arrived)
    return np.array(expected)
