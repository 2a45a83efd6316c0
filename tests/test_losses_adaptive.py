"""The adaptive adversary: against slow loops, run by run; a user's own adversary; sweeps and what cannot be asked."""

from __future__ import annotations

import tracemalloc
from functools import partial

import array_api_strict
import numpy as np
import pandas as pd
import pytest

from tabpo import Environment, InvalidInputError, TabularMDP, figures, listing, simulate
from tabpo.environments import AdaptiveLosses, AdversarialDelays, Adversary, GeometricDelays
from tabpo.learners import DAPO, resolve
from tabpo.sweep import run_experiment
from tests import reference_loop
from tests.conftest import random_policy

H, S, A, K = 3, 2, 2, 60
# A few dozen episodes of sums of order 1 in another order, through a softmax: 1e-10 is 10^4 times their rounding.
CLOSE = {"rtol": 1e-10, "atol": 1e-10}


@pytest.fixture
def mdp(rng):
    return random_model(rng, H, S, A)


def random_model(rng, n_steps, n_states, n_actions):
    rows = rng.dirichlet(np.ones(n_states), (n_steps, n_states, n_actions))
    return TabularMDP(rows, rng.dirichlet(np.ones(n_states)))


def answer(policy: np.ndarray, high: float = 1.0, low: float = 0.0) -> np.ndarray:
    """What the adversary says to one run's policy (H, S, A), action by action."""
    losses = np.full(policy.shape, low)
    for h, s in np.ndindex(policy.shape[:2]):
        likeliest = 0
        for a in range(policy.shape[2]):
            if policy[h, s, a] > policy[h, s, likeliest]:
                likeliest = a
        losses[h, s, likeliest] = high
    return losses


@pytest.mark.parametrize("xp", [np, array_api_strict])
def test_the_likeliest_action_costs_most_and_the_lowest_of_several(xp, mdp, rng):
    policy = random_policy(rng, H, S, 4, 50)
    policy[..., :20] = rng.integers(1, 3, (H, S, 4, 20))  # many ties
    policy /= policy.sum(2, keepdims=True)
    adversary = AdaptiveLosses(high=0.7, low=0.1).realise(mdp, 5, rng)
    losses = adversary.respond(0, xp.asarray(policy))
    expected = np.stack([answer(policy[..., r], 0.7, 0.1) for r in range(50)], axis=-1)
    np.testing.assert_array_equal(np.asarray(losses), expected)
    assert type(losses) is type(xp.asarray(policy))
    assert isinstance(adversary, Adversary)
    assert AdaptiveLosses(noise="bernoulli").realise(mdp, 5, rng).noise == "bernoulli"


def play_dapo(mdp, sequence, delays, eta, gamma, seed, run):
    """One run of DAPO against the adversary in plain NumPy: losses (K, H, S, A), expected and sampled loss (K,)."""
    uniforms = reference_loop.philox(seed, reference_loop.TRAJECTORY, run).random((K, 2 * H))
    noise = reference_loop.philox(seed, reference_loop.FEEDBACK, run).random((K, H))
    log_weights = np.zeros((H, S, A))
    stored, chosen, expected, sampled = [], [], [], []
    for k in range(K):
        weights = np.exp(log_weights - log_weights.max(2, keepdims=True))
        policy = weights / weights.sum(2, keepdims=True)
        losses = answer(policy, sequence.high, sequence.low)
        states, actions, observed = [], [], []
        distribution = mdp.initial
        for h in range(H):
            states.append(reference_loop.draw(distribution, uniforms[k, 2 * h]))
            actions.append(reference_loop.draw(policy[h, states[h]], uniforms[k, 2 * h + 1]))
            mean = losses[h, states[h], actions[h]]
            observed.append(float(noise[k, h] < mean) if sequence.noise == "bernoulli" else mean)
            distribution = mdp.transitions[h, states[h], actions[h]]
        mu = reference_loop.occupancy(mdp.transitions, mdp.initial, policy)
        stored.append((policy, mu, states, actions, observed))
        chosen.append(losses)
        expected.append(reference_loop.expected_loss(mdp.transitions, mdp.initial, policy, losses))
        sampled.append(sum(observed))
        for j in range(k + 1):
            if j + delays[j] == k:
                log_weights -= eta * reference_loop.dapo_term(*stored[j], policy, mdp.transitions, gamma, 1.0)
    return np.array(chosen), np.array(expected), np.array(sampled)


