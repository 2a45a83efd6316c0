"""DAPO and its relatives with unknown transitions once more: one run, loops and NumPy only, every set kept as a copy.

Written from sections 3.1-3.3, 8a and 8c of the DAPO specification, to hold the simulation against. None of the
package's kernels, confidence sets or models is used.
"""

from __future__ import annotations

import copy
import math

import numpy as np

from tests.reference_loop import TRAJECTORY, draw, expected_loss, philox


class Sets:
    """Counts of one run and the boxes [low, high] (H, S, A, S) around them; ``radius`` is (root, linear, iota)."""

    def __init__(self, H, S, A, radius, width_scale, refresh):
        self.radius, self.width_scale, self.refresh = radius, width_scale, refresh
        self.visits, self.next = np.zeros((H, S, A)), np.zeros((H, S, A, S))
        self.at_epoch = np.zeros((H, S, A))
        self.low, self.high = np.zeros((H, S, A, S)), np.ones((H, S, A, S))
        self.take_boxes()

    def take_boxes(self):
        root, linear, iota = self.radius
        for index in np.ndindex(self.visits.shape):
            followed = self.next[index].sum()
            n = max(self.visits[index], 1) if followed else 1  # the last step's rows are never read
            for x in range(self.next.shape[-1]):
                centre = self.next[(*index, x)] / followed if followed else 1 / self.next.shape[-1]
                width = self.width_scale * (root * math.sqrt(centre * iota / n) + linear * iota / n)
                self.low[(*index, x)], self.high[(*index, x)] = max(centre - width, 0), min(centre + width, 1)

    def count(self, trajectories):
        over = False
        for states, actions in trajectories:
            for h, (s, a) in enumerate(zip(states, actions, strict=True)):
                self.visits[h, s, a] += 1
                if h + 1 < len(states):
                    self.next[h, s, a, states[h + 1]] += 1
                over |= self.visits[h, s, a] >= max(1, 2 * self.at_epoch[h, s, a])
        if over:
            self.at_epoch = self.visits.copy()
        if over or (trajectories and self.refresh == "episode"):
            self.take_boxes()

    def extreme(self, h, s, a, values, sign):
        """Return the greatest (sign 1) or the least (-1) expectation of values (S,) over row (h, s, a)."""
        q = self.low[h, s, a].copy()
        left = 1 - q.sum()
        for x in np.argsort(-sign * values, kind="stable"):
            added = min(self.high[h, s, a, x] - q[x], left)
            q[x] += added
            left -= added
        return float(q @ values)

    def reach(self, initial, policy, sign):
        """Return the greatest or the least Pr[s_h = s], (H, S)."""
        H, S, A = policy.shape
        result = np.zeros((H, S))
        for h, s in np.ndindex(H, S):
            values = np.eye(S)[s]
            for i in reversed(range(h)):
                values = np.array(
                    [sum(policy[i, x, a] * self.extreme(i, x, a, values, sign) for a in range(A)) for x in range(S)]
                )
            result[h, s] = initial @ values
        return result

    def q_values(self, losses, policy, sign, dilation=0.0):
        """Return losses (H, S, A) plus the extreme expectation of the next value, step by step."""
        H, S, A = policy.shape
        q, values = np.zeros((H, S, A)), np.zeros(S)
        for h in reversed(range(H)):
            for s, a in np.ndindex(S, A):
                backed_up = self.extreme(h, s, a, values, sign) if h + 1 < H else 0.0
                q[h, s, a] = losses[h, s, a] + (1 + dilation) * backed_up
            values = (policy[h] * q[h]).sum(1)
        return q


def play(transitions, initial, losses, delays, term, sets, eta, seed, run, counts="immediate"):
    """Return the expected loss of each episode (K,), and the last policy.

    ``term(j, sigma, now)`` returns the gradient of feedback j, a dict with the episode's ``policy``, ``sets`` (a copy),
    ``states``, ``actions`` and ``observed`` losses; ``now`` are the sets in force at its arrival.
    """
    K, H, S, A = losses.shape
    uniforms = philox(seed, TRAJECTORY, run).random((K, 2 * H))
    log_weights = np.zeros((H, S, A))
    played, expected = [], []
    for k in range(K):
        weights = np.exp(log_weights - log_weights.max(2, keepdims=True))
        policy = weights / weights.sum(2, keepdims=True)
        states, actions, observed = [], [], []
        distribution = initial
        for h in range(H):
            states.append(draw(distribution, uniforms[k, 2 * h]))
            actions.append(draw(policy[h, states[h]], uniforms[k, 2 * h + 1]))
            observed.append(losses[k, h, states[h], actions[h]])
            distribution = transitions[h, states[h], actions[h]]
        played.append(
            {
                "policy": policy,
                "sets": copy.deepcopy(sets),
                "states": states,
                "actions": actions,
                "observed": observed,
                "losses": losses[k],
            }
        )
        expected.append(expected_loss(transitions, initial, policy, losses[k]))
        arriving = [played[j] for j in range(k + 1) if j + delays[j] == k]
        log_weights = log_weights - eta * sum((term(j, policy, sets) for j in arriving), np.zeros((H, S, A)))
        counted = arriving if counts == "lagged" else played[-1:]
        sets.count([(j["states"], j["actions"]) for j in counted])
    return np.array(expected), policy


def dapo_term(
    initial, gamma, bonus_scale, bias_scale, adapt=True, dilation=0.0, sets_of="acting", below="upper", width=True
):
    """Return the function of a feedback that gives Qhat^j - B^j; the last three arguments plant errors."""

    def term(j, sigma, now):
        pi, sets = j["policy"], j["sets"]
        H, S, A = pi.shape
        upper, lower = sets.reach(initial, pi, 1), sets.reach(initial, pi, -1)
        bound = upper if below == "upper" else lower
        bonus = np.zeros((H, S, A))
        ratio = np.ones((H, S, A))
        for h, s, a in np.ndindex(H, S, A):
            if adapt:
                ratio[h, s, a] = pi[h, s, a] / max(pi[h, s, a], sigma[h, s, a])
            weight = 3 * gamma * H
            if width:
                weight += bias_scale * H * pi[h, s, a] * (upper[h, s] - lower[h, s])
            share = sigma[h, s, a] * ratio[h, s, a] / (bound[h, s] * pi[h, s, a] + gamma)
            bonus[h, s, :] += bonus_scale * share * weight
        backup = {"acting": sets, "arrival": now}[sets_of]
        gradient = -backup.q_values(bonus, pi, 1, dilation)
        for h, (s, a) in enumerate(zip(j["states"], j["actions"], strict=True)):
            gradient[h, s, a] += ratio[h, s, a] * sum(j["observed"][h:]) / (bound[h, s] * pi[h, s, a] + gamma)
        return gradient

    return term


def d_oppo_term(initial, gamma, full=False):
    """Return the function of a feedback that gives D-OPPO's optimistic action values."""

    def term(j, sigma, now):
        pi = j["policy"]
        losses = j["losses"]
        if not full:
            upper = j["sets"].reach(initial, pi, 1)
            losses = np.zeros(pi.shape)
            for h, (s, a) in enumerate(zip(j["states"], j["actions"], strict=True)):
                losses[h, s, a] = j["observed"][h] / (upper[h, s] * pi[h, s, a] + gamma)
        return now.q_values(losses, pi, -1)

    return term
