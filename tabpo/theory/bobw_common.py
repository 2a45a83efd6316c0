"""Random instances for the claims of best of both worlds, the trajectories of an episode, and comparison at any scale.

Distributions are drawn per state: spread out, all the same, nearly deterministic with probabilities down to 1e-12, and
where zeros are allowed with holes or deterministic.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tabpo import confidence
from tabpo.kernels import plain
from tabpo.theory.claims import Floats, Instance
from tabpo.theory.instances import Integers, all_trajectories, log_uniform, losses, probabilities

PAPER = "Dann, Wei, Zimmert, ICML 2023"
MOST_TRAJECTORIES = 300
SMALLEST = 1e-12
SHARPNESS = np.array([0.0, 2.0, 30.0, 300.0])
"""Of a distribution exp(-sharpness x), x uniform: all the same, spread out, over 12 orders, all but deterministic."""
_paths = cache(all_trajectories)

# Instances


def sizes(rng: np.random.Generator, most_trajectories: int = MOST_TRAJECTORIES) -> tuple[int, int, int]:
    """Return (H, S, A), at most (4, 4, 6), with few enough trajectories."""
    while True:
        H, S, A = (int(rng.integers(1, most + 1)) for most in (4, 4, 6))
        if most_trajectories >= (S * A) ** H:
            return H, S, A


def distributions(rng: np.random.Generator, shape: tuple[int, ...], n_outcomes: int, zeros: bool = False) -> Floats:
    """Return distributions (*shape, n_outcomes), each as sharp as it likes; without ``zeros`` all of it is positive."""
    distance = rng.random((*shape, n_outcomes))
    distance -= distance.min(-1, keepdims=True)
    weights = np.exp(-SHARPNESS[rng.integers(len(SHARPNESS), size=(*shape, 1))] * distance)
    weights = np.where(weights > SMALLEST, weights, 0.0 if zeros else SMALLEST)
    return np.asarray(weights / weights.sum(-1, keepdims=True))


def model(rng: np.random.Generator, H: int, S: int, A: int) -> Instance:
    """Return ``transitions`` (H, S, A, S) and ``initial`` (S,), by which states may be out of reach, and ``losses``."""
    return {"transitions": distributions(rng, (H, S, A), S, zeros=True), **_start_and_losses(rng, H, S, A)}


def _start_and_losses(rng: np.random.Generator, H: int, S: int, A: int) -> Instance:
    return {"initial": distributions(rng, (), S, zeros=True), "losses": losses(rng, (H, S, A))}


def exploration(rng: np.random.Generator, zero: bool = True) -> float:
    """Return gamma in (0, 1], or 0 if that is allowed."""
    return 0.0 if zero and rng.random() < 0.3 else log_uniform(rng, 1e-12, 1.0)


def confidence_set(rng: np.random.Generator, H: int, S: int, A: int) -> Instance:
    """Return a model whose ``transitions`` are in the set of ``centre`` and ``radius``, half of the time a vertex."""
    centre = distributions(rng, (H, S, A), S, zeros=True)
    widths = (0.0, 1.0, log_uniform(rng, 1e-6, 1.0) * rng.random(centre.shape), 0.3 * np.sqrt(centre))
    radius = np.broadcast_to(widths[rng.integers(len(widths))], centre.shape)
    inside = vertex(rng, centre, radius)
    if rng.random() < 0.5:
        inside += rng.random() * (vertex(rng, centre, radius) - inside)
    return {"centre": centre, "radius": radius, "transitions": inside, **_start_and_losses(rng, H, S, A)}


def vertex(rng: np.random.Generator, centre: Floats, radius: Floats) -> Floats:
    """Return a vertex of a set (H, S, A, S): each row fills up its entries in a random order."""
    lowest, highest = np.maximum(centre - radius, 0), np.minimum(centre + radius, 1)
    order = np.argsort(rng.random(centre.shape), axis=-1)
    capacity = np.take_along_axis(highest - lowest, order, -1)
    left_over = 1 - lowest.sum(-1, keepdims=True) - (np.cumsum(capacity, axis=-1) - capacity)
    given = np.empty(centre.shape)
    np.put_along_axis(given, order, np.clip(left_over, 0, capacity), -1)
    return lowest + given


def with_bounds(i: Instance) -> Instance:
    """Return an instance with the ``upper`` and ``lower`` occupancy (H, S) of its policy over its set."""
    upper, lower = confidence.occupancy_bounds(i["centre"], i["radius"], i["initial"], i["policy"])
    return {**i, "upper": np.asarray(upper), "lower": np.asarray(lower)}


# An episode


@dataclass(frozen=True)
class Episode:
    """Every trajectory of a policy: ``states``, ``actions`` and losses ``to_go`` (H, N), and ``weights`` (N,)."""

    states: Integers
    actions: Integers
    to_go: Floats
    weights: Floats

    @classmethod
    def of(cls, i: Instance, policy: str = "policy", losses: str = "losses") -> Episode:
        """Return the episode of an instance's model under one of its policies (H, S, A) and losses (H, S, A)."""
        pi = i[policy]
        states, actions = _paths(*pi.shape)
        wide = np.broadcast_to(pi[..., None], (*pi.shape, states.shape[1]))
        seen = i[losses][np.arange(len(pi))[:, None], states, actions]
        weights = probabilities(i["transitions"], i["initial"], wide, states, actions)
        return cls(states, actions, np.cumsum(seen[::-1], axis=0)[::-1], weights)

    def value(self) -> float:
        """Return the expected loss."""
        return float(self.to_go[0] @ self.weights)

    def total(self, values: Floats, n_states: int) -> Floats:
        """Return the expectation of values (H, N, ...) that count at the state of their step, shape (H, S, ...)."""
        H, N = self.states.shape
        result = np.zeros((H, n_states, *values.shape[2:]))
        weighted = values * self.weights.reshape(1, N, *[1] * (values.ndim - 2))
        np.add.at(result, (np.arange(H)[:, None], self.states), weighted)
        return result


