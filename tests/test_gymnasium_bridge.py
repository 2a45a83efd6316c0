"""Gymnasium in and out: against dynamic programming on the table, Gymnasium's own steps, occupancies."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from tabpo.environments.gymnasium_bridge import gymnasium_mdp, to_gymnasium
from tabpo.environments.zoo import layered, random_mdp, river_swim
from tabpo.errors import InvalidInputError, MissingPartError
from tabpo.mdp import TabularMDP

gymnasium = pytest.importorskip("gymnasium")
from gymnasium.envs.registration import EnvSpec  # noqa: E402
from gymnasium.utils.env_checker import check_env  # noqa: E402


def newest(name: str) -> str:
    """The newest registered version of an environment (Taxi-v3 or v4, by the installed Gymnasium)."""
    specs = [spec for spec in gymnasium.registry.values() if spec.name == name and spec.namespace is None]
    return max(specs, key=lambda spec: spec.version).id


def table_values(env, horizon: int, best: bool) -> list[np.ndarray]:
    """V_h of the best or the uniform policy on Gymnasium's table itself, nothing after ``done``."""
    n_states, n_actions = env.observation_space.n, env.action_space.n
    values = [np.zeros(n_states)]
    for _ in range(horizon):
        q_values = np.zeros((n_states, n_actions))
        for s in range(n_states):
            for a in range(n_actions):
                for probability, successor, reward, done in env.P[s][a]:
                    q_values[s, a] += probability * (reward + (0 if done else values[0][successor]))
        values.insert(0, q_values.max(1) if best else q_values.mean(1))
    return values


def mdp_returns(mdp: TabularMDP, best: bool) -> list[np.ndarray]:
    """The same on the imported MDP, losses taken back to rewards."""
    values = [np.zeros(mdp.n_states)]
    for h in reversed(range(mdp.horizon)):
        rewards = mdp.loss_map.highest - mdp.loss_map.scale * mdp.losses[h]
        q_values = rewards + mdp.transitions[h] @ values[0]
        values.insert(0, q_values.max(1) if best else q_values.mean(1))
    return values


IMPORTS = [
    ("FrozenLake", {}, 20),
    ("FrozenLake", {"map_name": "8x8"}, 20),
    ("FrozenLake", {"is_slippery": False}, 6),
    ("CliffWalking", {}, 16),
    ("CliffWalking", {"is_slippery": True}, 8),
    ("Taxi", {}, 3),
    ("Taxi", {"is_rainy": True}, 3),
]


@pytest.mark.parametrize(("name", "kwargs", "horizon"), IMPORTS)
@pytest.mark.parametrize("best", [True, False])
def test_values_agree_with_the_table(name, kwargs, horizon, best):
    mdp = gymnasium_mdp(newest(name), horizon, kwargs)
    env = gymnasium.make(newest(name), **kwargs).unwrapped
    n_states = int(env.observation_space.n)
    # A terminal state that was made absorbing in place has no value, whatever the table lists for it.
    live = np.setdiff1d(np.arange(n_states), absorbing_states(mdp))
    for ours, theirs in zip(mdp_returns(mdp, best), table_values(env, horizon, best), strict=True):
        np.testing.assert_allclose(ours[live], theirs[live], atol=1e-10)
        np.testing.assert_allclose(ours[absorbing_states(mdp)], 0, atol=1e-10)
    np.testing.assert_allclose(mdp.initial[:n_states], env.initial_state_distrib, atol=1e-12)


def absorbing_states(mdp: TabularMDP) -> np.ndarray:
    zero_reward_loss = mdp.loss_map.highest / mdp.loss_map.scale
    stays = (np.diagonal(mdp.transitions[0], axis1=0, axis2=2) == 1).all(0)
    return np.flatnonzero(stays & np.isclose(mdp.losses[0], zero_reward_loss).all(1))


def test_known_values():
    # Cliff: 13 steps of -1 along the edge. Lake without slips: 6 steps to the goal, and 5 are not enough.
    assert mdp_returns(gymnasium_mdp(newest("CliffWalking"), 30), best=True)[0][36] == pytest.approx(-13)
    straight = {"is_slippery": False}
    assert mdp_returns(gymnasium_mdp("FrozenLake-v1", 6, straight), best=True)[0][0] == pytest.approx(1)
    assert mdp_returns(gymnasium_mdp("FrozenLake-v1", 5, straight), best=True)[0][0] == pytest.approx(0)


