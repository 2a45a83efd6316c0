"""Reading a sweep's folder: its manifest, its numbers as tidy tables, its curves run by run."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from tabpo.errors import InvalidInputError, nearest, unknown
from tabpo.sweep.store import Store, StoreError, attempt_reading
from tabpo.sweep.worker import METADATA_KEY, SIMULATED

POINT = ["mdp", "losses", "delays", "learner", "n_episodes"]
"""The manifest's columns that name a grid point."""
SETTLED = ("total_delay", "max_delay", "lost_feedback")
"""What a cell's file says about its delays, for the frame."""


@dataclass(frozen=True)
class GridPoint:
    """What the runs of a curve have in common.

    Parameters
    ----------
    mdp, losses, delays, learner : str
        Labels.
    n_episodes : int
    settings : dict
        The manifest's further columns, such as ``learner.step_size``, with ``total_delay``, ``max_delay`` and
        ``lost_feedback`` and the learner's resolved settings as ``learner.NAME``.
    """

    mdp: str
    losses: str
    delays: str
    learner: str
    n_episodes: int
    settings: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)

    def __getitem__(self, name: str) -> Any:
        """Return a label, ``n_episodes`` or a setting by its column's name."""
        if name in POINT:
            return getattr(self, name)
        if name not in self.settings:
            raise unknown("column", name, [*POINT, *self.settings])
        return self.settings[name]