@pytest.mark.parametrize("noise", ["none", "bernoulli"])
@pytest.mark.parametrize("delayed", [False, True])
def test_dapo_is_what_a_loop_in_plain_numpy_computes(noise, delayed, mdp, rng):
    """Expected and sampled loss, and the regret against the run's own best policies, at every episode."""
    sequence = AdaptiveLosses(high=0.9, low=0.2, noise=noise)
    delays = rng.integers(0, 25, K) * delayed
    learner = partial(DAPO, step_size=0.2, exploration=0.05)
    result = simulate(Environment(mdp, sequence, delays), learner, K, 4, 11, checkpoints=range(1, K + 1))
    policies = list(reference_loop.deterministic_policies(H, S, A))
    for r in range(4):
        losses, expected, sampled = play_dapo(mdp, sequence, delays, 0.2, 0.05, 11, r)
        totals = np.cumsum(losses, axis=0)
        values = np.array(
            [[reference_loop.expected_loss(mdp.transitions, mdp.initial, p, t) for t in totals] for p in policies]
        )
        own, best = values.min(0), values[values[:, -1] < values[:, -1].min() + 1e-9]
        np.testing.assert_allclose(result.expected_loss[:, r], np.cumsum(expected), **CLOSE)
        np.testing.assert_allclose(result.sampled_loss[:, r], np.cumsum(sampled), **CLOSE)
        np.testing.assert_allclose(result.comparator_loss[:, r], own, **CLOSE)
        # Sums of two values tie often: any of the best policies of all episodes may be the final comparator.
        final = result.final_comparator_loss[:, r]
        assert np.abs(best - final).max(1).min() < 1e-10
        np.testing.assert_allclose(result.regret[:, r], np.cumsum(expected) - own, **CLOSE)
        np.testing.assert_array_equal(result.final_regret[:, r], result.expected_loss[:, r] - final)
    # The runs differ in what they compare with, and so does the table that is stored.
    assert np.ptp(result.comparator_loss[-1]) > 0.1
    table = result.frame().pivot(index="episode", columns="run", values="comparator_loss")
    np.testing.assert_array_equal(table.to_numpy(), result.comparator_loss)
    assert result.lost_feedback == np.sum(np.arange(K) + delays >= K)


