"""Loss sequences: what each promises about its means, exactly or within a stated error; sentences for bad input.

Statistical tests fix their seed. With z = 4.5 standard errors a right implementation fails at fewer than 1 seed in
100,000; the differences that are found with probability above 0.99 are noted at each.
"""

from __future__ import annotations

import inspect
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest

from tabpo.environments import (
    LOSSES,
    ArrayLosses,
    BernoulliLosses,
    CorruptedLosses,
    EnvironmentLosses,
    FileLosses,
    HardLosses,
    RandomWalkLosses,
    SinusoidalLosses,
    StochasticallyConstrainedLosses,
    SwitchingLosses,
)
from tabpo.errors import InvalidInputError
from tabpo.mdp import TabularMDP
from tests import reference_loop

H, S, A = 3, 4, 3
ARRAY = np.random.default_rng(7).random((H, S, A))


def small_mdp(n_actions: int = A, losses: bool = True, seed: int = 1) -> TabularMDP:
    rng = np.random.default_rng(seed)
    transitions = rng.dirichlet(np.ones(S), (H, S, n_actions))
    return TabularMDP(transitions, rng.dirichlet(np.ones(S)), rng.random((H, S, n_actions)) if losses else None)


MDP = small_mdp()
EVERY = {
    "array": ArrayLosses(ARRAY),
    "bernoulli": BernoulliLosses(gap=0.1),
    "corrupted": CorruptedLosses(budget=6.2),
    "environment": EnvironmentLosses(),
    "hard": HardLosses(),
    "random_walk": RandomWalkLosses(sigma=0.2),
    "sinusoidal": SinusoidalLosses(period=7.5, amplitude=0.5),
    "stochastically_constrained": StochasticallyConstrainedLosses(gap=0.2),
    "switching": SwitchingLosses(period=5),
}


def means(sequence, n_episodes: int, seed: int = 3, mdp: TabularMDP = MDP) -> np.ndarray:
    realised = sequence.realise(mdp, n_episodes, np.random.default_rng(seed))
    return np.stack([realised.mean(k) for k in range(n_episodes)])