class Results:
    """A sweep's stored results.

    Parameters
    ----------
    folder : path
        What ``run_experiment`` was given as ``output``.

    Raises
    ------
    StoreError
        If the folder holds no results.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self._store = Store(folder)
        if not self.folder.is_dir():
            raise StoreError(f"there is no folder {str(self.folder)!r}")
        if not self._store.manifest.is_file():
            raise StoreError(
                f"the folder {str(self.folder)!r} holds no results: it has no manifest.parquet; give the "
                "folder that was the output of `tabpo run`"
            )

    def __repr__(self) -> str:
        n_cells = len(self.manifest)
        return f"Results({str(self.folder)!r}: {n_cells - len(self.missing)} of {n_cells} cells)"

    @property
    def folder(self) -> Path:
        """The results' folder."""
        return self._store.folder

    @cached_property
    def manifest(self) -> pd.DataFrame:
        """One row per cell of the config last run here: its hash, labels and settings."""
        frame: pd.DataFrame = attempt_reading(self._store.manifest, pd.read_parquet)
        return frame

    @property
    def config(self) -> dict[str, Any]:
        """The config last run here, as TOML's tables."""
        import tomllib

        tables: dict[str, Any] = attempt_reading(
            self._store.config, lambda path: tomllib.loads(path.read_text("utf-8"))
        )
        return tables

    @property
    def figure(self) -> dict[str, Any]:
        """The config's ``[figure]`` table; empty if it has none."""
        return dict(self.config.get("figure", {}))

    @property
    def missing(self) -> pd.DataFrame:
        """The manifest's rows whose cells are not stored yet."""
        done = self._store.done()
        return self.manifest[~self.manifest["hash"].isin(done)]

    @property
    def unlisted(self) -> list[str]:
        """Hashes of stored cells that the manifest does not list: those of earlier configs."""
        return sorted(self._store.done() - set(self.manifest["hash"]))

    def provenance(self, cell_hash: str) -> dict[str, Any]:
        """Return where a cell's numbers came from: settings, versions, git revisions, machine, wall time."""
        path = self._store.cells / f"{cell_hash}.json"
        found: dict[str, Any] = attempt_reading(path, lambda path: json.loads(path.read_text("utf-8")))
        return found

    def select(self, **filters: Any) -> pd.DataFrame:
        """Return the manifest's rows that pass the filters.

        Parameters
        ----------
        **filters
            Columns and the value, or the list of values, that they must have: ``learner="dapo"``,
            ``step_size=[0.01, 0.1]`` (short for ``learner.step_size``, where no other column ends so).

        Raises
        ------
        InvalidInputError
            If there is no such column, or no cell with such a value.
        """
        rows = self.manifest
        for name, wanted in filters.items():
            column = self._column(name)
            values = list(wanted) if isinstance(wanted, (list, tuple, set, frozenset, range, np.ndarray)) else [wanted]
            for value in values:
                if not _equal(self.manifest[column], value).any():
                    raise InvalidInputError(self._no_such_value(column, value))
            passing = np.logical_or.reduce([_equal(rows[column], value) for value in values])
            rows = rows.iloc[np.flatnonzero(passing)]
        if filters and rows.empty:
            told = ", ".join(f"{name}={value!r}" for name, value in filters.items())
            raise InvalidInputError(f"no cell in {str(self.folder)!r} has {told} together")
        return rows

    def _column(self, name: str) -> str:
        columns = [str(column) for column in self.manifest.columns]
        if name in columns:
            return name
        ending = [column for column in columns if column.endswith(f".{name}")]
        if len(ending) == 1:
            return ending[0]
        if ending:
            raise InvalidInputError(f"the filter {name!r} could be {' or '.join(map(repr, ending))}; write one of them")
        raise unknown("filter", name, columns)

    def _no_such_value(self, column: str, value: Any) -> str:
        known = [str(one) for one in self.manifest[column].dropna().unique()]
        listed = nearest(str(value), known) + f" (there are: {', '.join(known[:12])}"
        listed += ", ...)" if len(known) > 12 else ")"
        return f"no cell in {str(self.folder)!r} has {column} = {value!r}{listed}"

    def _stored(self, rows: pd.DataFrame, partial: bool) -> pd.DataFrame:
        there = rows["hash"].isin(self._store.done())
        n_missing = int((~there).sum())
        if n_missing and not (partial and there.any()):
            raise StoreError(
                f"{n_missing} of the {len(rows)} cells asked for are not there yet in {str(self.folder)!r}; "
                "run the sweep to its end"
                + ("" if partial or not there.any() else ", or pass partial=True for those that are")
            )
        return rows[there]

    def _read(self, cell_hash: str, columns: list[str] | None = None) -> tuple[pd.DataFrame, dict[str, Any]]:
        import pyarrow.parquet as pq

        path = self._store.path(cell_hash)
        table = attempt_reading(path, lambda path: pq.ParquetFile(path).read(columns))
        metadata = json.loads((table.schema.metadata or {}).get(METADATA_KEY, b"{}"))
        return table.to_pandas(ignore_metadata=True), metadata

    def frame(self, *, partial: bool = False, **filters: Any) -> pd.DataFrame:
        """Return the numbers as one tidy table: a row per grid point, run and checkpoint.

        Parameters
        ----------
        partial : bool
            Do with the cells that are there; otherwise a missing one is an error.
        **filters
            As in :meth:`select`.

        Returns
        -------
        DataFrame
            The manifest's columns (without the cells' hashes and run blocks), ``total_delay``, ``max_delay``,
            ``lost_feedback``, and ``episode``, ``run``, ``regret``, ``final_regret``, ``expected_loss``,
            ``sampled_loss``, ``comparator_loss``, ``final_comparator_loss``.

        Raises
        ------
        InvalidInputError
            If a filter does not fit.
        StoreError
            If cells are missing or a file cannot be read.
        """
        rows = self._stored(self.select(**filters), partial)
        told = [column for column in rows.columns if column not in ("hash", "first_run", "n_runs")]
        numbers, lengths, settled = [], [], []
        for cell_hash in rows["hash"]:
            one, metadata = self._read(cell_hash)
            numbers.append(one)
            lengths.append(len(one))
            settled.append([metadata.get(name) for name in SETTLED])
        left = rows[told].reset_index(drop=True)
        left = left.join(pd.DataFrame(settled, columns=list(SETTLED)))
        left = left.loc[np.repeat(np.arange(len(left)), lengths)].reset_index(drop=True)
        return pd.concat([left, pd.concat(numbers, ignore_index=True)], axis=1)

    def curves(
        self, metric: str = "regret", *, partial: bool = False, **filters: Any
    ) -> Iterator[tuple[GridPoint, NDArray[np.int64], NDArray[np.float64]]]:
        """Yield each grid point with its checkpoints (C,) and its runs' values (C, R), the run blocks merged.

        Parameters
        ----------
        metric : str
            ``regret``, ``final_regret``, ``expected_loss``, ``sampled_loss``, ``comparator_loss`` or
            ``final_comparator_loss``.
        partial, **filters
            As in :meth:`frame`.
        """
        if metric not in SIMULATED:
            raise unknown("metric", metric, SIMULATED)
        rows = self._stored(self.select(**filters), partial)
        for _, block in rows.groupby(POINT, sort=False, dropna=False):
            yield self._curve(block.sort_values("first_run"), metric)

    def _curve(self, block: pd.DataFrame, metric: str) -> tuple[GridPoint, NDArray[np.int64], NDArray[np.float64]]:
        episodes: NDArray[np.int64] = np.empty(0, dtype=np.int64)
        values: list[NDArray[np.float64]] = []
        metadata: dict[str, Any] = {}
        for cell_hash, n_runs in zip(block["hash"], block["n_runs"], strict=True):
            one, metadata = self._read(cell_hash, ["episode", metric])
            episodes = one["episode"].to_numpy().reshape(-1, n_runs)[:, 0]
            values.append(one[metric].to_numpy().reshape(-1, n_runs))
        return _grid_point(block.iloc[0], metadata), episodes, np.concatenate(values, axis=1)

    def final(self, metric: str = "regret", *, partial: bool = False, **filters: Any) -> pd.DataFrame:
        """Return a metric after the last episode: a row per grid point and run, with the manifest's columns.

        Parameters and errors as in :meth:`curves`.
        """
        if metric not in SIMULATED:
            raise unknown("metric", metric, SIMULATED)
        frame = self.frame(partial=partial, **filters)
        last = frame[frame["episode"] == frame["n_episodes"]]
        return last.drop(columns=[name for name in ("episode", *SIMULATED) if name != metric]).reset_index(drop=True)


def _equal(column: pd.Series[Any], value: Any) -> NDArray[np.bool_]:
    if isinstance(value, (bool, np.bool_)):
        return np.array([one is True or one is np.True_ for one in column]) == bool(value)
    if isinstance(value, (int, float, np.number)) and pd.api.types.is_numeric_dtype(column):
        numbers = column.to_numpy(dtype=np.float64, na_value=np.nan)
        return np.isclose(numbers, float(value), rtol=1e-12, atol=0.0)
    if value is None:
        return column.isna().to_numpy()
    return (column.astype(object) == value).fillna(False).to_numpy(dtype=bool)


def _grid_point(row: pd.Series[Any], metadata: Mapping[str, Any]) -> GridPoint:
    told = {str(name): value for name, value in row.items() if name not in (*POINT, "hash", "first_run", "n_runs")}
    resolved = {f"learner.{name}": value for name, value in metadata.get("learner", {}).items()}
    settings = told | resolved | {name: metadata.get(name) for name in SETTLED}
    return GridPoint(row["mdp"], row["losses"], row["delays"], row["learner"], int(row["n_episodes"]), settings)


def open_results(path: str | os.PathLike[str]) -> Results:
    """Return the results in a sweep's folder.

    Raises
    ------
    StoreError
        If the folder holds none.
    """
    return Results(path)
