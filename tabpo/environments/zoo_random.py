"""Random MDPs: Garnet and layered ones."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from tabpo.environments.checks import check_number
from tabpo.environments.zoo_shared import line_positions, number_between
from tabpo.errors import InvalidInputError
from tabpo.mdp import Array, TabularMDP, positive_integer
from tabpo.streams import Purpose, stream

LEAST_CONCENTRATION = 0.1  # far below, the weights of a row may all underflow to 0


def random_mdp(
    n_states: int = 10,
    n_actions: int = 3,
    horizon: int = 10,
    branching: int | None = None,
    stationary: bool = False,
    concentration: float = 1.0,
    seed: int = 0,
) -> TabularMDP:
    """Random MDP (Garnet): each pair leads to ``branching`` random states with Dirichlet probabilities.

    Losses are uniform in [0, 1]; an episode starts in state 0. With transitions that change from step to step it is a
    layered MDP of one state, then ``n_states`` at every step, in the fewest states.

    Parameters
    ----------
    n_states, n_actions, horizon : int, at least 1
    branching : int in 1..n_states, optional
        Number of possible successors of a step, state and action; default: all states.
    stationary : bool
        The same transitions and losses at each step.
    concentration : float, at least 0.1
        Of the Dirichlet law: 1 is the uniform law of all distributions, larger ones are nearer to equal weights.
    seed : int, at least 0

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.

    References
    ----------
    Archibald, McKinnon, Thomas (1995), "On the generation of Markov decision
    processes", J. Oper. Res. Soc. 46; the name Garnet and this form: Bhatnagar, Sutton, Ghavamzadeh, Lee
    (2009), "Natural actor-critic algorithms".
    """
    n_states = positive_integer("n_states", n_states)
    n_actions = positive_integer("n_actions", n_actions)
    horizon = positive_integer("horizon", horizon)
    branching = _branching(branching, n_states, "n_states")
    check_number("concentration", concentration, LEAST_CONCENTRATION)
    rng = stream(seed, Purpose.MDP)
    n_steps = 1 if stationary else horizon
    transitions = _sparse_rows(rng, (n_steps, n_states, n_actions), n_states, branching, concentration)
    losses = rng.random((n_steps, n_states, n_actions))
    angle = 2 * np.pi * np.arange(n_states) / n_states
    return TabularMDP(
        np.repeat(transitions, horizon // n_steps, axis=0),
        np.eye(n_states)[0],
        np.repeat(losses, horizon // n_steps, axis=0),
        name=f"Random({n_states}, {n_actions})",
        positions=np.stack([np.cos(angle), np.sin(angle)], axis=1),
    )


def layered(
    horizon: int = 5,
    width: int = 4,
    n_actions: int = 2,
    branching: int | None = None,
    concentration: float = 1.0,
    seed: int = 0,
) -> TabularMDP:
    """Random layered (loop-free) MDP: state 0 at step 0, then ``width`` states that exist at one step only.

    Layer h >= 1 holds the states ``1 + (h - 1) * width`` to ``h * width``; every action leads to
    ``branching`` random states of the next layer with Dirichlet probabilities. Losses are uniform in [0, 1].

    Parameters
    ----------
    horizon, width, n_actions : int, at least 1
        S = 1 + (horizon - 1) * width.
    branching : int in 1..width, optional
        Number of possible successors; default: the whole next layer.
    concentration : float, at least 0.1
        Of the Dirichlet law: 1 is the uniform law of all distributions, larger ones are nearer to equal weights.
    seed : int, at least 0

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.

    References
    ----------
    Neu, György, Szepesvári (2010), "The online loop-free stochastic shortest-path
    problem"; Zimin, Neu (2013), "Online learning in episodic Markovian decision processes by relative entropy
    policy search".
    """
    horizon = positive_integer("horizon", horizon)
    width = positive_integer("width", width)
    n_actions = positive_integer("n_actions", n_actions)
    branching = _branching(branching, width, "width")
    check_number("concentration", concentration, LEAST_CONCENTRATION)
    rng = stream(seed, Purpose.MDP)
    layers = [range(1)] + [range(1 + h * width, 1 + (h + 1) * width) for h in range(horizon - 1)]
    n_states = layers[-1].stop
    # States of the last layer stay where they are: the episode ends there.
    transitions = np.repeat(np.eye(n_states)[:, None], n_actions, axis=1)
    for layer, following in pairwise(layers):
        here, there = slice(layer.start, layer.stop), slice(following.start, following.stop)
        transitions[here] = 0
        transitions[here, :, there] = _sparse_rows(rng, (len(layer), n_actions), width, branching, concentration)
    positions = np.vstack([[h, (len(layer) - 1) / 2 - i] for h, layer in enumerate(layers) for i in range(len(layer))])
    return TabularMDP.stationary(
        transitions,
        np.eye(n_states)[0],
        horizon,
        rng.random((n_states, n_actions)),
        name=f"Layered({horizon}, {width})",
        positions=positions,
    )


def two_state(
    horizon: int = 20, n_actions: int = 2, switch: float = 0.1, advantage: float = 0.1, seed: int = 0
) -> TabularMDP:
    """Two states as in UCRL2's lower bound: one action is a little better at reaching the good state.

    State 0 has loss 1, state 1 loss 0. From state 1 every action falls back with probability ``switch``; from
    state 0 every action reaches state 1 with probability ``switch``, but one action (drawn from the seed)
    with ``switch + advantage``. An episode starts in state 0.

    Parameters
    ----------
    horizon, n_actions : int, at least 1
    switch, advantage : float, at least 0, with a sum of at most 1
    seed : int, at least 0

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.

    References
    ----------
    Jaksch, Ortner, Auer (2010), "Near-optimal regret bounds for reinforcement learning", the two-state
    component of the lower bound's MDP (Theorem 5).
    """
    horizon = positive_integer("horizon", horizon)
    n_actions = positive_integer("n_actions", n_actions)
    switch = number_between("switch", switch)
    advantage = number_between("advantage", advantage, 0, 1 - switch)
    good = int(stream(seed, Purpose.MDP).integers(n_actions))
    reach = np.full(n_actions, switch)
    reach[good] += advantage
    back = np.full(n_actions, switch)
    transitions = np.array([np.stack([1 - reach, reach], axis=1), np.stack([back, 1 - back], axis=1)])
    losses = np.repeat([[1.0], [0.0]], n_actions, axis=1)
    return TabularMDP.stationary(
        transitions,
        [1, 0],
        horizon,
        losses,
        name="TwoState",
        positions=line_positions(2),
        state_labels=("0", "1"),
    )


def _branching(branching: int | None, most: int, what: str) -> int:
    if branching is None:
        return most
    branching = positive_integer("branching", branching)
    if branching > most:
        raise InvalidInputError(f"branching must be at most {what} = {most}, got {branching}")
    return branching


def _sparse_rows(
    rng: np.random.Generator, shape: tuple[int, ...], n_next: int, branching: int, concentration: float
) -> Array:
    """Return (*shape, n_next) rows with symmetric Dirichlet weights on ``branching`` random entries."""
    successors = np.argsort(rng.random((*shape, n_next)), axis=-1)[..., :branching]
    # Normalised gamma variables are Dirichlet.
    weights = rng.standard_gamma(concentration, (*shape, branching))
    rows = np.zeros((*shape, n_next))
    np.put_along_axis(rows, successors, weights / weights.sum(-1, keepdims=True), axis=-1)
    return rows
