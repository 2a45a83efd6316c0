"""The folder of a sweep: a manifest, a copy of the config, and one file per finished cell.

::

    OUTPUT/config.toml            the config last run in this folder
    OUTPUT/manifest.parquet       one row per cell of that config: hash, labels, settings
    OUTPUT/cells/HASH.parquet     a cell's numbers; that it is there means that the cell is done
    OUTPUT/cells/HASH.json        where it came from: settings, versions, machine, wall time
    OUTPUT/failed/HASH.txt        why a cell could not be computed

Files are written under a temporary name and renamed. Cells of earlier configs stay, and are taken up again by
any config that asks for them; the manifest lists the current config's.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from tabpo.errors import TabpoError
from tabpo.sweep.cells import Cell

ABANDONED_AFTER = 24 * 3600.0
"""Seconds after which a temporary file of another machine counts as abandoned."""


class StoreError(TabpoError):
    """The results' folder cannot be written or read."""


class Store:
    """The files of a sweep's folder.

    Parameters
    ----------
    folder : Path
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        self.folder = Path(folder)
        self.cells = self.folder / "cells"
        self.failed = self.folder / "failed"
        self.manifest = self.folder / "manifest.parquet"
        self.config = self.folder / "config.toml"

    def prepare(self, config_text: str, cells: Sequence[Cell]) -> None:
        """Make the folder, write the config and the manifest, and remove what a killed run left half-written.

        Raises
        ------
        StoreError
            If the folder cannot be made or written.
        """
        try:
            self.cells.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise StoreError(f"the output {str(self.folder)!r} must be a folder, but a file is in the way") from None
        except OSError as error:
            raise _cannot_write(self.folder, error) from None
        self.remove_abandoned()
        self._write(self.config, config_text.encode())
        self._write(self.manifest, manifest_bytes(cells))

    def done(self) -> set[str]:
        """Return the hashes of the cells that are stored."""
        if not self.cells.is_dir():
            return set()
        return {name[: -len(".parquet")] for name in os.listdir(self.cells) if name.endswith(".parquet")}

    def path(self, cell_hash: str) -> Path:
        """Return where a cell's numbers are, or will be."""
        return self.cells / f"{cell_hash}.parquet"

    def save(self, cell: Cell, numbers: bytes, provenance: dict[str, Any]) -> None:
        """Store a computed cell; its numbers come last, since their presence means that it is done.

        Raises
        ------
        StoreError
            If they cannot be written (a full disk, say); no half-written file stays.
        """
        text = json.dumps(provenance, indent=1, sort_keys=True, default=str) + "\n"
        self._write(self.cells / f"{cell.hash}.json", text.encode())
        self._write(self.path(cell.hash), numbers)
        self._failure_file(cell).unlink(missing_ok=True)

    def save_failure(self, cell: Cell, sentence: str, details: str) -> None:
        """Store why a cell could not be computed."""
        self.failed.mkdir(exist_ok=True)
        settings = json.dumps(cell.settings, indent=1, sort_keys=True)
        text = f"{cell.described}\n{sentence}\n\nsettings: {settings}\n\n{details}"
        self._write(self._failure_file(cell), text.encode())

    def _failure_file(self, cell: Cell) -> Path:
        return self.failed / f"{cell.hash}.txt"

    def _write(self, path: Path, contents: bytes) -> None:
        """Write a file so that it is seen whole or not at all, whatever else runs in this folder."""
        temporary = path.with_name(f".{path.name}.{_mark()}.{secrets.token_hex(4)}.tmp")
        try:
            try:
                with open(temporary, "wb") as file:
                    file.write(contents)
                    file.flush()
                    os.fsync(file.fileno())
                os.replace(temporary, path)
            except BaseException:
                temporary.unlink(missing_ok=True)
                raise
        except OSError as error:
            raise _cannot_write(path, error) from error

    def remove_abandoned(self) -> None:
        """Remove temporary files of processes that are gone; those of a live or a far one are left alone."""
        for folder in (self.folder, self.cells, self.failed):
            for file in folder.glob(".*.tmp"):
                if _abandoned(file):
                    file.unlink(missing_ok=True)


def _cannot_write(path: Path, error: OSError) -> StoreError:
    return StoreError(
        f"cannot write {str(path)!r}: {error.strerror or error}; what is stored already stays valid, "
        "and the same command goes on from there"
    )


def _mark() -> str:
    return f"{_machine()}.{os.getpid()}"


def _machine() -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in socket.gethostname()) or "machine"


def _abandoned(file: Path) -> bool:
    try:
        _, machine, process, _, _ = file.name.rsplit(".", 4)
        age = time.time() - file.stat().st_mtime
    except (ValueError, OSError):  # not one of ours, or gone meanwhile
        return False
    if machine == _machine() and process.isdigit() and os.name == "posix":
        return not _alive(int(process))
    return age > ABANDONED_AFTER


def _alive(process: int) -> bool:
    if process == os.getpid():
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:  # someone else's process
        return True
    return True


def manifest_frame(cells: Iterable[Cell]) -> pd.DataFrame:
    """Return the manifest: a row per cell with its hash, labels and settings (``learner.step_size``)."""
    rows = []
    for cell in cells:
        row: dict[str, Any] = {"hash": cell.hash}
        row |= {name: part.label for name, part in cell.parts.items()}
        row |= {
            "n_episodes": cell.n_episodes,
            "first_run": cell.first_run,
            "n_runs": cell.n_runs,
            "seed": cell.seed,
        }
        row["trajectories"] = cell.trajectories
        for name, part in cell.parts.items():
            row |= {f"{name}.{key}": value for key, value in part.settings.items()}
        rows.append(row)
    return pd.DataFrame({name: _column([row.get(name) for row in rows]) for name in _names(rows)})


def _names(rows: Iterable[dict[str, Any]]) -> list[str]:
    return list(dict.fromkeys(name for row in rows for name in row))


def _column(values: list[Any]) -> pd.Series[Any]:
    """Return a column of one type: integers, numbers, booleans or else text; ``None`` is missing."""
    told = [value for value in values if value is not None]
    if not told:
        return pd.Series(values, dtype="object")
    if all(isinstance(value, bool) for value in told):
        return pd.Series(values, dtype="boolean")
    if all(isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**63 for value in told):
        return pd.Series(values, dtype="Int64" if len(told) < len(values) else "int64")
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in told):
        return pd.Series(values, dtype="float64")
    texts = [v if v is None or isinstance(v, str) else json.dumps(v, separators=(",", ":")) for v in values]
    return pd.Series(texts, dtype="object")


def manifest_bytes(cells: Iterable[Cell]) -> bytes:
    """Return the manifest as the bytes of a Parquet file."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    sink = pa.BufferOutputStream()
    pq.write_table(pa.Table.from_pandas(manifest_frame(cells), preserve_index=False), sink, compression="zstd")
    return bytes(sink.getvalue())


def attempt_reading(path: Path, read: Callable[[Path], Any]) -> Any:
    """Return ``read(path)``; what goes wrong becomes a sentence that names the file.

    Raises
    ------
    StoreError
        If the file is missing, unreadable or no Parquet.
    """
    import pyarrow as pa

    try:
        return read(path)
    except FileNotFoundError:
        raise StoreError(f"there is no file {str(path)!r}") from None
    except (OSError, pa.ArrowException, ValueError) as error:
        raise StoreError(
            f"the file {str(path)!r} cannot be read ({error}); delete it and run the sweep again"
        ) from None
