"""Learners: one file per algorithm, its body beside the paper's box."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tabpo.errors import InvalidInputError, unknown
from tabpo.learners.anchors import Optimal, Uniform
from tabpo.learners.d_oppo import DOPPO, DOPPOParameters
from tabpo.learners.dapo import DAPO, DAPOParameters
from tabpo.learners.delayed_hedge import DelayedHedge, DelayedHedgeParameters
from tabpo.learners.o_reps import OREPS, OREPSParameters
from tabpo.learners.protocol import Arrivals, Feedback, Learner, Problem, Trajectory
from tabpo.learners.wrappers import Doubling, Skipping

__all__ = [
    "DAPO",
    "DOPPO",
    "LEARNERS",
    "OREPS",
    "Arrivals",
    "DAPOParameters",
    "DOPPOParameters",
    "DelayedHedge",
    "DelayedHedgeParameters",
    "Doubling",
    "Feedback",
    "Learner",
    "OREPSParameters",
    "Optimal",
    "Problem",
    "Skipping",
    "Trajectory",
    "Uniform",
    "find",
    "resolve",
]

LEARNERS: dict[str, type] = {
    "dapo": DAPO,
    "d_oppo": DOPPO,
    "o_reps": OREPS,
    "delayed_hedge": DelayedHedge,
    "uniform": Uniform,
    "optimal": Optimal,
}


def find(kind: str, base_folder: str | Path = ".") -> type:
    """Return the learner class that a name stands for.

    Parameters
    ----------
    kind : str
        A key of :data:`LEARNERS`, ``"file.py:Class"`` (relative to ``base_folder``) or ``"package.module:Class"``.
    base_folder : path

    Raises
    ------
    InvalidInputError
        If there is no such learner, file or class, or the class lacks ``act`` or ``learn``.
    """
    if ":" not in kind:
        if kind not in LEARNERS:
            raise unknown("learner", kind, LEARNERS)
        return LEARNERS[kind]
    source, name = kind.rsplit(":", 1)
    module = _load_file(Path(base_folder) / source) if source.endswith(".py") else _load_module(source)
    cls = getattr(module, name, None)
    if not isinstance(cls, type):
        classes = [key for key, value in vars(module).items() if isinstance(value, type)]
        raise unknown(f"class in {source}:", name, classes)
    for method in ("act", "learn"):
        if not callable(getattr(cls, method, None)):
            raise InvalidInputError(
                f"{kind} is not a learner: it has no method {method!r} (see tabpo.learners.Learner)"
            )
    return cls


def _load_file(path: Path) -> Any:
    path = path.resolve()
    if not path.is_file():
        raise InvalidInputError(f"the learner's file {path} does not exist")
    name = f"_tabpo_learner_{abs(hash(str(path))):x}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up there
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise InvalidInputError(f"the learner's file {path} fails on import: {error!r}") from error
    return module


def _load_module(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise InvalidInputError(f"the learner's module {name!r} cannot be imported: {error}") from error


def resolve(
    learner: str | Callable[[Problem], Learner],
    parameters: Mapping[str, Any] | None = None,
    base_folder: str | Path = ".",
) -> Callable[[Problem], Learner]:
    """Return a function that makes the learner for a :class:`Problem`.

    Parameters
    ----------
    learner : str or callable
        See :func:`find` for names; a callable takes the problem and the parameters.
    parameters : mapping, optional
        Keyword parameters of the learner. Two more are for every learner: ``skipping`` (true, or the threshold in
        episodes) puts :class:`Skipping` around it, ``doubling`` (true) :class:`Doubling` around that.
    base_folder : path
        Where relative file names start.

    Raises
    ------
    InvalidInputError
        As :func:`find`, or if ``skipping`` or ``doubling`` is something else.
    """
    rest = dict(parameters or {})
    skipping, doubling = rest.pop("skipping", False), rest.pop("doubling", False)
    make: Callable[[Problem], Learner] = partial(
        find(learner, base_folder) if isinstance(learner, str) else learner, **rest
    )
    if not isinstance(skipping, int) or skipping < 0:
        raise InvalidInputError(f"skipping must be true, false or a number of episodes, got {skipping!r}")
    if not isinstance(doubling, bool):
        raise InvalidInputError(f"doubling must be true or false, got {doubling!r}")
    if skipping is not False:
        make = partial(Skipping, make=make, threshold=None if skipping is True else skipping)
    if doubling:
        make = partial(Doubling, make=make)
    return make
