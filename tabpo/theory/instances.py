"""Random instances for claims, drawn to be hard on them, and expectations over all trajectories of a tiny MDP."""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from tabpo.theory.claims import Floats, Instance

Integers = NDArray[np.int64]
MOST_TRAJECTORIES = 600


def sizes(rng: np.random.Generator, most: int = 3) -> tuple[int, int, int]:
    """Return (H, S, A), each in 1 ... ``most``, with at most 600 trajectories."""
    while True:
        H, S, A = (int(x) for x in rng.integers(1, most + 1, 3))
        if (S * A) ** H <= MOST_TRAJECTORIES:
            return H, S, A


def log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    """Return a number whose logarithm is uniform."""
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def distributions(rng: np.random.Generator, shape: tuple[int, ...], n_outcomes: int) -> Floats:
    """Return distributions (*shape, n_outcomes), from nearly uniform to nearly deterministic ones."""
    return rng.dirichlet(np.full(n_outcomes, log_uniform(rng, 0.05, 5.0)), shape)


def policy(rng: np.random.Generator, H: int, S: int, A: int) -> Floats:
    """Return a policy (H, S, A) with positive probabilities of at least 1e-6 / A.

    The claims hold for smaller ones as well; there the second moments are lost to rounding.
    """
    return np.asarray((1 - 1e-6) * distributions(rng, (H, S), A) + 1e-6 / A)


def losses(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
    """Return losses in [0, 1]: uniform, zeros and ones, or all ones, where bounds in H are tight."""
    return (rng.random(shape), rng.integers(0, 2, shape).astype(np.float64), np.ones(shape))[rng.integers(3)]


def model(rng: np.random.Generator, H: int, S: int, A: int) -> Instance:
    """Return ``transitions`` (H, S, A, S), ``initial`` (S,) and ``losses`` (H, S, A)."""
    return {
        "transitions": distributions(rng, (H, S, A), S),
        "initial": distributions(rng, (), S),
        "losses": losses(rng, (H, S, A)),
    }


def delayed_episode(rng: np.random.Generator) -> Instance:
    """Return a model, the policies at the time of acting and of arrival, a comparator policy, and ``exploration``."""
    H, S, A = sizes(rng)
    return {
        **model(rng, H, S, A),
        "acting": policy(rng, H, S, A),
        "arrival": policy(rng, H, S, A),
        "comparator": policy(rng, H, S, A),
        "exploration": log_uniform(rng, 1e-4, 1.0),
    }


def delays(rng: np.random.Generator, n_episodes: int) -> Integers:
    """Return delays (K,), all of whose feedback arrives: of some size, rarely long, until the end, or the same."""
    latest = np.arange(n_episodes)[::-1]
    longest = int(rng.integers(1, n_episodes + 1))
    kinds = (
        rng.integers(0, longest, n_episodes),
        np.where(rng.random(n_episodes) < 0.2, n_episodes, rng.integers(0, 2, n_episodes)),
        np.full(n_episodes, longest),
        longest * (np.arange(n_episodes) % longest == 0),
        longest - np.arange(n_episodes) % longest,  # bursts: all of a block arrive together
    )
    return np.minimum(kinds[rng.integers(len(kinds))], latest).astype(np.int64)


def all_trajectories(H: int, S: int, A: int, starts: tuple[int, ...] | None = None) -> tuple[Integers, Integers]:
    """Return the states and the actions (H, N) of every trajectory from the given first states (all if None)."""
    first = tuple(range(S)) if starts is None else starts
    choices = [first, range(A), *([range(S), range(A)] * (H - 1))]
    paths = np.array(list(itertools.product(*choices)), dtype=np.int64).T
    return np.ascontiguousarray(paths[0::2]), np.ascontiguousarray(paths[1::2])


def probabilities(
    transitions: Floats, initial: Floats, policies: Floats, states: Integers, actions: Integers
) -> Floats:
    """Return the probability of each trajectory (H, N) under its own policy (H, S, A, N), shape (N,)."""
    column = np.arange(states.shape[1])
    result = initial[states[0]]
    for h in range(len(states)):
        result = result * policies[h, states[h], actions[h], column]
        if h + 1 < len(states):
            result = result * transitions[h, states[h], actions[h], states[h + 1]]
    return np.asarray(result)
