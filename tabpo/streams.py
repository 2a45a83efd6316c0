"""Random numbers: one Philox stream per purpose and run, whatever the block, the worker or the backend.

The stream of run ``i`` is ``Philox(SeedSequence(seed, spawn_key=(purpose, i)))``. It depends on the seed, the
purpose and the run's own index and on nothing else; no generator is shared and none is global.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
from numpy.typing import NDArray

from tabpo.errors import InvalidInputError


class Purpose(IntEnum):
    """What a stream's numbers are for; its value is the first entry of the spawn key."""

    MDP = 0
    LOSSES = 1
    DELAYS = 2
    TRAJECTORY = 3
    FEEDBACK = 4
    LEARNER = 5


def stream(seed: int, purpose: Purpose, run: int = 0, restart: int = 0) -> np.random.Generator:
    """Return the generator of one run and purpose.

    Parameters
    ----------
    seed : int, at least 0
    purpose : Purpose
    run : int, at least 0
        The run's index. What belongs to the environment (the MDP, the loss sequence, the delays) is drawn once
        for all runs, with ``run=0``, so that every learner and every run meets the same environment.
    restart : int, at least 0
        How often the run's learner began afresh (doubling): other numbers each time. 0 adds nothing to the key.

    Raises
    ------
    InvalidInputError
        If a number is negative or not an integer.
    """
    for name, value in (("seed", seed), ("run", run), ("restart", restart)):
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
            raise InvalidInputError(f"{name} must be an integer of at least 0, got {value!r}")
    key = (int(purpose), int(run), int(restart)) if restart else (int(purpose), int(run))
    sequence = np.random.SeedSequence(int(seed), spawn_key=key)
    return np.random.Generator(np.random.Philox(sequence))


class UniformBlocks:
    """Uniform numbers in [0, 1) for a block of runs, episode by episode.

    Each run draws from its own stream, ``episodes_per_block`` episodes ahead; the numbers handed out do not depend
    on that length nor on which runs share the block.

    Parameters
    ----------
    seed : int
    purpose : Purpose
    runs : sequence of int, length R
        Run indices; an index may occur twice (the same numbers for two step sizes, say).
    per_episode : int
        How many numbers a run uses in an episode.
    episodes_per_block : int
    """

    def __init__(
        self,
        seed: int,
        purpose: Purpose,
        runs: Sequence[int],
        per_episode: int,
        episodes_per_block: int = 256,
    ) -> None:
        self._streams = [stream(seed, purpose, run) for run in runs]
        self._numbers = np.empty((episodes_per_block, per_episode, len(self._streams)))
        self._next = episodes_per_block

    def next(self) -> NDArray[np.float64]:
        """Return the next episode's numbers, shape (per_episode, R); valid until the next call."""
        if self._next == len(self._numbers):
            for column, generator in enumerate(self._streams):
                self._numbers[:, :, column] = generator.random(self._numbers.shape[:2])
            self._next = 0
        self._next += 1
        numbers: NDArray[np.float64] = self._numbers[self._next - 1]
        return numbers