NUMBERS = ("regret", "final_regret", "expected_loss", "sampled_loss", "comparator_loss", "final_comparator_loss")
LEARNERS = {
    "dapo": "dapo",
    "unknown": resolve("dapo", {"transitions": "unknown"}),
    "wrapped": resolve("dapo", {"skipping": 4, "doubling": True}),
    "d_oppo": "d_oppo",
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_run_depends_on_its_seed_and_index_only(name, rng):
    """Its comparators included, bit for bit, wherever the checkpoints are."""
    environment = Environment(random_model(rng, 3, 5, 4), AdaptiveLosses(noise="bernoulli"), rng.integers(0, 9, K))
    play = partial(simulate, environment, LEARNERS[name], K)
    together = play(21, 7)
    for run in (0, 13, 20):
        alone = play(1, 7, runs=[run], checkpoints=[9, 30])
        elsewhere = play(3, 7, runs=[2, run, 99])
        for numbers in NUMBERS:
            np.testing.assert_array_equal(getattr(elsewhere, numbers)[:, 1], getattr(together, numbers)[:, run])
            if not numbers.startswith("final"):
                rows = np.searchsorted(together.episodes, alone.episodes)
                np.testing.assert_array_equal(getattr(alone, numbers)[:, 0], getattr(together, numbers)[rows, run])
    assert len(set(together.comparator_loss[-1])) > 1


def test_other_array_libraries_give_the_same_numbers(mdp, rng):
    environment = Environment(mdp, AdaptiveLosses(high=0.9, noise="bernoulli"), rng.integers(0, 9, K))
    play = partial(simulate, environment, partial(DAPO, step_size=0.1, exploration=0.05), K, 5, 3)
    compiled, strict = play(), play(xp=array_api_strict)
    for numbers in NUMBERS:
        np.testing.assert_allclose(getattr(strict, numbers), getattr(compiled, numbers), rtol=1e-12, atol=1e-11)


def test_learners_with_full_information_see_the_losses_of_their_run(mdp, rng):
    given = [random_policy(rng, H, S, A, 3) for _ in range(6)]

    class Watching:
        full_information = True

        def __init__(self, problem):
            pass

        def act(self, k):
            return given[k]

        def learn(self, k, arrivals):
            for j in arrivals:
                expected = np.stack([answer(given[j.episode][..., r]) for r in range(3)], axis=-1)
                np.testing.assert_array_equal(j.loss_table, expected)
                rows = np.arange(H)[:, None]
                np.testing.assert_array_equal(j.losses, expected[rows, j.states, j.actions, np.arange(3)])

    simulate(Environment(mdp, AdaptiveLosses(), 2), Watching, 6, 3)


def test_nobody_knows_the_best_policy_in_advance(mdp):
    with pytest.raises(InvalidInputError, match=r"not known in advance, since these losses adapt .* 'optimal'"):
        simulate(Environment(mdp, AdaptiveLosses()), "optimal", 5)


def test_adversarial_delays_withhold_every_episode_but_the_first(mdp):
    world = Environment(mdp, AdaptiveLosses(), AdversarialDelays(length=3, extra=2)).realise(9, 0)
    assert world.losses.switches.tolist() == list(range(1, 9))
    assert world.delays.tolist() == [0, *[4] * 8]
    result = simulate(Environment(mdp, AdaptiveLosses(), AdversarialDelays(3, 2)), "dapo", 9, 2)
    assert result.lost_feedback == 4


def test_learning_against_it_costs_every_policy_at_least_its_share(mdp):
    """Each step costs 1/A at the least, whatever is played; a policy that never changes pays for every step."""
    result = simulate(Environment(mdp, AdaptiveLosses()), "dapo", 200, 3)
    assert (result.expected_loss[-1] >= 200 * H / A - 1e-9).all()

    class Stubborn:
        def __init__(self, problem):
            pass

        def act(self, k):
            return np.broadcast_to([0.0, 1.0], (H, S, A))

        def learn(self, k, arrivals):
            pass

    stubborn = simulate(Environment(mdp, AdaptiveLosses()), Stubborn, 10, 1)
    assert stubborn.regret[-1, 0] == pytest.approx(10 * H)


def test_memory_does_not_grow_with_the_episodes(rng):
    """1500 episodes more would be 5 MB of losses; delays and switches are 8 bytes an episode."""
    environment = Environment(random_model(rng, 5, 5, 4), AdaptiveLosses(), 20)
    simulate(environment, "dapo", 300, 4)  # imports, compilation

    def peak(n_episodes):
        tracemalloc.start()
        simulate(environment, "dapo", n_episodes, 4, checkpoints=10)
        most = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return most

    assert peak(2000) - peak(500) < 0.03 * 1500 * 5 * 5 * 4 * 4 * 8


def test_sums_that_do_not_fit_into_memory_are_refused(rng):
    environment = Environment(random_model(rng, 10, 20, 5), AdaptiveLosses())
    with pytest.raises(InvalidInputError, match="each run's own, and the sums of 1000000 runs at 200 checkpoints take"):
        simulate(environment, "dapo", 200, 1_000_000, checkpoints=range(1, 201))


@pytest.mark.parametrize(
    ("parameters", "sentence"),
    [
        ({"low": -0.1}, "low must be a number of at least 0 and at most 1, got -0.1"),
        ({"high": 1.1}, "high must be a number of at least 0 and at most 1, got 1.1"),
        ({"high": 0.3, "low": 0.4}, "high must be a number of at least 0.4 and at most 1, got 0.3"),
        ({"high": float("nan")}, "high must be a number .*, got nan"),
        ({"noise": "gauss"}, "unknown noise 'gauss'"),
    ],
)
def test_bad_parameters_are_sentences(parameters, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        AdaptiveLosses(**parameters)


def test_show_says_that_there_is_nothing_to_draw(mdp):
    shown = listing.show("adaptive", {"high": 0.9}, draw=False)
    assert "the likeliest action costs most" in shown.text
    assert "each run's own, chosen as it plays: there is no drawing of them" in shown.text
    assert shown.figure is None
    with pytest.raises(InvalidInputError, match=r"\(loss sequence 'adaptive' on grid_world\) cannot be drawn without"):
        listing.show("adaptive", {})
    with pytest.raises(InvalidInputError, match="losses that adapt to a learner's policies cannot be drawn"):
        figures.loss_sequence(AdaptiveLosses().realise(mdp, 5, np.random.default_rng(0)), 5)


class Own:
    """A user's adversary, recipe and realisation in one: answers with a function of the policies."""

    def __init__(self, respond, noise="none", switches=()):
        self.function, self.noise, self.switches = respond, noise, list(switches)

    def realise(self, mdp, n_episodes, rng):
        return self

    def respond(self, k, policy):
        return self.function(policy)


def spoiled(value, *where):
    def respond(policy):
        losses = np.full(policy.shape, 0.5)
        losses[where] = value
        return losses

    return respond


@pytest.mark.parametrize(
    "form", [lambda x: x, lambda x: x.tolist(), lambda x: x.astype(np.float32), lambda x: np.asfortranarray(x)]
)
def test_own_adversaries_may_answer_in_any_form(form, mdp):
    """Powers of two are the same in float32."""
    reference = simulate(Environment(mdp, AdaptiveLosses(0.5, 0.25)), "dapo", 20, 3)
    adversary = AdaptiveLosses(0.5, 0.25).realise(mdp, 20, np.random.default_rng(0))
    own = Own(lambda policy: form(adversary.respond(0, policy)), switches=[3, 8])
    result = simulate(Environment(mdp, own), "dapo", 20, 3)
    np.testing.assert_array_equal(result.regret, reference.regret)
    world = Environment(mdp, own, AdversarialDelays(2)).realise(20, 0)
    assert np.flatnonzero(world.delays).tolist() == [3, 8]


def test_own_adversaries_meet_the_arrays_of_the_simulation(mdp):
    halves = Own(lambda policy: array_api_strict.full(policy.shape, 0.5))
    result = simulate(Environment(mdp, halves), "dapo", 5, 2, xp=array_api_strict)
    np.testing.assert_allclose(result.expected_loss[-1], 5 * H / 2)


def test_own_adversaries_may_use_their_array_again(mdp):
    """Feedback that is delayed holds the losses that were, though the adversary overwrites its array."""
    array, seen = np.empty((H, S, A, 2)), {}

    def respond(policy):
        array[:] = 1 - policy
        return array

    class Watching:
        full_information = True

        def __init__(self, problem):
            self.policies = [random_policy(np.random.default_rng(k), H, S, A, 2) for k in range(6)]

        def act(self, k):
            return self.policies[k]

        def learn(self, k, arrivals):
            seen.update({j.episode: np.abs(j.loss_table - (1 - self.policies[j.episode])).max() for j in arrivals})

    simulate(Environment(mdp, Own(respond), 2), Watching, 6, 2)
    assert seen == dict.fromkeys(range(4), 0.0)


@pytest.mark.parametrize(
    ("losses", "sentence"),
    [
        (Own(spoiled(1.5, 1, 1, 0, 2)), r"Own\.respond\(0\) is 1\.5 at \(h, s, a, run\) = \(1, 1, 0, 2\); it must lie"),
        (Own(spoiled(-0.1, 2, 0, 1, 0)), r"Own\.respond\(0\) is -0\.1 at \(h, s, a, run\) = \(2, 0, 1, 0\)"),
        (Own(spoiled(np.nan, 0, 1, 1, 1)), r"Own\.respond\(0\) is nan at \(h, s, a, run\) = \(0, 1, 1, 1\)"),
        (Own(lambda p: p[..., 0]), r"must have shape \(H, S, A, R\) = \(3, 2, 2, 3\), got \(3, 2, 2\)"),
        (Own(lambda p: p[..., :1]), r"must have shape \(H, S, A, R\) = \(3, 2, 2, 3\), got \(3, 2, 2, 1\)"),
        (Own(lambda p: "loss"), r"Own\.respond\(0\) must return an array of numbers \(H, S, A, R\)"),
        (Own(lambda p: None), r"must have shape \(H, S, A, R\) = \(3, 2, 2, 3\), got \(\)"),
        (Own(lambda p: [[1, 2], [3]]), r"Own\.respond\(0\) must return an array of numbers"),
        (Own(lambda p: p, noise="gauss"), "unknown noise 'gauss'"),
        (Own(lambda p: p, switches=[9]), r"Own\.switches must be increasing episodes in 0 \.\.\. 4, got \[9\]"),
    ],
)
def test_own_adversaries_are_checked(losses, sentence, mdp):
    with pytest.raises(InvalidInputError, match=sentence):
        simulate(Environment(mdp, losses), "uniform", 5, 3)


def test_own_adversaries_without_switches_are_a_sentence(mdp):
    class Bare(Own):
        def __init__(self):
            self.noise = "none"

    with pytest.raises(InvalidInputError, match=r"or respond\(k, policy\) if they adapt .*; Bare has no 'switches'"):
        Environment(mdp, Bare()).realise(5, 0)


CONFIG = """
seed = 3
n_episodes = 30
n_runs = 4
runs_per_cell = 1
checkpoints = 4
[[mdps]]
kind = "layered"
horizon = 3
width = 3
n_actions = 3
concentration = 2
[[mdps]]
kind = "exploration_chain"
[[losses]]
kind = "adaptive"
grid = { low = [0.0, 0.25] }
[[losses]]
kind = "stochastically_constrained"
[[losses]]
kind = "corrupted"
attack = "reversed"
gap = 0.3
base = 0.65
grid = { budget = [0, 3] }
[[delays]]
kind = "none"
[[delays]]
kind = "geometric"
mean = 5
[[learners]]
kind = "dapo"
tuning = "practical"
"""


def test_regimes_in_a_sweep_do_not_depend_on_the_blocks_of_runs(tmp_path):
    """All kinds of losses from one grid, in blocks of 3 and of 4 runs."""
    frames = []
    for size in (3, 4):
        config = tmp_path / f"blocks_of_{size}.toml"
        config.write_text(CONFIG.replace("runs_per_cell = 1", f"runs_per_cell = {size}"))
        results = run_experiment(config, tmp_path / f"out{size}")
        frame = results.frame()
        frames.append(frame.sort_values(["mdp", "losses", "delays", "run", "episode"], ignore_index=True))
    pd.testing.assert_frame_equal(*frames, check_exact=True)
    last = frames[0][frames[0].episode == 30]
    spread = last.groupby(["mdp", "losses", "delays"]).comparator_loss.nunique()
    assert (spread[spread.index.get_level_values("losses").str.startswith("adaptive")] > 1).all()
    assert (spread[~spread.index.get_level_values("losses").str.startswith("adaptive")] == 1).all()
    assert (last.groupby("losses").size() == 2 * 2 * 4).all()


def test_delays_and_losses_have_a_seed_of_their_own(mdp):
    environment = Environment(mdp, AdaptiveLosses(), GeometricDelays(4), seed=9)
    one, other = (simulate(environment, "dapo", K, 3, seed) for seed in (1, 2))
    assert one.total_delay == other.total_delay
    assert (one.comparator_loss[-1] != other.comparator_loss[-1]).any()
    np.testing.assert_array_equal(simulate(environment, "dapo", K, 3, 1).regret, one.regret)
