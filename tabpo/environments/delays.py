"""Delay laws: how many episodes late the feedback of each episode arrives.

A delay law is a small frozen object with a method ``realise(n_episodes, rng, switches)``. Feedback of episode k
arrives at the end of episode ``k + delay``; if that lies after the last episode, it never arrives. A law does not
shorten a delay because the simulation ends.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tabpo.environments.checks import check_number
from tabpo.environments.delays_file import FileDelays
from tabpo.errors import InvalidInputError
from tabpo.mdp import positive_integer

Delays = NDArray[np.int64]
LONGEST = 10**15  # far beyond any number of episodes, and exact in float64


class DelayLaw(Protocol):
    """A recipe for the delays of a simulation."""

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> Delays:
        """Return the delays (K,), at least 0; ``switches`` are the first episodes of new regimes of the losses."""


def whole_delays(values: ArrayLike, source: str = "delays") -> Delays:
    """Return ``values`` as int64 delays (K,).

    Raises
    ------
    InvalidInputError
        If they are no list of whole numbers of at least 0; the sentence names the first episode at fault.
    """
    try:
        given = np.asarray(values)
    except ValueError:  # lists of unequal lengths
        given = np.empty((0, 0))
    if given.ndim != 1 or given.dtype.kind not in "iuf":
        shape = f"an array of shape {given.shape} of {given.dtype}"
        raise InvalidInputError(f"{source} must be a list of whole numbers, one per episode, got {shape}")
    wrong = ~((given >= 0) & (given <= 2.0**62))
    if given.dtype.kind == "f":
        wrong |= given != np.floor(given)
    if wrong.any():
        k = int(np.argmax(wrong))
        raise InvalidInputError(f"{source} is {given[k]} at episode {k}; a delay must be a whole number of at least 0")
    return given.astype(np.int64)


@dataclass(frozen=True)
class NoDelays:
    """No delay: feedback arrives at the end of its own episode."""

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
        _whole("delay", self.delay)

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> Delays:
        """Return the delays (K,)."""
        return np.full(n_episodes, self.delay, dtype=np.int64)


@dataclass(frozen=True)
class UniformDelays:
    """Delays drawn uniformly from low, low + 1, ..., high.

    Parameters
    ----------
    low, high : int, at least 0, in episodes
        Both can occur; the mean is their midpoint.
    """

    low: int
    high: int

    def __post_init__(self) -> None:
        _whole("low", self.low)
        _whole("high", self.high)
        if self.high < self.low:
            raise InvalidInputError(f"high must be at least low = {self.low}, got {self.high}")

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> Delays:
        """Return the delays (K,)."""
        return rng.integers(self.low, self.high, size=n_episodes, endpoint=True)


@dataclass(frozen=True)
class GeometricDelays:
    """Geometric delays on 0, 1, 2, ...: P(delay = n) = p (1 - p)^n with p = 1 / (1 + mean).

    Parameters
    ----------
    mean : float, at least 0, in episodes
        The variance is ``mean (1 + mean)``.
    """

    mean: float

    def __post_init__(self) -> None:
        check_number("mean", self.mean, 0, LONGEST)

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> Delays:
        """Return the delays (K,)."""
        return rng.geometric(1 / (1 + self.mean), size=n_episodes) - 1


@dataclass(frozen=True)
class PoissonDelays:
    """Poisson delays.

    Parameters
    ----------
    mean : float, at least 0, in episodes
        Also the variance.
    """

    mean: float

    def __post_init__(self) -> None:
        check_number("mean", self.mean, 0, LONGEST)

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> Delays:
        """Return the delays (K,)."""
        return rng.poisson(self.mean, size=n_episodes).astype(np.int64)


@dataclass(frozen=True)
class ParetoDelays:
    """Heavy-tailed delays: a Pareto number, conditioned to end by ``maximum``, and rounded down.

    The delay is the integer part of x with P(x >= y) proportional to ``(scale / y)^shape - (scale / (maximum +
    1))^shape`` on [scale, maximum + 1). Without the maximum, the mean would be infinite for shapes up to 1.

    Parameters
    ----------
    shape : float, above 0
        Tail exponent; the smaller, the heavier.
    scale : float, above 0
        The least x, in episodes.
    maximum : int, at least scale, in episodes
        The longest delay.
    """

    shape: float
    scale: float = 1.0
    maximum: int = 10_000

    def __post_init__(self) -> None:
        check_number("shape", self.shape, 0, open_below=True)
        check_number("scale", self.scale, 0, LONGEST, open_below=True)
        _whole("maximum", self.maximum)
        if self.maximum < self.scale:
            raise InvalidInputError(f"maximum must be at least scale = {self.scale:g}, got {self.maximum}")

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> Delays:
        """Return the delays (K,)."""
        # The inverse of the distribution function, in logarithms: no power over- or underflows.
        beyond = -self.shape * np.log((self.maximum + 1) / self.scale)  # log P(x > maximum + 1) without the condition
        exceeded = np.log1p(rng.random(n_episodes) * np.expm1(beyond))
        x = self.scale * np.exp(-exceeded / self.shape)
        delays: NDArray[np.int64] = np.minimum(x, self.maximum).astype(np.int64)
        return delays


@dataclass(frozen=True)
class BurstDelays:
    """Bursts: the feedback of each block of episodes arrives together, at the end of the block's last episode.

    A last block that the simulation cuts short never ends, so its feedback never arrives.

    Parameters
    ----------
    length : int, at least 1
        Episodes in a block; 1 is no delay.
    """

    length: int

    def __post_init__(self) -> None:
        positive_integer("length", self.length)
        _whole("length", self.length)

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> Delays:
        """Return the delays (K,)."""
        return self.length - 1 - np.arange(n_episodes, dtype=np.int64) % self.length


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


@dataclass(frozen=True)
class AdversarialDelays:
    """Adversarial: withholds the feedback of the first episodes after every switch of the losses.

    A switch at episode s withholds episodes s, ..., s + length - 1; their feedback arrives together, at the end of
    episode ``s + length - 1 + extra``. Where windows overlap, the later arrival counts. Other episodes have no delay.

    Parameters
    ----------
    length : int, at least 1
        Episodes withheld after a switch.
    extra : int, at least 0
        Episodes after the window's last one.
    """

    length: int
    extra: int = 0

    def __post_init__(self) -> None:
        positive_integer("length", self.length)
        _whole("length", self.length)
        _whole("extra", self.extra)

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> Delays:
        """Return the delays (K,); raise an InvalidInputError if the losses never switch."""
        if not len(switches):
            raise InvalidInputError(
                f"adversarial delays follow the switches of the losses, and these losses have none in {n_episodes} "
                "episodes; use switching losses"
            )
        delays = np.zeros(n_episodes, dtype=np.int64)
        for start in switches:  # in increasing order: a later window's end is later
            window = np.arange(start, min(start + self.length, n_episodes))
            delays[window] = start + self.length - 1 + self.extra - window
        return delays


def _whole(name: str, value: int) -> None:
    """Raise an InvalidInputError unless ``value`` is a delay."""
    if positive_integer(name, value, at_least=0) > LONGEST:
        raise InvalidInputError(f"{name} must be at most {LONGEST:g}, got {value}")


DELAYS: dict[str, Callable[..., DelayLaw]] = {
    "adversarial": AdversarialDelays,
    "array": ArrayDelays,
    "bursts": BurstDelays,
    "file": FileDelays,
    "fixed": FixedDelays,
    "geometric": GeometricDelays,
    "none": NoDelays,
    "pareto": ParetoDelays,
    "poisson": PoissonDelays,
    "uniform": UniformDelays,
}