def test_shapes_and_absorbing_states():
    lake = gymnasium_mdp("FrozenLake-v1", 3)
    assert lake.shape == (3, 16, 4)
    assert absorbing_states(lake).tolist() == [5, 7, 11, 12, 15]
    assert (lake.loss_map.lowest, lake.loss_map.highest) == (0, 1)
    assert lake.positions[0].tolist() == [0, 0]
    assert lake.positions[15].tolist() == [3, -3]
    cliff = gymnasium_mdp(newest("CliffWalking"), 3)
    assert cliff.shape == (3, 48, 4)
    assert absorbing_states(cliff).tolist() == [47]
    assert (cliff.loss_map.lowest, cliff.loss_map.highest) == (-100, 0)
    # Taxi's final states are ordinary ones to a passenger who has not been picked up yet: one state more.
    taxi = gymnasium_mdp(newest("Taxi"), 2)
    assert taxi.shape == (2, 501, 6)
    assert absorbing_states(taxi).tolist() == [500]
    assert taxi.initial[500] == 0
    assert taxi.positions is None


@pytest.mark.parametrize(("name", "kwargs"), [("FrozenLake", {}), ("CliffWalking", {"is_slippery": True})])
def test_return_agrees_with_playing_the_environment(name, kwargs):
    """1,500 episodes of uniform actions in Gymnasium itself; within 4 standard errors of the exact return."""
    horizon, n_episodes = 15, 1500
    mdp = gymnasium_mdp(newest(name), horizon, kwargs)
    exact = mdp.initial @ mdp_returns(mdp, best=False)[0]
    env = gymnasium.make(newest(name), **kwargs).unwrapped
    rng = np.random.default_rng(4)
    env.reset(seed=4)
    returns = np.zeros(n_episodes)
    for episode in range(n_episodes):
        env.reset()
        for action in rng.integers(mdp.n_actions, size=horizon):
            _, reward, terminated, _, _ = env.step(int(action))
            returns[episode] += reward
            if terminated:
                break
    assert abs(returns.mean() - exact) < 4 * returns.std() / np.sqrt(n_episodes)


class TinyEnv(gymnasium.Env):
    """An environment around any table."""

    def __init__(self, table=None, initial=(1.0, 0.0), observation_space=None, n_actions=1):
        if table is not None:
            self.P = table
        if initial is not None:
            self.initial_state_distrib = np.array(initial)
        self.observation_space = observation_space or gymnasium.spaces.Discrete(2)
        self.action_space = gymnasium.spaces.Discrete(n_actions)


@pytest.fixture
def tiny():
    """Register TinyEnv under a name of this test's own, and take it back."""
    gymnasium.registry["Tiny-v0"] = EnvSpec("Tiny-v0", entry_point=TinyEnv)
    yield lambda **kwargs: gymnasium_mdp("Tiny-v0", 3, kwargs)
    del gymnasium.registry["Tiny-v0"]


def test_duplicate_entries_add_up(tiny):
    row = [(0.25, 1, 2.0, False), (0.5, 0, 0.0, False), (0.25, 1, 4.0, False)]
    mdp = tiny(table={0: {0: row}, 1: {0: [(1.0, 1, 1.0, False)]}})
    assert mdp.transitions[0, 0, 0].tolist() == [0.5, 0.5]
    # Expected reward 1.5 in the range [0, 4].
    assert mdp.losses[0, :, 0].tolist() == [2.5 / 4, 3 / 4]
    assert mdp.n_states == 2


def test_state_entered_in_both_ways_is_not_made_absorbing(tiny):
    mdp = tiny(table={0: {0: [(0.5, 1, 1.0, True), (0.5, 1, 0.0, False)]}, 1: {0: [(1.0, 0, 0.0, False)]}})
    assert mdp.n_states == 3
    assert mdp.transitions[0, 0, 0].tolist() == [0, 0.5, 0.5]
    assert mdp.transitions[0, 1, 0].tolist() == [1, 0, 0]
    assert mdp.transitions[0, 2, 0].tolist() == [0, 0, 1]


