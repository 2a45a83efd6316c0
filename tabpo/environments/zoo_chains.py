"""Chains, where the good states are far away: N-chain, RiverSwim, combination lock, exploration chain."""

from __future__ import annotations

import numpy as np

from tabpo.environments.zoo_shared import line_positions, losses_from_rewards, number_between
from tabpo.errors import InvalidInputError
from tabpo.mdp import Array, LossMap, TabularMDP, positive_integer
from tabpo.streams import Purpose, stream

LEFT, RIGHT = 0, 1
STAY, LEAVE = 0, 1


def n_chain(n_states: int = 8, horizon: int = 40) -> TabularMDP:
    """N-chain with slips: going right costs a little at each step and pays 1 at the far end.

    Actions are left (0) and right (1). Left surely leads to s - 1 (to 0 from 0) with mean reward 0. Right
    leads to s + 1 with probability 1 - 1/N and to s - 1 with probability 1/N, with mean reward ``-delta``,
    ``delta = 0.1 exp(-N/4)``; from the last state its success leads back to 0 and pays 1 in the mean. An
    episode starts in state 0. The expected rewards are mapped to losses from the range [-delta, 1].

    Parameters
    ----------
    n_states : int, at least 2
        N.
    horizon : int, at least 1

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.

    References
    ----------
    Zhang (2022), "Conservative dual policy optimization for efficient model-based
    reinforcement learning", appendix F.2, after Markou, Rasmussen (2019), "Bayesian methods for efficient
    reinforcement learning in tabular problems". There the task is continuing and rewards are Gaussian with
    these means and variance ``delta**2``.
    """
    n_states = positive_integer("n_states", n_states, at_least=2)
    delta = 0.1 * np.exp(-n_states / 4)
    slip, last = 1 / n_states, n_states - 1
    transitions = np.zeros((n_states, 2, n_states))
    for s in range(n_states):
        transitions[s, LEFT, max(s - 1, 0)] = 1
        transitions[s, RIGHT, s + 1 if s < last else 0] += 1 - slip
        transitions[s, RIGHT, max(s - 1, 0)] += slip
    rewards = np.zeros((n_states, 2))
    rewards[:, RIGHT] = -delta
    rewards[last, RIGHT] = (1 - slip) * 1 + slip * -delta
    losses, loss_map = losses_from_rewards(rewards, -delta, 1)
    return _chain(transitions, losses, horizon, name=f"NChain({n_states})", loss_map=loss_map)


def river_swim(n_states: int = 6, horizon: int = 20) -> TabularMDP:
    """RiverSwim: swimming right against the current pays 1 at the far end, staying left pays 0.005.

    Actions are left (0), with the current and sure, and right (1): from an inner state one state on with
    probability 0.35, back with 0.05; from the first state on with 0.6; from the last back with 0.4; else it
    stays. An episode starts in state 0. Rewards are mapped to losses by ``loss = 1 - reward``.

    Parameters
    ----------
    n_states : int, at least 2
        6 in the literature.
    horizon : int, at least 1
        20 in the literature.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.

    References
    ----------
    Strehl, Littman (2008), "An analysis of model-based interval estimation for Markov
    decision processes"; the episodic form with these numbers: Osband, Russo, Van Roy (2013), "(More)
    efficient reinforcement learning via posterior sampling".
    """
    n_states = positive_integer("n_states", n_states, at_least=2)
    last = n_states - 1
    transitions = np.zeros((n_states, 2, n_states))
    transitions[np.arange(n_states), LEFT, np.maximum(np.arange(n_states) - 1, 0)] = 1
    transitions[0, RIGHT, [0, 1]] = 0.4, 0.6
    transitions[last, RIGHT, [last - 1, last]] = 0.4, 0.6
    for s in range(1, last):
        transitions[s, RIGHT, s - 1 : s + 2] = 0.05, 0.6, 0.35
    rewards = np.zeros((n_states, 2))
    rewards[0, LEFT] = 0.005
    rewards[last, RIGHT] = 1
    losses, loss_map = losses_from_rewards(rewards, 0, 1)
    return _chain(transitions, losses, horizon, name=f"RiverSwim({n_states})", loss_map=loss_map)


