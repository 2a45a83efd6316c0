"""Gymnasium in and out: environments with a transition table become MDPs, and MDPs become environments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.environments.zoo_shared import Indices, grid_positions, losses_from_rewards
from tabpo.errors import InvalidInputError, MissingPartError, nearest
from tabpo.mdp import Array, TabularMDP, finite_array, positive_integer, unit_interval

if TYPE_CHECKING:
    import gymnasium


def gymnasium_mdp(id: str, horizon: int, kwargs: dict[str, Any] | None = None) -> TabularMDP:  # noqa: A002
    """Gymnasium environment with a transition table ``P``: FrozenLake, CliffWalking, Taxi, ...

    What Gymnasium calls terminated becomes an absorbing state of reward 0: the state that the table names, if
    every way into it terminates, else one extra state, the last. The time limit of Gymnasium's wrapper is not
    used: an episode has ``horizon`` steps. Expected rewards are mapped to losses from the range of the
    rewards in the table and 0; the map is the MDP's ``loss_map``.

    Parameters
    ----------
    id : str
        Such as ``"FrozenLake-v1"``.
    horizon : int, at least 1
    kwargs : dict, optional
        Handed to the environment, such as ``{"map_name": "8x8", "is_slippery": False}``.

    Raises
    ------
    MissingPartError
        If Gymnasium, or what the environment needs, is not installed.
    InvalidInputError
        If the environment is not known, rejects the arguments or has no table that describes it.

    References
    ----------
    Towers et al. (2024), "Gymnasium: a standard interface for reinforcement learning environments".
    """
    horizon = positive_integer("horizon", horizon)
    env = _make(id, kwargs or {})
    table = _read_table(id, env)
    initial = _initial(id, env, table.n_states)
    positions = _grid(env, table.n_states)
    env.close()

    absorbing = _absorbing_states(table, initial)
    into_absorbing = np.isin(table.next_state, absorbing)
    needs_extra_state = bool((table.done & ~into_absorbing).any())
    n_states = table.n_states + needs_extra_state
    if needs_extra_state:
        absorbing = np.append(absorbing, table.n_states)
        initial = np.append(initial, 0)
        if positions is not None:
            positions = np.vstack([positions, [positions[:, 0].max() + 1, positions[:, 1].min()]])
    next_state = np.where(table.done & ~into_absorbing, n_states - 1, table.next_state)

    transitions = np.zeros((n_states, table.n_actions, n_states))
    rewards = np.zeros((n_states, table.n_actions))
    # Entries of a pair that name the same successor add up.
    np.add.at(transitions, (table.state, table.action, next_state), table.probability)
    np.add.at(rewards, (table.state, table.action), table.probability * table.reward)
    transitions[absorbing] = np.eye(n_states)[absorbing, None]
    rewards[absorbing] = 0
    losses, loss_map = losses_from_rewards(rewards, min(table.reward.min(), 0), max(table.reward.max(), 0))
    return TabularMDP.stationary(transitions, initial, horizon, losses, name=id, positions=positions, loss_map=loss_map)


def to_gymnasium(
    mdp: TabularMDP, losses: ArrayLike | None = None, time_in_observation: bool = False
) -> gymnasium.Env[Any, np.int64]:
    """Return a Gymnasium environment that plays the MDP, with reward ``-loss`` in [-1, 0].

    The loss is the expected loss. An episode terminates after H steps; the last step does not move, so that
    the observation that ends an episode repeats the last state (and step). States are drawn by Gymnasium's
    own generator: ``reset(seed=...)``.

    Parameters
    ----------
    mdp : TabularMDP
    losses : array-like, (H, S, A), in [0, 1], optional
        Default: the MDP's own.
    time_in_observation : bool
        The observation is ``[step, state]``, of ``MultiDiscrete([H, S])``, instead of the state, of
        ``Discrete(S)``. A policy that depends on the step, as optimal ones do, needs it.

    Raises
    ------
    MissingPartError
        If Gymnasium is not installed.
    InvalidInputError
        If there are no losses, or they do not fit.
    """
    _gymnasium()
    from tabpo.environments.gymnasium_env import TabularEnv

    if losses is None:
        losses = mdp.losses
    if losses is None:
        raise InvalidInputError(f"the MDP {mdp.name!r} has no losses of its own; pass losses of shape {mdp.shape}")
    losses = unit_interval("losses", losses, "h s a")
    if losses.shape != mdp.shape:
        raise InvalidInputError(f"losses must have shape (H, S, A) = {mdp.shape}, got {losses.shape}")
    return TabularEnv(mdp, losses, time_in_observation)


@dataclass(frozen=True)
class _Table:
    """The entries of a transition table, one array element each."""

    n_states: int
    n_actions: int
    state: Indices
    action: Indices
    probability: Array
    next_state: Indices
    reward: Array
    done: NDArray[np.bool_]


def _gymnasium() -> Any:
    try:
        return import_module("gymnasium")
    except ImportError:
        raise MissingPartError("Gymnasium is not installed; install it with `pip install tabpo[gymnasium]`") from None


def _make(id: str, kwargs: dict[str, Any]) -> Any:  # noqa: A002
    gym = _gymnasium()
    if not isinstance(id, str):
        raise InvalidInputError(f"id must be the name of a Gymnasium environment, such as 'FrozenLake-v1', got {id!r}")
    try:
        return gym.make(id, disable_env_checker=True, **kwargs).unwrapped
    except (gym.error.UnregisteredEnv, gym.error.DeprecatedEnv) as error:
        hint = nearest(id, gym.registry)
        raise InvalidInputError(f"Gymnasium has no environment {id!r}{hint} ({error})") from None
    except (ImportError, gym.error.DependencyNotInstalled) as error:
        raise MissingPartError(
            f"the Gymnasium environment {id!r} needs a part that is not installed: {error}"
        ) from error
    except Exception as error:  # a foreign constructor: anything may come
        reason = f"{type(error).__name__}: {error}"
        raise InvalidInputError(f"Gymnasium cannot make {id!r} with kwargs {kwargs!r}: {reason}") from error


def _read_table(id: str, env: Any) -> _Table:  # noqa: A002
    if not hasattr(env, "P"):
        raise InvalidInputError(f"{id!r} has no transition table P; FrozenLake, CliffWalking and Taxi have one")
    if getattr(env, "fickle_passenger", False):
        raise InvalidInputError(f"the table P of {id!r} leaves out fickle_passenger; set it to false")
    sizes = [getattr(space, "n", None) for space in (env.observation_space, env.action_space)]
    if None in sizes:
        raise InvalidInputError(
            f"the Gymnasium environment {id!r} must have Discrete observations and actions, "
            f"got {env.observation_space} and {env.action_space}"
        )
    n_states, n_actions = (int(size) for size in sizes if size is not None)
    try:
        entries = np.array(list(_entries(env.P, n_states, n_actions)), dtype=np.float64).reshape(-1, 6)
    except (KeyError, IndexError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"the table P of {id!r} must hold a list of (probability, next state, reward, done) for each of "
            f"{n_states} states and {n_actions} actions ({type(error).__name__}: {error})"
        ) from error
    entries = finite_array(f"the table P of {id!r}", entries, "entry field")
    state, action, next_state = (entries[:, i].astype(np.int64) for i in (0, 1, 3))
    if not ((next_state >= 0) & (next_state < n_states)).all():
        worst = next_state[(next_state < 0) | (next_state >= n_states)][0]
        raise InvalidInputError(f"the table P of {id!r} leads to state {worst}, but there are {n_states} states")
    return _Table(
        n_states,
        n_actions,
        state,
        action,
        entries[:, 2],
        next_state,
        entries[:, 4],
        entries[:, 5].astype(bool),
    )


def _entries(P: Any, n_states: int, n_actions: int) -> Iterator[tuple[Any, ...]]:
    for state in range(n_states):
        for action in range(n_actions):
            for probability, next_state, reward, done in P[state][action]:
                if probability != 0:
                    yield state, action, probability, next_state, reward, done


def _initial(id: str, env: Any, n_states: int) -> Array:  # noqa: A002
    initial = getattr(env, "initial_state_distrib", None)
    if initial is None:
        raise InvalidInputError(f"the Gymnasium environment {id!r} has no initial_state_distrib")
    initial = finite_array(f"the initial_state_distrib of {id!r}", initial, "s")
    if initial.shape != (n_states,):
        raise InvalidInputError(f"the initial_state_distrib of {id!r} must have {n_states} entries, got {len(initial)}")
    return initial


def _absorbing_states(table: _Table, initial: Array) -> Indices:
    """Return the states that are entered by terminating steps only, wherever an episode is going on."""
    ends = np.unique(table.next_state[table.done])
    while True:
        # A state that is itself terminal is left by nobody: what the table lists for it does not count.
        going_on = ~table.done & ~np.isin(table.state, ends)
        entered = np.union1d(table.next_state[going_on], np.flatnonzero(initial))
        remaining = np.setdiff1d(ends, entered)
        if len(remaining) == len(ends):
            return ends
        ends = remaining


def _grid(env: Any, n_states: int) -> Array | None:
    """Return drawing positions where the environment says that its states are the cells of a grid."""
    for sizes in ((getattr(env, "nrow", None), getattr(env, "ncol", None)), getattr(env, "shape", None)):
        if isinstance(sizes, tuple) and len(sizes) == 2 and None not in sizes and sizes[0] * sizes[1] == n_states:
            return grid_positions(int(sizes[0]), int(sizes[1]))
    return None
