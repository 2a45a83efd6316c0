"""Sweeps: an experiment's config, its cells, where they are computed, and their stored results."""

from __future__ import annotations

from tabpo.sweep.cells import NUMERICS_VERSION, Cell, plan
from tabpo.sweep.config import ConfigError, Experiment, load_config
from tabpo.sweep.results import GridPoint, Results, open_results
from tabpo.sweep.run import FailedCellsError, SweepInterrupted, run_experiment
from tabpo.sweep.status import SweepStatus
from tabpo.sweep.store import StoreError

__all__ = [
    "NUMERICS_VERSION",
    "Cell",
    "ConfigError",
    "Experiment",
    "FailedCellsError",
    "GridPoint",
    "Results",
    "StoreError",
    "SweepInterrupted",
    "SweepStatus",
    "load_config",
    "open_results",
    "plan",
    "run_experiment",
]