def with_runs(array: Floats) -> Floats:
    """Return an array (H, S, A) as (H, S, A, 1), one (H, S, A, T) as it is."""
    return array if array.ndim == 4 else array[..., None]


def state_occupancy(i: Instance, policy: str = "policy") -> Floats:
    """Return mu (H, S), or (H, S, T) of policies (H, S, A, T), by the forward recursion."""
    mu = np.asarray(plain.state_occupancy(i["transitions"], i["initial"], with_runs(i[policy])))
    return mu if i[policy].ndim == 4 else mu[..., 0]


def q_values(i: Instance, losses: str = "losses", policy: str = "policy", dilation: float = 0.0) -> Floats:
    """Return Q in the shape of the policy, (H, S, A) or (H, S, A, T), by the backward recursion."""
    q, _ = plain.q_values(i["transitions"], with_runs(i[losses]), with_runs(i[policy]), dilation)
    return np.asarray(q) if i[policy].ndim == 4 else np.asarray(q)[..., 0]


def steps_left(H: int) -> Floats:
    """Return H - h for h = 0 ... H - 1, shape (H, 1)."""
    return np.arange(H, 0, -1.0)[:, None]


def others(policy: Floats) -> Floats:
    """Return 1 - policy as the sum of the other actions' probabilities: small ones keep their digits."""
    n_actions = policy.shape[-1]
    return np.asarray(policy @ (1 - np.eye(n_actions)))


# Comparison


def quotient(left: ArrayLike, right: ArrayLike) -> Floats:
    """Return left / right for right >= 0, where 0 / 0 is 0; what is infinite is the largest number."""
    above, below = np.broadcast_arrays(np.asarray(left, dtype=np.float64), np.asarray(right, dtype=np.float64))
    by_nothing = np.where(above > 0, np.inf, np.where(above <= 0, 0.0, np.nan))
    result = np.divide(above, below, out=by_nothing, where=below != 0)
    return np.asarray(np.minimum(result, np.finfo(np.float64).max))


def relative(sides: Callable[[Instance], tuple[ArrayLike, ArrayLike]]) -> dict[str, Any]:
    """Return the sides of a claim ``left <= right`` divided by the right one: its tolerance is then relative.

    The claim's left side is the largest quotient of an instance; sides of 1e-20 and of 1e20 are compared alike.
    """
    return {"left": lambda i: quotient(*sides(i)).max(), "right": lambda i: 1.0}
