"""Cells: one point of the sweep with its block of runs, named by a hash of what its numbers depend on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

from tabpo import kernels
from tabpo.sweep.components import SECTIONS
from tabpo.sweep.config import ConfigError, Experiment
from tabpo.sweep.grid import Part, expand, plain

NUMERICS_VERSION = 2
"""Raised whenever the same settings give other numbers than before: stored cells then no longer count."""


@dataclass(frozen=True)
class Cell:
    """One task and one file of a sweep.

    Parameters
    ----------
    mdp, losses, delays, learner : Part
    n_episodes : int
    first_run, n_runs : int
        The block's runs have the indices ``first_run`` to ``first_run + n_runs - 1``.
    seed : int
    checkpoints : int or tuple of int
    trajectories : "immediate" or "delayed"
    kernels : str
        ``"numba"`` or ``"numpy"`` (see :mod:`tabpo.kernels`): they round differently.
    base_folder : str
        Where relative files of the config lie; enters no hash (files count by their contents).
    """

    mdp: Part
    losses: Part
    delays: Part
    learner: Part
    n_episodes: int
    first_run: int
    n_runs: int
    seed: int
    checkpoints: int | tuple[int, ...]
    trajectories: Literal["immediate", "delayed"]
    kernels: str
    base_folder: str

    @property
    def runs(self) -> range:
        """The block's run indices."""
        return range(self.first_run, self.first_run + self.n_runs)

    @property
    def parts(self) -> Mapping[str, Part]:
        """The cell's point on each axis, by the names that results use."""
        return {"mdp": self.mdp, "losses": self.losses, "delays": self.delays, "learner": self.learner}

    @property
    def run_episodes(self) -> int:
        """The work in it: runs times episodes."""
        return self.n_runs * self.n_episodes

    @property
    def settings(self) -> dict[str, Any]:
        """Everything that the numbers depend on, as plain values, and nothing else."""
        return {
            "numerics_version": NUMERICS_VERSION,
            "kernels": self.kernels,
            **{name: dict(part.settings) for name, part in self.parts.items()},
            "n_episodes": self.n_episodes,
            "runs": [self.first_run, self.n_runs],
            "seed": self.seed,
            "checkpoints": plain(self.checkpoints),
            "trajectories": self.trajectories,
        }

    @cached_property
    def hash(self) -> str:
        """The first 16 hexadecimal digits of the SHA-256 of the canonical JSON of ``settings``."""
        return hashlib.sha256(canonical_json(self.settings).encode()).hexdigest()[:16]

    @property
    def described(self) -> str:
        """What messages call it."""
        point = " · ".join(part.label for part in self.parts.values())
        return f"{point} · {self.n_episodes} episodes · runs {self.runs[0]}–{self.runs[-1]}"


def canonical_json(value: Any) -> str:
    """Return JSON with sorted keys and no blanks: equal values give equal text."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)


def plan(experiment: Experiment) -> list[Cell]:
    """Return the cells of a sweep, in the config's order (``n_episodes`` outermost, run blocks innermost).

    Raises
    ------
    ConfigError
        If a kind or a parameter does not fit; see :func:`tabpo.sweep.grid.expand`.
    """
    mdps, losses, delays, learners = _axes(experiment)
    checkpoints = experiment.checkpoints
    spec = tuple(sorted(checkpoints)) if isinstance(checkpoints, list) else checkpoints
    shared: dict[str, Any] = {
        "seed": experiment.seed,
        "checkpoints": spec,
        "trajectories": experiment.trajectories,
        "kernels": kernels.backend(),
        "base_folder": str(experiment.base_folder.resolve()),
    }
    return [
        Cell(mdp, loss, delay, learner, length, first, count, **shared)
        for length in experiment.lengths
        for mdp in mdps
        for loss in losses
        for delay in delays
        for learner in learners
        for first, count in run_blocks(experiment.n_runs, experiment.runs_per_cell)
    ]


def _axes(experiment: Experiment) -> list[list[Part]]:
    axes: list[list[Part]] = []
    problems: list[str] = []
    for section in SECTIONS:
        try:
            axes.append(expand(experiment, section))
        except ConfigError as error:  # the other sections' mistakes are worth knowing at once
            problems += error.problems
    if problems:
        raise ConfigError(experiment.source, problems)
    return axes


def run_blocks(n_runs: int, runs_per_cell: int) -> list[tuple[int, int]]:
    """Return the blocks' first runs and lengths: ``run_blocks(70, 32)`` is [(0, 32), (32, 32), (64, 6)]."""
    return [(first, min(runs_per_cell, n_runs - first)) for first in range(0, n_runs, runs_per_cell)]
