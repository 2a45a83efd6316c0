"""Every trajectory of a tiny MDP, each as one run of the lockstep arrays."""

from __future__ import annotations

import itertools

import numpy as np


def all_trajectories(initial: np.ndarray, H: int, S: int, A: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the states and actions (H, N) of every trajectory whose first state has positive probability."""
    starts = np.flatnonzero(initial)
    paths = np.array(list(itertools.product(starts, range(A), *[range(S), range(A)] * (H - 1)))).T
    return paths[0::2], paths[1::2]


def probabilities(
    transitions: np.ndarray, initial: np.ndarray, policy: np.ndarray, states: np.ndarray, actions: np.ndarray
) -> np.ndarray:
    """Return the probability (N,) of each trajectory (H, N) under its own policy (H, S, A, N)."""
    runs = np.arange(states.shape[1])
    result = initial[states[0]]
    for h in range(len(states)):
        result = result * policy[h, states[h], actions[h], runs]
        if h + 1 < len(states):
            result = result * transitions[h, states[h], actions[h], states[h + 1]]
    return result
