"""Delay laws: how many episodes late the feedback of each episode arrives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.errors import InvalidInputError
from tabpo.mdp import positive_integer

Delays = NDArray[np.int64]


class DelayLaw(Protocol):
    """A recipe for the delays of a simulation."""

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> Delays:
        """Return the delays (K,), at least 0: feedback of episode k arrives at the end of episode k + delay."""


def whole_delays(values: ArrayLike, source: str = "delays") -> Delays:
    """Return ``values`` as int64 delays (K,).

    Raises
    ------
    InvalidInputError
        If they are no list of whole numbers of at least 0; the sentence names the first episode at fault.
    """
    given = np.asarray(values)
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        raise InvalidInputError(f"{source} must be a list of whole numbers, one per episode, got {values!r}")
    wrong = ~((given >= 0) & (given < 2.0**62))
    if given.dtype.kind == "f":
        wrong |= given != np.floor(given)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InvalidInputError(f"{source} is {given[k]} at episode {k}; a delay must be a whole number of at least 0")
    return given.astype(np.int64)


@dataclass(frozen=True)
class NoDelays:
    """Feedback at the end of its own episode."""

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> Delays:
        """Return zeros (K,)."""
        return np.zeros(n_episodes, dtype=np.int64)


@dataclass(frozen=True)
class FixedDelays:
    """The same delay for every episode.

    Parameters
    ----------
    delay : int, at least 0, in episodes
    """

    delay: int

    def __post_init__(self) -> None:
        positive_integer("delay", self.delay, at_least=0)

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> Delays:
        """Return the delays (K,)."""
        return np.full(n_episodes, self.delay, dtype=np.int64)


@dataclass(frozen=True, eq=False)
class ArrayDelays:
    """Given delays, one per episode.

    Parameters
    ----------
    delays : array-like, (K,), whole numbers of at least 0, in episodes
    """

    delays: ArrayLike

    def __post_init__(self) -> None:
        delays = whole_delays(self.delays)
        delays.setflags(write=False)
        object.__setattr__(self, "delays", delays)

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> Delays:
        """Return the delays; raise an InvalidInputError if there are not ``n_episodes`` of them."""
        delays = np.asarray(self.delays)
        if len(delays) != n_episodes:
            raise InvalidInputError(f"delays has {len(delays)} entries, but n_episodes is {n_episodes}")
        return delays


DELAYS: dict[str, Callable[..., DelayLaw]] = {"none": NoDelays, "fixed": FixedDelays, "array": ArrayDelays}
