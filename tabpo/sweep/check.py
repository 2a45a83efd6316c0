"""Building what a sweep will use before it runs, so that mistakes show at once and not in the middle of a night."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tabpo.errors import TabpoError
from tabpo.sweep.cells import Cell
from tabpo.sweep.config import ConfigError, Experiment
from tabpo.sweep.grid import Part
from tabpo.sweep.worker import build


def check_parts(experiment: Experiment, cells: Sequence[Cell]) -> None:
    """Build every MDP, loss sequence, delay law and learner of the cells once.

    Raises
    ------
    ConfigError
        One sentence for each part whose constructor rejects its parameters.
    """
    first_with: dict[int, tuple[Part, Cell]] = {}
    for cell in cells:
        for part in cell.parts.values():  # MDPs first: learners are tried on them
            first_with.setdefault(id(part), (part, cell))
    needed = {id(cell.mdp) for part, cell in first_with.values() if part.section == "learners"}
    mdps: dict[int, Any] = {}
    problems: list[str] = []
    for part, cell in first_with.values():
        try:
            built = build(part, cell.base_folder)
            if id(part) in needed:
                mdps[id(part)] = built
            if part.section == "learners" and id(cell.mdp) in mdps:
                _try_constructor(built, cell, mdps[id(cell.mdp)])
        except Exception as error:
            sentence = str(error) if isinstance(error, TabpoError) else f"{type(error).__name__}: {error}"
            problems.append(f"{part.where} ({part.label}): {sentence}")
    if problems:
        raise ConfigError(experiment.source, problems)


def _try_constructor(learner: Callable[[Any], Any], cell: Cell, mdp: Any) -> None:
    """Construct a learner for one run, with delays made up, to hear what it says about its parameters."""
    from tabpo.learners.protocol import Problem

    uniform = np.full(mdp.shape, 1 / mdp.n_actions)
    try:
        learner(Problem(mdp, cell.n_episodes, 1, cell.n_episodes, 1, cell.seed, (0,), lambda: uniform))
    except TabpoError:
        raise
    except Exception:  # not about a parameter: the cell will say it, with its traceback
        return