def best_actions(mdp: TabularMDP, losses: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Greedy actions (H, S) and Q - V (H, S, A) by backward induction."""
    values = np.zeros(mdp.n_states)
    advantages = np.empty(mdp.shape)
    for h in reversed(range(mdp.horizon)):
        q_values = losses[h] + mdp.transitions[h] @ values
        values = q_values.min(1)
        advantages[h] = q_values - values[:, None]
    return advantages.argmin(-1), advantages


def test_registry_is_complete_and_described():
    assert set(LOSSES) == {*EVERY, "file", "adaptive"}  # those have tests of their own
    for name, call in LOSSES.items():
        assert inspect.getdoc(call).splitlines()[0].endswith("."), name
        if name in EVERY:
            assert isinstance(EVERY[name], call)


@pytest.mark.parametrize("name", EVERY)
def test_means_are_valid_and_a_function_of_the_generator(name):
    realised = EVERY[name].realise(MDP, 40, np.random.default_rng(3))
    first = []
    for k in range(40):
        mean = realised.mean(k)
        assert mean.shape == MDP.shape
        assert mean.dtype == np.float64
        assert mean.flags.c_contiguous
        assert mean.min() >= 0
        assert mean.max() <= 1
        first.append(mean.copy())
    np.testing.assert_array_equal(means(EVERY[name], 40), first)
    # an episode has one value, in whatever order episodes are asked for
    for k in (39, 3, 3, 17, 0):
        np.testing.assert_array_equal(realised.mean(k), first[k])
    assert realised.switches.dtype == np.int64
    assert realised.noise == ("bernoulli" if name in ("bernoulli", "corrupted", "hard") else "none")


@pytest.mark.parametrize("name", [name for name in EVERY if name not in ("array", "environment")])
def test_another_generator_gives_other_losses(name):
    assert (means(EVERY[name], 40, seed=3) != means(EVERY[name], 40, seed=4)).any()


@pytest.mark.parametrize("name", ["bernoulli", "random_walk", "sinusoidal", "stochastically_constrained", "switching"])
def test_more_episodes_continue_the_same_losses(name):
    np.testing.assert_array_equal(means(EVERY[name], 40)[:13], means(EVERY[name], 13))


def test_environment_losses_are_the_mdps_own():
    realised = EnvironmentLosses(noise="bernoulli").realise(MDP, 5, np.random.default_rng(0))
    np.testing.assert_array_equal(realised.mean(4), MDP.losses)
    assert realised.noise == "bernoulli"
    with pytest.raises(InvalidInputError, match="'mdp' has no losses of its own"):
        EnvironmentLosses().realise(small_mdp(losses=False), 5, np.random.default_rng(0))


def test_bernoulli_gap_is_the_advantage_of_every_other_action():
    mean = means(BernoulliLosses(gap=0.15, base=0.6), 1)[0]
    _, advantages = best_actions(MDP, mean)
    assert (np.isclose(advantages, 0, atol=1e-12).sum(-1) == 1).all()
    np.testing.assert_allclose(np.sort(advantages, axis=-1)[..., 1:], 0.15, atol=1e-12)
    assert mean.max() == 0.6


@pytest.mark.parametrize("base", [0.1, 0.15, 0.3, 0.6])
def test_the_best_loss_is_small_where_the_base_is_little_above_the_gap(base):
    """L* of first-order bounds: 0, 0.15, 0.6 and 1.5 an episode for a gap of 0.1 and 3 steps."""
    losses = means(BernoulliLosses(gap=0.1, base=base), 1)[0]
    least = reference_loop.expected_loss(MDP.transitions, MDP.initial, np.eye(A)[losses.argmin(-1)], losses)
    assert least == pytest.approx(H * (base - 0.1), abs=1e-14)
    actions, _ = best_actions(MDP, losses)
    np.testing.assert_array_equal(actions, losses.argmin(-1))  # the best policy of all


def test_best_actions_are_uniform():
    # 6,000 draws of 3 actions: shares within 4.5 standard errors of 0.0061; 0.045 off would be found
    sequence = BernoulliLosses()
    counts = np.zeros(A)
    for seed in range(500):
        counts += np.bincount(means(sequence, 1, seed)[0].argmin(-1).ravel(), minlength=A)
    share = counts / counts.sum()
    np.testing.assert_allclose(share, 1 / A, atol=4.5 * np.sqrt(2 / 9 / counts.sum()))


@pytest.mark.parametrize("budget", [0, 0.3, 0.7, 3.5, 6.2, 20])
@pytest.mark.parametrize("gap", [0, 0.2, 0.5])
@pytest.mark.parametrize("episodes", [None, tuple(range(3, 100, 2))])
def test_corruption_is_the_budget(budget, gap, episodes):
    sequence = CorruptedLosses(budget, gap=gap, episodes=episodes)
    corrupted = means(sequence, 100)
    clean = means(BernoulliLosses(gap), 1)[0]  # the same generator: the same best actions
    per_step = np.abs(corrupted - clean).max((2, 3))
    # rounding: a sum of at most 40 terms up to 1
    assert per_step.max(1).sum() == pytest.approx(budget, abs=1e-13)
    assert per_step.sum() == pytest.approx(H * budget, abs=1e-12)
    touched = np.flatnonzero(per_step.max(1))
    allowed = np.arange(100) if episodes is None else np.array(episodes)
    np.testing.assert_array_equal(touched, allowed[: len(touched)])
    if len(touched) > 1:  # the best action looks worst
        worst = corrupted[touched[:-1]]
        np.testing.assert_array_equal(worst, np.broadcast_to(worst[0] == 1, worst.shape))
        if gap:
            np.testing.assert_array_equal(worst[0].argmax(-1), clean.argmin(-1))


def test_corruption_records_where_it_begins_and_ends():
    switches = CorruptedLosses(1.5, gap=0.5, episodes=(2, 3, 8)).realise(MDP, 20, np.random.default_rng(0)).switches
    assert switches.tolist() == [2, 4]  # two episodes of 1 are enough
    assert CorruptedLosses(0).realise(MDP, 20, np.random.default_rng(0)).switches.size == 0


def test_corruption_that_cannot_be_spent():
    with pytest.raises(InvalidInputError, match=r"budget of 50 needs 72 episodes of at most 0\.7 .* 20 of the 20"):
        means(CorruptedLosses(50), 20)
    with pytest.raises(InvalidInputError, match="1 of the 20 can be corrupted"):
        means(CorruptedLosses(5, episodes=(3, 30)), 20)


@pytest.mark.parametrize("gap", [0.1, 0.2, 0.3, 0.45])
@pytest.mark.parametrize("n_reversed", [0, 1, 3, 7, 49, 512])
def test_a_budget_of_so_many_gaps_reverses_so_many_episodes(n_reversed, gap):
    """However n * gap / gap rounds; base and gap of the best-of-both-worlds experiments among them."""
    sequence = CorruptedLosses(n_reversed * gap, gap=gap, base=0.65, attack="reversed")
    clean = means(BernoulliLosses(gap, base=0.65), 1)[0]
    corrupted = means(sequence, 513)
    np.testing.assert_array_equal(corrupted[n_reversed:], np.broadcast_to(clean, (513 - n_reversed, H, S, A)))
    best = clean == clean.min(-1, keepdims=True)
    for episode in corrupted[:n_reversed]:  # the roles are exchanged; 1e-12 of the budget is not spent
        np.testing.assert_allclose(episode, np.where(best, 0.65, 0.65 - gap), atol=1e-12)
    constant = 2 * np.abs(corrupted - clean).max((2, 3)).sum()
    assert sequence.self_bounding_constant(H) == pytest.approx(constant, rel=1e-10, abs=1e-12)
    assert sequence.realise(MDP, 513, np.random.default_rng(0)).switches.tolist() == [n_reversed] * (n_reversed > 0)


@pytest.mark.parametrize(
    "sequence",
    [
        StochasticallyConstrainedLosses(gap=0.3),
        BernoulliLosses(gap=0.3, base=0.65),
        CorruptedLosses(2.5, gap=0.3, base=0.65, attack="reversed"),
        CorruptedLosses(2.5, gap=0.3, base=0.65),
    ],
)
def test_regimes_are_self_bounding(sequence, rng):
    """The inequality that logarithmic regret follows from, for policies that are random, good, bad and fooled.

    Without corruption it is an equality for every policy.
    """
    n_episodes, corruption = 20, getattr(sequence, "self_bounding_constant", lambda horizon: 0.0)(H)
    losses = means(sequence, n_episodes)
    best = np.eye(A)[losses[-1].argmin(-1)]
    for policies in (
        rng.dirichlet(np.ones(A), (n_episodes, H, S)),
        np.broadcast_to(best, losses.shape),
        np.broadcast_to(np.roll(best, 1, axis=-1), losses.shape),
        np.eye(A)[losses.argmin(-1)],
    ):
        regret = missed = 0.0
        for policy, mean in zip(policies, losses, strict=True):
            regret += reference_loop.expected_loss(MDP.transitions, MDP.initial, policy, mean)
            regret -= reference_loop.expected_loss(MDP.transitions, MDP.initial, best, mean)
            missed += reference_loop.expected_loss(MDP.transitions, MDP.initial, policy, 1 - best)
        assert regret >= 0.3 * missed - corruption - 1e-12
        if not corruption:
            assert regret == pytest.approx(0.3 * missed, abs=1e-12)


@pytest.mark.parametrize(("growth", "first"), [(Fraction(8, 5), 1), (Fraction(8, 5), 3), (Fraction(2), 1), (1, 7)])
def test_stochastically_constrained_phases_grow_and_their_best_actions_stay(growth, first):
    n_episodes, gap = 300, 0.3
    sequence = StochasticallyConstrainedLosses(gap, float(growth), first)
    lengths = [round(first * growth**n) for n in range(60)]  # of the exact powers
    starts = np.cumsum(lengths)
    realised = sequence.realise(MDP, n_episodes, np.random.default_rng(5))
    assert realised.switches.tolist() == starts[starts < n_episodes].tolist()
    best = realised.mean(0).argmin(-1)
    for k in range(n_episodes):
        phase = int((starts <= k).sum())
        mean = realised.mean(k)
        assert set(np.unique(mean)) == ({0.0, gap} if phase % 2 == 0 else {1.0, 1 - gap})
        actions, advantages = best_actions(MDP, mean)
        np.testing.assert_array_equal(actions, best)
        np.testing.assert_allclose(advantages, gap * (1 - np.eye(A)[best]), atol=1e-14)


def test_stochastically_constrained_losses_do_not_grow_with_the_episodes():
    short, long = (StochasticallyConstrainedLosses().realise(MDP, n, np.random.default_rng(0)) for n in (10, 10**9))
    assert len(long.switches) < 50  # log(10^9) / log(1.6) = 44
    assert long.means.nbytes == short.means.nbytes


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        (SwitchingLosses(period=7), [7, 14, 21, 28]),
        (SwitchingLosses(period=30), []),
        (SwitchingLosses(n_switches=0), []),
        (SwitchingLosses(n_switches=3), [7, 15, 22]),
        (SwitchingLosses(n_switches=29), list(range(1, 30))),
    ],
)
def test_switching_changes_every_best_action_at_the_switches_and_nowhere_else(sequence, expected):
    realised = sequence.realise(MDP, 30, np.random.default_rng(5))
    assert realised.switches.tolist() == expected
    best = [best_actions(MDP, realised.mean(k))[0] for k in range(30)]
    for k in range(1, 30):
        changed = best[k] != best[k - 1]
        assert changed.all() if k in expected else not changed.any()


def test_switching_reaches_every_other_action():
    # 2,400 switches of 5 actions to 4 others: shares within 4.5 standard errors of 0.0088
    mdp = small_mdp(n_actions=5)
    best = means(SwitchingLosses(period=1), 201, mdp=mdp).argmin(-1)
    share = np.bincount((np.diff(best, axis=0) % 5).ravel(), minlength=5) / (200 * H * S)
    np.testing.assert_allclose(share, [0, *[0.25] * 4], atol=4.5 * np.sqrt(0.25 * 0.75 / 2400))


def test_sinusoid_averages_out_over_a_period():
    drift = means(SinusoidalLosses(period=24, amplitude=0.2, base=0.6), 48)
    # equally spaced samples of a sinusoid: mean and mean square are those of the continuous one
    np.testing.assert_allclose(drift[:24].mean(0), 0.6, atol=1e-14)
    np.testing.assert_allclose(((drift[:24] - 0.6) ** 2).mean(0), 0.2**2 / 2, atol=1e-14)
    np.testing.assert_allclose(drift[24:], drift[:24], atol=1e-14)
    assert np.abs(np.diff(drift, axis=0)).max() <= 0.2 * 2 * np.pi / 24
    assert (best_actions(MDP, drift[0])[0] != best_actions(MDP, drift[12])[0]).all()  # each is at its opposite


def test_sinusoid_phases_are_uniform():
    # sin of a uniform phase has mean 0 and variance 1/2; 14,400 phases, 4.5 standard errors
    sequence = SinusoidalLosses(period=10, amplitude=0.5)
    sine = np.concatenate([means(sequence, 1, seed).ravel() for seed in range(400)]) * 2 - 1
    assert abs(sine.mean()) < 4.5 * np.sqrt(0.5 / sine.size)
    assert abs((sine**2).mean() - 0.5) < 4.5 * np.sqrt(1 / 8 / sine.size)


def test_random_walk_moves_as_it_says_and_stays_uniform():
    sigma, n_episodes = 0.02, 60
    walks = np.stack([means(RandomWalkLosses(sigma), n_episodes, seed) for seed in range(250)])
    steps = np.diff(walks, axis=1)
    inside = steps[(np.abs(walks[:, :-1] - 0.5) < 0.35)]  # 7 sigma from the mirrors
    assert abs(inside.mean()) < 4.5 * sigma / np.sqrt(inside.size)
    assert abs(inside.std() / sigma - 1) < 4.5 / np.sqrt(2 * inside.size)
    # uniform at the end: 9,000 independent walks, mean 1/2 and variance 1/12, as at the start
    last = walks[:, -1].ravel()
    assert abs(last.mean() - 0.5) < 4.5 * np.sqrt(1 / 12 / last.size)
    assert abs(last.var() - 1 / 12) < 4.5 * np.sqrt(1 / 180 / last.size)
    # independent between entries: the correlation of neighbours is 0 within 4.5 standard errors
    pairs = steps.reshape(-1, H * S * A)
    assert abs(np.corrcoef(pairs[:, 0], pairs[:, 1])[0, 1]) < 4.5 / np.sqrt(len(pairs))


def test_random_walk_reflects_steps_of_any_length():
    walk = means(RandomWalkLosses(sigma=50.0), 300)
    assert walk.min() >= 0
    assert walk.max() <= 1
    assert abs(walk[1:].mean() - 0.5) < 4.5 * np.sqrt(1 / 12 / walk[1:].size)


def test_hard_losses_have_the_gap_of_the_bandit_bound():
    for n_episodes, gap in ((10_000, 0.5 * np.sqrt(S * (A - 1) / 10_000)), (10, 0.25)):
        mean = HardLosses().realise(MDP, n_episodes, np.random.default_rng(0)).mean(0)
        np.testing.assert_allclose(np.sort(mean, axis=-1), np.broadcast_to([0.5 - gap, 0.5, 0.5], MDP.shape))
    # so small that telling the best action from another takes all K / S rounds that a state gets, shared among the
    # A actions: KL(Bernoulli(1/2) || Bernoulli(1/2 - gap)) * rounds per action is at most 1
    gap = HardLosses().gap(MDP, 10_000)
    divergence = -0.5 * np.log(1 - 4 * gap**2)
    assert 0.1 < divergence * 10_000 / S / A < 1


def test_array_losses():
    per_episode = np.random.default_rng(0).random((6, H, S, A))
    np.testing.assert_array_equal(means(ArrayLosses(ARRAY.tolist()), 4), np.broadcast_to(ARRAY, (4, H, S, A)))
    np.testing.assert_array_equal(means(ArrayLosses(per_episode), 4), per_episode[:4])
    with pytest.raises(InvalidInputError, match="losses for 6 episodes, but n_episodes is 7"):
        means(ArrayLosses(per_episode), 7)


def test_array_is_copied_and_cannot_be_written_to():
    given = ARRAY.copy()
    sequence = ArrayLosses(given)
    given[:] = 0
    np.testing.assert_array_equal(means(sequence, 1)[0], ARRAY)
    with pytest.raises(ValueError, match="read-only"):
        sequence.realise(MDP, 1, np.random.default_rng(0)).mean(0)[:] = 0


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: ArrayLosses(ARRAY + 0.5), r"losses is 1\.\d+ at \(h, s, a\) = \(0, 0, \d\); it must lie in \[0, 1\]"),
        (lambda: ArrayLosses(np.full((2, H, S, A), -0.1)), r"losses is -0\.1 at \(k, h, s, a\) = \(0, 0, 0, 0\)"),
        (lambda: ArrayLosses(np.full((H, S, A), np.nan)), r"losses is nan at \(h, s, a\)"),
        (lambda: ArrayLosses(ARRAY[0]), r"losses must have 3 axes \(h, s, a\), got shape \(4, 3\)"),
        (lambda: ArrayLosses([[["x"]]]), "losses must be an array of numbers"),
        (lambda: ArrayLosses(ARRAY, noise="gauss"), "unknown noise 'gauss'"),
        (lambda: BernoulliLosses(gap=0.6), r"gap must be at most base = 0\.5 .*, got 0\.6"),
        (lambda: BernoulliLosses(gap=-0.1), "gap must be a number of at least 0 and at most 1, got -0.1"),
        (lambda: BernoulliLosses(base=1.1), "base must be a number of at least 0 and at most 1, got 1.1"),
        (lambda: BernoulliLosses(gap="0.1"), "gap must be a number .*, got '0.1'"),
        (lambda: BernoulliLosses(gap=float("nan")), "gap must be a number .*, got nan"),
        (lambda: CorruptedLosses(-1), "budget must be a number of at least 0, got -1"),
        (lambda: CorruptedLosses(float("inf")), "budget must be a number of at least 0, got inf"),
        (lambda: CorruptedLosses(1, episodes=(3, 3)), r"episodes must increase, got \[3, 3\]"),
        (lambda: CorruptedLosses(1, episodes=(-1,)), "episodes: each must be an integer of at least 0, got -1"),
        (lambda: CorruptedLosses(1, attack="revers"), "unknown attack 'revers'; did you mean 'reversed'"),
        (lambda: CorruptedLosses(2, gap=0, attack="reversed"), "without a gap there is nothing to reverse for .* 2"),
        (lambda: StochasticallyConstrainedLosses(gap=1.5), "gap must be a number of at least 0 and at most 1, got 1.5"),
        (lambda: StochasticallyConstrainedLosses(growth=0.9), "growth must be a number of at least 1, got 0.9"),
        (lambda: StochasticallyConstrainedLosses(first=0), "first must be an integer of at least 1, got 0"),
        (lambda: StochasticallyConstrainedLosses(noise="gauss"), "unknown noise 'gauss'"),
        (lambda: SwitchingLosses(), "give either period or n_switches, got period=None and n_switches=None"),
        (lambda: SwitchingLosses(3, 4), "give either period or n_switches, got period=3 and n_switches=4"),
        (lambda: SwitchingLosses(period=0), "period must be an integer of at least 1, got 0"),
        (lambda: SwitchingLosses(period=2.5), "period must be an integer of at least 1, got 2.5"),
        (lambda: SinusoidalLosses(period=0), "period must be a number above 0, got 0"),
        (lambda: SinusoidalLosses(5, amplitude=0.4, base=0.7), r"amplitude must be .* at most 0\.3, got 0\.4"),
        (lambda: RandomWalkLosses(sigma=-1), "sigma must be a number of at least 0, got -1"),
        (lambda: HardLosses(scale=-1), "scale must be a number of at least 0, got -1"),
        (lambda: FileLosses("losses.txt"), r"the file 'losses\.txt' must end in \.npy, \.npz, \.csv, \.parquet"),
        (lambda: FileLosses(3), "path must be the path of a file, got 3"),
    ],
)
def test_bad_parameters_are_sentences(make, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("sequence", "n_actions", "sentence"),
    [
        (SwitchingLosses(n_switches=10), A, "n_switches must be below n_episodes = 10, got 10"),
        (SwitchingLosses(period=3), 1, "need an MDP with at least 2 actions"),
        (CorruptedLosses(1), 1, "need an MDP with at least 2 actions"),
        (ArrayLosses(ARRAY), 2, r"must have the shape \(H, S, A\) = \(3, 4, 2\), or .*, got \(3, 4, 3\)"),
        (ArrayLosses(ARRAY[None]), 2, r"must have the shape .* got \(1, 3, 4, 3\)"),
    ],
)
def test_what_does_not_fit_the_mdp_is_a_sentence(sequence, n_actions, sentence):
    with pytest.raises(InvalidInputError, match=sentence):
        means(sequence, 10, mdp=small_mdp(n_actions))


def table(losses: np.ndarray, episodes: bool) -> pd.DataFrame:
    names = ("episode", "step", "state", "action")[0 if episodes else 1 :]
    rows = [(*index, losses[index]) for index in product(*map(range, losses.shape))]
    return pd.DataFrame(rows, columns=[*names, "loss"])


def write(folder, name: str, losses: np.ndarray):
    path = folder / name
    if path.suffix == ".npy":
        np.save(path, losses)
    elif path.suffix == ".npz":
        np.savez(path, losses=losses)
    else:
        shuffled = table(losses, losses.ndim == 4).sample(frac=1, random_state=0)  # rows in any order
        shuffled.to_csv(path, index=False) if path.suffix == ".csv" else shuffled.to_parquet(path)
    return path


@pytest.mark.parametrize("suffix", ["npy", "npz", "csv", "parquet"])
def test_files_hold_what_was_written(tmp_path, suffix):
    for losses in (ARRAY, np.random.default_rng(0).random((5, H, S, A))):
        path = write(tmp_path, f"losses.{suffix}", losses)
        np.testing.assert_array_equal(means(FileLosses(path), 5), np.broadcast_to(losses, (5, H, S, A)))
    assert FileLosses(str(path), noise="bernoulli").realise(MDP, 3, np.random.default_rng(0)).noise == "bernoulli"
    with pytest.raises(InvalidInputError, match=r"losses\.\w+' has losses for 5 episodes, but n_episodes is 6"):
        means(FileLosses(path), 6)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda t: t.drop(columns="loss"), r"no column 'loss' \(it has: step, state, action\)"),
        (lambda t: t.rename(columns={"action": "actions"}), "no column 'action'; did you mean 'actions'"),
        (lambda t: t.drop(index=5), "has no row for step 0, state 1, action 2"),
        (lambda t: t.drop(index=len(t) - 1), "has no row for step 2, state 3, action 2"),
        (lambda t: pd.concat([t, t.iloc[4:5]]), "has two rows for step 0, state 1, action 1"),
        (lambda t: pd.concat([t, t.iloc[-1:]]), "has two rows for step 2, state 3, action 2"),
        (
            lambda t: t.assign(state=t.state + 1),
            r"'state' of 'x.csv' is 4 in row 9; it must be a whole number in 0 \.\.\. 3",
        ),
        (lambda t: t.assign(step=t.step + 0.5), r"'step' of 'x.csv' is 0\.5 in row 0"),
        (lambda t: t.assign(loss=t.loss.where(t.index != 7)), "'loss' of 'x.csv' is nan in row 7"),
        (lambda t: t.assign(loss="much"), "'loss' of 'x.csv' is much in row 0; every entry must be a number"),
        (lambda t: t.assign(loss=2), r"the loss in 'x.csv' is 2 at \(h, s, a\) = \(0, 0, 0\)"),
        (lambda t: t.assign(episode=1), "has no row for episode 0, step 0, state 0, action 0"),
        (lambda t: t.assign(episode=10**12), "'episode' of 'x.csv' is 1e.12 in row 0"),
        (lambda t: t.assign(episode=-1), "'episode' of 'x.csv' is -1 in row 0"),
        (lambda t: t.iloc[:0], "has no rows"),
    ],
)
def test_bad_tables_are_sentences(tmp_path, change, sentence):
    change(table(ARRAY, episodes=False)).to_csv(tmp_path / "x.csv", index=False)
    with pytest.raises(InvalidInputError, match=sentence):
        means(FileLosses(tmp_path / "x.csv"), 1)


def test_bad_files_are_sentences(tmp_path):
    (tmp_path / "losses.csv").write_text("")
    (tmp_path / "losses.parquet").write_text("no")
    (tmp_path / "losses.npy").write_text("no")
    (tmp_path / "losses.npz").write_bytes(b"PK\x03\x04 no")
    for name, sentence in (("losses.csv", "table"), ("losses.parquet", "table"), ("losses.npy", "NumPy array")):
        with pytest.raises(InvalidInputError, match=f"'{name}' cannot be read as a {sentence}"):
            means(FileLosses(tmp_path / name), 1)
    with pytest.raises(InvalidInputError, match=r"'losses\.npz' cannot be read as a NumPy array"):
        means(FileLosses(tmp_path / "losses.npz"), 1)
    with pytest.raises(InvalidInputError, match=r"there is no file .*lossess\.csv'; did you mean 'losses\.csv'"):
        FileLosses(tmp_path / "lossess.csv")


def test_archives_with_several_arrays_need_a_key(tmp_path):
    np.savez(tmp_path / "two.npz", summer=ARRAY, winter=1 - ARRAY)
    np.testing.assert_array_equal(means(FileLosses(tmp_path / "two.npz", key="winter"), 1)[0], 1 - ARRAY)
    with pytest.raises(
        InvalidInputError, match=r"holds the arrays \['summer', 'winter'\]; key must name one, got 'winer'"
    ):
        means(FileLosses(tmp_path / "two.npz", key="winer"), 1)
    with pytest.raises(InvalidInputError, match="key must name one, got None"):
        means(FileLosses(tmp_path / "two.npz"), 1)