def combination_lock(horizon: int = 10, n_actions: int = 2, seed: int = 0) -> TabularMDP:
    """Lock with a combination: one good action per step; a single wrong one ends in a dead state.

    States 0 .. H-1 are the lock's dials and state H is dead. The good action (drawn from the seed for each
    dial) moves from s to s + 1; at the last dial it has loss 0; all other losses are 1. The best policy's
    expected loss is H - 1, that of any policy that errs surely is H, and that of uniformly random actions
    H - n_actions**(-H).

    Parameters
    ----------
    horizon, n_actions : int, at least 1
    seed : int, at least 0

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.

    References
    ----------
    Kakade (2003), "On the sample complexity of reinforcement learning", where a wrong
    action returns to the start; with a dead state: Misra, Henaff, Krishnamurthy, Langford (2020), "Kinematic
    state abstraction and provably efficient rich-observation reinforcement learning".
    """
    horizon = positive_integer("horizon", horizon)
    n_actions = positive_integer("n_actions", n_actions)
    good = stream(seed, Purpose.MDP).integers(n_actions, size=horizon)
    dials, dead = np.arange(horizon), horizon
    transitions = np.zeros((horizon + 1, n_actions, horizon + 1))
    transitions[:, :, dead] = 1
    transitions[dials, good] = 0
    transitions[dials, good, np.minimum(dials + 1, horizon - 1)] = 1
    rewards = np.zeros((horizon + 1, n_actions))
    rewards[horizon - 1, good[-1]] = 1
    losses, loss_map = losses_from_rewards(rewards, 0, 1)
    positions = np.vstack([line_positions(horizon), [[(horizon - 1) / 2, -1]]])
    return TabularMDP.stationary(
        transitions,
        np.eye(horizon + 1)[0],
        horizon,
        losses,
        name=f"Lock({horizon}, {n_actions})",
        state_labels=(*map(str, dials), "dead"),
        positions=positions,
        loss_map=loss_map,
    )


def exploration_chain(horizon: int = 6, loss: float = 0.5, temptation: float = 0.05) -> TabularMDP:
    """Exploration chain: leaving the chain pays a little at each step, staying to the end pays more.

    An episode starts on the chain (state 0). Action 0 stays on it and action 1 leaves it for good (to state 1, where
    both actions stay). A step on the chain costs ``loss``, off it ``loss - temptation``; but action 0 in the last step
    on the chain costs 0. The best policy stays, for ``(H - 1) loss``: with the defaults 2.5. To leave at once costs
    ``H loss - (H - 1) temptation``, with the defaults 2.75, and to leave later costs more: a learner that seldom sees
    the end of the chain learns to leave early. (In a combination lock there is nothing to see before the end, but
    nothing tempts either; a deep sea has the temptation among N^2 states.)

    Parameters
    ----------
    horizon : int, at least 1
    loss : float, in [0, 1]
        Of a step on the chain.
    temptation : float, at least 0, at most loss, and below loss / (H - 1) so that staying is the best
        What a step costs less off the chain.

    Raises
    ------
    InvalidInputError
        If a parameter is out of its range.
    """
    horizon = positive_integer("horizon", horizon)
    loss = number_between("loss", loss)
    temptation = number_between("temptation", temptation, 0, loss)
    if temptation > 0 and (horizon - 1) * temptation >= loss:
        raise InvalidInputError(
            f"temptation must be below loss / (horizon - 1) = {loss / (horizon - 1):g}, or to leave the chain at once "
            f"is as good as to stay, got {temptation:g}"
        )
    transitions = np.zeros((2, 2, 2))
    transitions[0, STAY, 0] = transitions[0, LEAVE, 1] = 1
    transitions[1, :, 1] = 1
    losses = np.empty((horizon, 2, 2))
    losses[:, 0], losses[:, 1] = loss, loss - temptation
    losses[-1, 0, STAY] = 0
    return TabularMDP(
        np.broadcast_to(transitions, (horizon, 2, 2, 2)),
        np.eye(2)[0],
        losses,
        name=f"ExplorationChain({horizon})",
        state_labels=("on", "off"),
        action_labels=("stay", "leave"),
        positions=line_positions(2),
    )


def _chain(transitions: Array, losses: Array, horizon: int, name: str, loss_map: LossMap) -> TabularMDP:
    n_states = len(transitions)
    return TabularMDP.stationary(
        transitions,
        np.eye(n_states)[0],
        horizon,
        losses,
        name=name,
        action_labels=("left", "right"),
        positions=line_positions(n_states),
        loss_map=loss_map,
    )