def test_terminal_state_that_lists_ordinary_steps_is_absorbing(tiny):
    # The table of a state that nobody leaves does not count, not even a way back into it.
    mdp = tiny(table={0: {0: [(1.0, 1, 1.0, True)]}, 1: {0: [(0.5, 1, 5.0, False), (0.5, 0, 5.0, False)]}})
    assert mdp.n_states == 2
    assert mdp.transitions[0, 1, 0].tolist() == [0, 1]
    assert mdp.losses[0, 1, 0] == 1


def test_constant_rewards_have_loss_zero(tiny):
    mdp = tiny(table={0: {0: [(1.0, 0, 0.0, False)]}, 1: {0: [(1.0, 1, 0.0, False)]}})
    assert (mdp.losses == 0).all()
    assert mdp.loss_map.scale == 1


STAY = {0: {0: [(1.0, 0, 0.0, False)]}, 1: {0: [(1.0, 1, 0.0, False)]}}
BAD_TABLES = [
    ({}, "'Tiny-v0' has no transition table P; FrozenLake"),
    ({"table": {0: {0: []}}}, r"must hold a list of .* \(KeyError: 1\)"),
    ({"table": {0: STAY[0], 1: {0: [(1.0, 0)]}}}, "must hold a list of"),
    ({"table": {0: STAY[0], 1: {0: [(1.0, 2, 0.0, False)]}}}, "leads to state 2, but there are 2 states"),
    ({"table": {0: STAY[0], 1: {0: [(1.0, -1, 0.0, False)]}}}, "leads to state -1"),
    ({"table": {0: STAY[0], 1: {0: [(0.5, 0, 0.0, False)]}}}, "sums to 0.5"),
    ({"table": {0: STAY[0], 1: {0: [(1.0, 0, float("nan"), False)]}}}, "is nan"),
    ({"table": STAY, "initial": None}, "has no initial_state_distrib"),
    ({"table": STAY, "initial": [1.0]}, "must have 2 entries, got 1"),
    (
        {"table": STAY, "observation_space": gymnasium.spaces.MultiDiscrete([2])},
        "must have Discrete observations",
    ),
    ({"colour": "red"}, "Gymnasium cannot make 'Tiny-v0' with kwargs {'colour': 'red'}: TypeError"),
]


