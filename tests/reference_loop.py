"""DAPO's whole simulation once more, one run, loops and NumPy only: none of the package's kernels, planning or streams.

Written from section 2.2 of the DAPO specification and the rules for random numbers, to hold the simulation against.
"""

from __future__ import annotations

import itertools

import numpy as np

TRAJECTORY, FEEDBACK = 3, 4  # the purposes' numbers in the spawn key


def philox(seed: int, purpose: int, run: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(np.random.SeedSequence(seed, spawn_key=(purpose, run))))


def draw(probabilities: np.ndarray, uniform: float) -> int:
    total = 0.0
    for outcome, probability in enumerate(probabilities):
        total += probability
        if uniform < total:
            return outcome
    return int(np.flatnonzero(probabilities)[-1])


def occupancy(transitions, initial, policy):
    """Return mu (H, S) by pushing the initial distribution through the policy's own transition matrices."""
    mu = [initial]
    for h in range(len(policy) - 1):
        mu.append(mu[-1] @ np.einsum("sa,sap->sp", policy[h], transitions[h]))
    return np.array(mu)


def expected_loss(transitions, initial, policy, losses):
    mu = occupancy(transitions, initial, policy)
    return float(np.einsum("hs,hsa,hsa->", mu, policy, losses))


def deterministic_policies(H, S, A):
    """Yield each of the A^(H S) deterministic policies (H, S, A)."""
    for choice in itertools.product(range(A), repeat=H * S):
        yield np.eye(A)[np.array(choice)].reshape(H, S, A)


def least_loss(transitions, initial, losses):
    """Return the smallest expected loss over all deterministic policies, one by one."""
    policies = deterministic_policies(*losses.shape)
    return min(expected_loss(transitions, initial, policy, losses) for policy in policies)


def play_dapo(transitions, initial, losses, delays, eta, gamma, bonus_scale, seed, run, bernoulli=False):
    """Return the expected and the sampled loss of each episode, both (K,), and the last policy (H, S, A)."""
    K, H, S, A = losses.shape
    uniforms = philox(seed, TRAJECTORY, run).random((K, 2 * H))
    noise = philox(seed, FEEDBACK, run).random((K, H))
    log_weights = np.zeros((H, S, A))
    stored, expected, sampled = [], [], []
    for k in range(K):
        weights = np.exp(log_weights - log_weights.max(2, keepdims=True))
        policy = weights / weights.sum(2, keepdims=True)
        states, actions, observed = [], [], []
        distribution = initial
        for h in range(H):
            states.append(draw(distribution, uniforms[k, 2 * h]))
            actions.append(draw(policy[h, states[h]], uniforms[k, 2 * h + 1]))
            mean = losses[k, h, states[h], actions[h]]
            observed.append(float(noise[k, h] < mean) if bernoulli else mean)
            distribution = transitions[h, states[h], actions[h]]
        stored.append((policy, occupancy(transitions, initial, policy), states, actions, observed))
        expected.append(expected_loss(transitions, initial, policy, losses[k]))
        sampled.append(sum(observed))
        gradient = np.zeros((H, S, A))
        for j in range(k + 1):
            if j + delays[j] == k:
                gradient += dapo_term(*stored[j], policy, transitions, gamma, bonus_scale)
        log_weights = log_weights - eta * gradient
    return np.array(expected), np.array(sampled), policy


def dapo_term(acting, mu, states, actions, observed, arrival, transitions, gamma, bonus_scale):
    """Return Qhat^j - B^j (H, S, A)."""
    H, S, A = acting.shape
    term = np.zeros((H, S, A))
    value = np.zeros(S)
    for h in reversed(range(H)):
        ratio = acting[h] / np.maximum(acting[h], arrival[h])
        below = mu[h][:, None] * acting[h] + gamma
        bonus = bonus_scale * 3 * gamma * H * (arrival[h] * ratio / below).sum(1)
        bonus_q = bonus[:, None] + transitions[h] @ value
        value = (acting[h] * bonus_q).sum(1)
        term[h] = -bonus_q
        s, a = states[h], actions[h]
        term[h, s, a] += ratio[s, a] * sum(observed[h:]) / below[s, a]
    return term
