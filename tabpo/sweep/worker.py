"""What happens in a worker: settings become an environment and a learner, a simulation's numbers a file."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits  # type: ignore[import-untyped]

from tabpo.sweep.cells import Cell, canonical_json
from tabpo.sweep.components import find
from tabpo.sweep.grid import Part, plain
from tabpo.sweep.provenance import provenance

THREADED = ("OMP", "OPENBLAS", "MKL", "BLIS", "NUMBA")
ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in THREADED}
METADATA_KEY = b"tabpo"
SIMULATED = (
    "regret",
    "final_regret",
    "expected_loss",
    "sampled_loss",
    "comparator_loss",
    "final_comparator_loss",
)
Advance = Callable[[int], None]


@dataclass(frozen=True)
class Computed:
    """A cell's numbers as the bytes of its Parquet file, and where they came from."""

    numbers: bytes
    provenance: dict[str, Any]


def build(part: Part, base_folder: str) -> Any:
    """Return the MDP, loss sequence or delay law of a part, or a function from a problem to its learner.

    Raises
    ------
    InvalidInputError
        What the constructor says about its parameters.
    """
    component = find(part.section, part.kind, Path(base_folder))
    if part.section == "learners":
        from tabpo import learners

        spec = component.call if component.source else part.kind
        return learners.resolve(spec, dict(part.parameters), Path(base_folder))
    return component.call(**part.parameters)


def compute(cell: Cell, advance: Advance | None = None) -> Computed:
    """Return a cell's numbers; they depend on ``cell.settings`` only.

    Parameters
    ----------
    cell : Cell
    advance : callable, optional
        Told now and then how many run-episodes were done since the last time.
    """
    from tabpo import kernels
    from tabpo.environments import Environment
    from tabpo.simulation import simulate

    started = time.perf_counter()
    mdp, losses, delays, learner = (build(part, cell.base_folder) for part in cell.parts.values())
    environment = Environment(mdp, losses, delays, trajectories=cell.trajectories)
    progress = _per_run_episode(cell, advance)
    with kernels.using(cell.kernels):
        result = simulate(
            environment,
            learner,
            cell.n_episodes,
            cell.n_runs,
            cell.seed,
            runs=cell.runs,
            checkpoints=cell.checkpoints,
            progress=progress,
        )
    if progress is not None:
        progress(cell.n_episodes)
    numbers = parquet_bytes(cell, result)
    return Computed(numbers, provenance(cell, result.settings, time.perf_counter() - started))


def _per_run_episode(cell: Cell, advance: Advance | None) -> Callable[[int], None] | None:
    if advance is None:
        return None
    told = 0

    def progress(episodes_done: int) -> None:
        nonlocal told
        advance((episodes_done - told) * cell.n_runs)
        told = episodes_done

    return progress


def parquet_bytes(cell: Cell, result: Any) -> bytes:
    """Return a simulation's numbers as the bytes of a Parquet file: a row per checkpoint and run.

    The bytes depend on the numbers, the settings and the version of pyarrow: no time, no machine.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    n_runs = len(result.runs)
    columns: dict[str, Any] = {
        "episode": np.repeat(np.asarray(result.episodes, dtype=np.int64), n_runs),
        "run": np.tile(np.asarray(result.runs, dtype=np.int64), len(result.episodes)),
    }
    for name in SIMULATED:
        values = np.asarray(getattr(result, name), dtype=np.float64)
        columns[name] = np.repeat(values, n_runs) if values.ndim == 1 else values.reshape(-1)
    metadata = {
        "settings": cell.settings,
        "learner": plain(result.settings),
        "total_delay": int(result.total_delay),
        "max_delay": int(result.max_delay),
        "lost_feedback": int(result.lost_feedback),
    }
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: canonical_json(metadata).encode()})
    sink = pa.BufferOutputStream()
    pq.write_table(
        table,
        sink,
        compression="zstd",
        compression_level=3,
        use_dictionary=False,
        use_byte_stream_split=list(SIMULATED),
    )
    return bytes(sink.getvalue())


@contextlib.contextmanager
def one_thread() -> Iterator[None]:
    """Keep the linear algebra to one thread: workers share the cores, and sums are added in one order."""
    with threadpool_limits(1):
        yield


def pin_for_good() -> None:
    """Keep this process, which is a worker's, to one thread from now on."""
    os.environ.update(ONE_THREAD)
    threadpool_limits(1)
    if "numba" in sys.modules:
        sys.modules["numba"].set_num_threads(1)


def warm_up() -> None:
    """Compile the kernels once here, so that the workers find them in the cache."""
    from tabpo import kernels

    prepare = getattr(kernels, "warm_up", None)
    if prepare is not None:
        prepare()
