"""Learners: one file per algorithm, its body beside the paper's box."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tabpo.errors import InvalidInputError, unknown
from tabpo.learners.anchors import Optimal, Uniform
from tabpo.learners.bandits import EXP3, EXP3P, UCB1, TsallisINF
from tabpo.learners.best_of_both_worlds import LogBarrierPO, ShannonPO, TsallisPO
from tabpo.learners.bobw_rates import LogBarrierParameters, ScheduleParameters
from tabpo.learners.d_oppo import DOPPO, DOPPOParameters
from tabpo.learners.dapo import DAPO, DAPOParameters
from tabpo.learners.delayed_hedge import DelayedHedge, DelayedHedgeParameters
from tabpo.learners.dilated_bonus_po import DilatedBonusPO, DilatedBonusPOParameters
from tabpo.learners.o_reps import OREPS, OREPSParameters
from tabpo.learners.oppo import OPPO, OPPOParameters
from tabpo.learners.pomd import POMD, POMDParameters
from tabpo.learners.protocol import Arrivals, Feedback, Learner, Problem, Trajectory
from tabpo.learners.ucbvi import UCBVI, UCBVIParameters
from tabpo.learners.ucrl2 import UCRL2
from tabpo.learners.uob_ftrl import UOBFTRL, UOBFTRLParameters
from tabpo.learners.uob_reps import UOBREPS, UOBREPSParameters
from tabpo.learners.wrappers import Doubling, Skipping
from tabpo.user_code import load_object

__all__ = [
    "DAPO",
    "DOPPO",
    "EXP3",
    "EXP3P",
    "LEARNERS",
    "OPPO",
    "OREPS",
    "POMD",
    "UCB1",
    "UCBVI",
    "UCRL2",
    "UOBFTRL",
    "UOBREPS",
    "Arrivals",
    "DAPOParameters",
    "DOPPOParameters",
    "DelayedHedge",
    "DelayedHedgeParameters",
    "DilatedBonusPO",
    "DilatedBonusPOParameters",
    "Doubling",
    "Feedback",
    "Learner",
    "LogBarrierPO",
    "LogBarrierParameters",
    "OPPOParameters",
    "OREPSParameters",
    "Optimal",
    "POMDParameters",
    "Problem",
    "ScheduleParameters",
    "ShannonPO",
    "Skipping",
    "Trajectory",
    "TsallisINF",
    "TsallisPO",
    "UCBVIParameters",
    "UOBFTRLParameters",
    "UOBREPSParameters",
    "Uniform",
    "find",
    "resolve",
]

LEARNERS: dict[str, Callable[..., Learner]] = {
    "dapo": DAPO,
    "bobw_tsallis": TsallisPO,
    "bobw_shannon": ShannonPO,
    "bobw_log_barrier": LogBarrierPO,
    "dilated_bonus_po": DilatedBonusPO,
    "d_oppo": DOPPO,
    "o_reps": OREPS,
    "uob_reps": UOBREPS,
    "uob_ftrl": UOBFTRL,
    "delayed_hedge": DelayedHedge,
    "pomd": POMD,
    "oppo": OPPO,
    "ucbvi": UCBVI,
    "ucrl2": UCRL2,
    "tsallis_inf": TsallisINF,
    "exp3": EXP3,
    "exp3_p": EXP3P,
    "ucb1": UCB1,
    "uniform": Uniform,
    "optimal": Optimal,
}


def find(kind: str, base_folder: str | Path = ".") -> Callable[..., Learner]:
    """Return the learner class, or the function that makes a learner, that a name stands for.

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
    found, _ = load_object(kind, Path(base_folder))
    for method in ("act", "learn"):
        if isinstance(found, type) and not callable(getattr(found, method, None)):
            raise InvalidInputError(
                f"{kind} is not a learner: it has no method {method!r} (see tabpo.learners.Learner)"
            )
    if not callable(found):
        raise InvalidInputError(f"{kind!r} is a {type(found).__name__}, not a class or function")
    make: Callable[..., Learner] = found
    return make


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
