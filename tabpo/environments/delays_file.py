"""Delays from measured durations in a file."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray

from tabpo.environments.checks import check_number
from tabpo.environments.tables import read_columns
from tabpo.errors import InvalidInputError, unknown

Order = Literal["cycle", "resample"]
ROUNDING = 1e-9  # relative: 0.1 * 30 is a little more than 3, and three episodes are meant


@dataclass(frozen=True)
class FileDelays:
    """Measured durations: a column of a CSV or Parquet file, converted to whole episodes.

    A duration of x episodes becomes the delay ceil(x): feedback that starts on its way at the end of episode k and
    takes x episodes is there by the end of episode k + ceil(x), and not before.

    Parameters
    ----------
    path : str or Path
        Read when the object is made.
    column : str
        Durations of at least 0, in any unit of time.
    episodes_per_unit : float, above 0
        How many episodes one unit of time lasts.
    order : "cycle" or "resample"
        Durations are used in the file's order, again and again; or drawn uniformly with replacement.

    Raises
    ------
    InvalidInputError
        If the file or the column is missing, or a duration is not a number of at least 0.
    """

    path: str | Path
    column: str
    episodes_per_unit: float = 1.0
    order: Order = "cycle"
    _delays: NDArray[np.int64] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        check_number("episodes_per_unit", self.episodes_per_unit, 0, open_below=True)
        if self.order not in get_args(Order):
            raise unknown("order", self.order, get_args(Order))
        durations = read_columns(self.path, (self.column,))[self.column]
        if (durations < 0).any():
            row = int(np.argmax(durations < 0))
            raise InvalidInputError(
                f"the column {self.column!r} of {Path(self.path).name!r} is {durations[row]:g} in row {row}; "
                "a duration must not be negative"
            )
        object.__setattr__(self, "_delays", _whole_episodes(durations * self.episodes_per_unit))

    def realise(self, n_episodes: int, rng: np.random.Generator, switches: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the delays (K,)."""
        if self.order == "resample":
            return rng.choice(self._delays, size=n_episodes)
        return np.resize(self._delays, n_episodes)


def _whole_episodes(durations: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.ceil(np.minimum(durations, 2.0**62) * (1 - ROUNDING)).astype(np.int64)