@pytest.mark.parametrize(("kwargs", "sentence"), BAD_TABLES)
def test_bad_tables_are_named(tiny, kwargs, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        tiny(**kwargs)


def test_bad_names_are_named():
    with pytest.raises(InvalidInputError, match="no environment 'FrozenLak-v1'; did you mean 'FrozenLake-v1'"):
        gymnasium_mdp("FrozenLak-v1", 5)
    with pytest.raises(InvalidInputError, match="Blackjack-v1' has no transition table P"):
        gymnasium_mdp("Blackjack-v1", 5)
    with pytest.raises(InvalidInputError, match="Malformed environment ID"):
        gymnasium_mdp("Frozen Lake", 5)
    with pytest.raises(InvalidInputError, match="id must be the name"):
        gymnasium_mdp(3, 5)
    with pytest.raises(InvalidInputError, match="horizon must be an integer of at least 1"):
        gymnasium_mdp("FrozenLake-v1", 0)
    with pytest.raises(MissingPartError, match="needs a part that is not installed"):
        gymnasium_mdp("no_such_module_of_anyone:Lake-v0", 5)
    with pytest.raises(InvalidInputError, match="leaves out fickle_passenger"):
        gymnasium_mdp(newest("Taxi"), 2, {"fickle_passenger": True})


def test_missing_gymnasium_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    sentence = r"Gymnasium is not installed; install it with `pip install tabpo\[gymnasium\]`"
    with pytest.raises(MissingPartError, match=sentence):
        gymnasium_mdp("FrozenLake-v1", 5)
    with pytest.raises(MissingPartError, match=sentence):
        to_gymnasium(river_swim())


EXPORTS = [random_mdp(4, 3, 5, seed=2), river_swim(), layered(4, 3), random_mdp(1, 1, 1)]


@pytest.mark.parametrize("mdp", EXPORTS, ids=lambda mdp: mdp.name)
@pytest.mark.parametrize("time_in_observation", [False, True])
def test_export_passes_gymnasiums_checker(mdp, time_in_observation):
    env = to_gymnasium(mdp, time_in_observation=time_in_observation)
    check_env(env)
    env.reset(seed=1)
    steps = [env.step(0) for _ in range(mdp.horizon)]
    assert [terminated for _, _, terminated, _, _ in steps] == [False] * (mdp.horizon - 1) + [True]
    assert all(env.observation_space.contains(observation) for observation, *_ in steps)
    assert all(-1 <= reward <= 0 for _, reward, *_ in steps)


@pytest.mark.parametrize("time_in_observation", [False, True])
def test_export_simulates_the_mdp(time_in_observation):
    """Occupancy of 4,000 episodes of uniform actions against the exact one.

    Each of 40 frequencies has a standard error of at most 0.5 / sqrt(4000) = 0.0079; the bound is 4 of these.
    """
    mdp = random_mdp(4, 2, 5, branching=2, seed=11)
    mdp = TabularMDP(mdp.transitions, [0, 0.5, 0.5, 0], mdp.losses)
    exact = np.empty((5, 4))
    exact[0] = mdp.initial
    for h in range(4):
        exact[h + 1] = exact[h] @ mdp.transitions[h].mean(1)

    env = to_gymnasium(mdp, time_in_observation=time_in_observation)
    actions = np.random.default_rng(1).integers(2, size=(4000, 5))
    counts = np.zeros((5, 4, 2))
    observation, _ = env.reset(seed=8)
    for episode in actions:
        for h, action in enumerate(episode):
            step, state = observation if time_in_observation else (h, observation)
            assert step == h
            counts[h, state, action] += 1
            observation, reward, _, _, _ = env.step(action)
            assert reward == -mdp.losses[h, state, action]
        observation, _ = env.reset()
    np.testing.assert_allclose(counts / len(actions), np.repeat(exact[..., None] / 2, 2, axis=2), atol=0.032)
    assert (counts.sum(2)[exact == 0] == 0).all()


def test_export_uses_gymnasiums_seed():
    def trajectory(seed):
        env = to_gymnasium(random_mdp(5, 2, 8))
        return [env.reset(seed=seed)[0]] + [env.step(1)[0] for _ in range(8)]

    assert trajectory(3) == trajectory(3)
    assert len({tuple(trajectory(seed)) for seed in range(5)}) == 5


def test_impossible_states_are_never_drawn():
    # Ten tenths add up to less than 1 in floating point; the state behind them has no probability.
    row = np.append(np.full(10, 0.1), 0)
    env = to_gymnasium(TabularMDP.stationary(np.tile(row, (11, 1, 1)), row, 2, np.zeros((11, 1))))

    class AlmostOne:
        def random(self):
            return np.nextafter(1, 0)

    env.reset(seed=0)
    env.np_random = AlmostOne()
    assert env.step(0)[0] == 9


def test_export_takes_other_losses_and_copies_itself():
    mdp = random_mdp(2, 2, 3)
    env = to_gymnasium(mdp, losses=np.full((3, 2, 2), 0.25))
    env.reset(seed=0)
    assert env.step(0)[1] == -0.25
    copy = env.spec.make()
    copy.reset(seed=0)
    assert copy.step(0)[1] == -0.25


def test_export_errors_are_sentences():
    mdp = random_mdp(2, 2, 3)
    with pytest.raises(InvalidInputError, match=r"losses must have shape \(H, S, A\) = \(3, 2, 2\)"):
        to_gymnasium(mdp, losses=np.zeros((1, 2, 2)))
    with pytest.raises(InvalidInputError, match=r"must lie in \[0, 1\]"):
        to_gymnasium(mdp, losses=np.full((3, 2, 2), 2.0))
    with pytest.raises(InvalidInputError, match="has no losses of its own"):
        to_gymnasium(TabularMDP(mdp.transitions, mdp.initial))
    env = to_gymnasium(mdp)
    with pytest.raises(InvalidInputError, match="call reset"):
        env.step(0)
    env.reset(seed=0)
    with pytest.raises(InvalidInputError, match=r"action must be an integer in 0\.\.1, got 2"):
        env.step(2)
