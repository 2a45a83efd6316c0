"""A run's random numbers depend on its seed, purpose and index, and on nothing else."""

from __future__ import annotations

import numpy as np
import pytest

from tabpo.errors import InvalidInputError
from tabpo.streams import Purpose, UniformBlocks, stream


def test_streams_are_philox_of_a_spawn_key():
    expected = np.random.Generator(np.random.Philox(np.random.SeedSequence(7, spawn_key=(3, 5)))).random(4)
    np.testing.assert_array_equal(stream(7, Purpose.TRAJECTORY, 5).random(4), expected)


def test_seeds_purposes_and_runs_give_different_numbers():
    first = {stream(seed, purpose, run).random() for seed in range(20) for purpose in Purpose for run in range(20)}
    assert len(first) == 20 * len(Purpose) * 20


@pytest.mark.parametrize("episodes_per_block", [1, 3, 256])
def test_blocks_hand_out_the_runs_own_stream(episodes_per_block):
    blocks = UniformBlocks(1, Purpose.FEEDBACK, [4, 0, 4], 5, episodes_per_block)
    got = np.stack([blocks.next().copy() for _ in range(7)])
    for column, run in enumerate((4, 0, 4)):
        np.testing.assert_array_equal(got[:, :, column], stream(1, Purpose.FEEDBACK, run).random((7, 5)))


@pytest.mark.parametrize(("seed", "run"), [(-1, 0), (0, -1), (1.5, 0), (True, 0), ("1", 0)])
def test_bad_seeds_get_a_sentence(seed, run):
    with pytest.raises(InvalidInputError, match="must be an integer of at least 0, got"):
        stream(seed, Purpose.MDP, run)


def test_a_learner_that_begins_afresh_draws_other_numbers():
    assert stream(1, Purpose.LEARNER, 2, restart=0).random() == stream(1, Purpose.LEARNER, 2).random()
    assert len({stream(1, Purpose.LEARNER, 2, restart).random() for restart in range(50)}) == 50
