"""Reading columns of numbers from CSV and Parquet files, with errors that name the file, the column and the row."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tabpo.errors import InvalidInputError, nearest

if TYPE_CHECKING:
    import pandas as pd

TABLES = (".csv", ".parquet")


def existing_file(path: str | Path, suffixes: Sequence[str]) -> Path:
    """Return ``path`` as a Path.

    Raises
    ------
    InvalidInputError
        If there is no such file, or its name ends in none of the suffixes.
    """
    if not isinstance(path, (str, Path)):
        raise InvalidInputError(f"path must be the path of a file, got {path!r}")
    path = Path(path)
    if path.suffix.lower() not in suffixes:
        raise InvalidInputError(f"the file {str(path)!r} must end in {', '.join(suffixes)}")
    if not path.is_file():
        beside = [one.name for one in path.parent.iterdir()] if path.parent.is_dir() else []
        raise InvalidInputError(f"there is no file {str(path)!r}{nearest(path.name, beside)}")
    return path


def read_columns(
    path: str | Path, names: Sequence[str], optional: Sequence[str] = ()
) -> dict[str, NDArray[np.float64]]:
    """Return the named columns of a CSV or Parquet file as float64 arrays of one length.

    Parameters
    ----------
    path : str or Path
    names : sequence of str
        Columns that must be there.
    optional : sequence of str
        Columns that are returned if they are there.

    Raises
    ------
    InvalidInputError
        If the file or a column is missing, cannot be read or is empty, or an entry is not a finite number; rows count
        from 0, without the header.
    """
    path = existing_file(path, TABLES)
    try:
        present = _column_names(path)
        for name in names:
            if name not in present:
                raise InvalidInputError(
                    f"{path.name!r} has no column {name!r}{nearest(name, present)} (it has: {', '.join(present)})"
                )
        wanted = [*names, *(name for name in optional if name in present)]
        table = _read(path, wanted)
    except (OSError, ValueError) as error:  # pandas' and pyarrow's parser errors are ValueErrors
        if isinstance(error, InvalidInputError):
            raise
        raise InvalidInputError(f"{path.name!r} cannot be read as a table: {error}") from None
    if not len(table):
        raise InvalidInputError(f"{path.name!r} has no rows")
    return {name: _numbers(path, name, table[name]) for name in wanted}


def _column_names(path: Path) -> list[str]:
    if path.suffix.lower() == ".parquet":
        from pyarrow import parquet

        return [str(name) for name in parquet.read_schema(path).names]
    import pandas as pd

    return [str(name) for name in pd.read_csv(path, nrows=0).columns]


def _read(path: Path, names: list[str]) -> pd.DataFrame:
    import pandas as pd

    if path.suffix.lower() == ".parquet":
        return pd.read_parquet(path, columns=names)
    return pd.read_csv(path, usecols=names, float_precision="round_trip")  # the numbers that were written


def _numbers(path: Path, name: str, column: pd.Series) -> NDArray[np.float64]:
    import pandas as pd

    numbers = pd.to_numeric(column, errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    wrong = ~np.isfinite(numbers)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInputError(
            f"the column {name!r} of {path.name!r} is {column.iloc[row]} in row {row}; every entry must be a number"
        )
    return numbers


def whole_numbers(path: Path, name: str, numbers: NDArray[np.float64], limit: int) -> NDArray[np.int64]:
    """Return a column's entries as integers; raise an InvalidInputError unless all are in 0 ... limit - 1."""
    wrong = (numbers != np.floor(numbers)) | (numbers < 0) | (numbers >= limit)
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InvalidInputError(
            f"the column {name!r} of {path.name!r} is {numbers[row]:g} in row {row}; "
            f"it must be a whole number in 0 ... {limit - 1}"
        )
    return numbers.astype(np.int64)
