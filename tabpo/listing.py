"""What configs can name: lists with parameters, and descriptions with drawings."""

from __future__ import annotations

import inspect
import textwrap
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from tabpo.errors import InvalidInputError, unknown
from tabpo.sweep.components import REQUIRED, SECTIONS, Section, find, fit, parameters_of, registry
from tabpo.sweep.grid import written

if TYPE_CHECKING:
    from tabpo.figures import PaperFigure
    from tabpo.mdp import TabularMDP

TITLES = {"mdps": "MDPs", "losses": "Loss sequences", "delays": "Delay laws", "learners": "Learners"}


def text(sections: Iterable[Section], width: int = 80) -> str:
    """Return the names of some sections with one line on each and its parameters with defaults."""
    return "\n".join(_section(section, width) for section in sections)


def _section(section: Section, width: int) -> str:
    lines = [f"{TITLES[section]} (tables [[{section}]] of a config)"]
    for kind, call in registry(section).items():
        wrapped = textwrap.wrap(first_line(call), width - 6)
        lines += [f"  {kind}", *(f"      {line}" for line in wrapped)]
        told = [_parameter(name, *one) for name, one in _parameters(section, call)]
        # A parameter's own blanks are no place to break a line.
        joined = ",  ".join(one.replace(" ", "\0") for one in told)
        lines += [f"      {line}".replace("\0", " ") for line in textwrap.wrap(joined, width - 6)]
    return "\n".join(lines) + "\n"


def first_line(call: Callable[..., Any]) -> str:
    """Return the first sentence of a docstring."""
    return (inspect.getdoc(call) or "").split("\n\n")[0].replace("\n", " ").replace("``", "")


def _parameters(section: str, call: Callable[..., Any]) -> Iterable[tuple[str, tuple[Any, Any]]]:
    parameters, _ = parameters_of(call, skip_first=section == "learners")
    return [(name, (one.annotation, one.default)) for name, one in parameters.items()]


def _parameter(name: str, annotation: Any, default: Any) -> str:
    if default is REQUIRED:
        return f"{name} ({_type(annotation)}, required)"
    if typing.get_origin(annotation) is Literal:
        others = [str(one) for one in typing.get_args(annotation) if one != default]
        return f"{name} = {_value(default)}" + (f" (or {', '.join(others)})" if others else "")
    return f"{name} = {_value(default)}"


def _value(value: Any) -> str:
    return "none" if value is None else "true" if value is True else "false" if value is False else written(value)


def _type(annotation: Any) -> str:
    if typing.get_origin(annotation) in (typing.Union, types.UnionType):
        words = [_type(one) for one in typing.get_args(annotation) if one is not type(None)]
        # NumPy's array-like is a union of its own private protocols.
        return "array" if any(word.startswith("_") for word in words) else " or ".join(dict.fromkeys(words))
    if typing.get_origin(annotation) is Literal:
        return " or ".join(map(str, typing.get_args(annotation)))
    origin = typing.get_origin(annotation) or annotation
    names = {int: "integer", float: "number", bool: "true or false", list: "list", dict: "table"}
    names |= {str: "text", Path: "text"}
    return names.get(origin, getattr(origin, "__name__", str(origin)))


@dataclass(frozen=True)
class Shown:
    """What ``tabpo show`` shows."""

    text: str
    figure: PaperFigure | None = None


def show(
    name: str,
    parameters: Mapping[str, Any],
    *,
    episodes: int = 1000,
    seed: int = 0,
    mdp: str = "grid_world",
    draw: bool = True,
) -> Shown:
    """Return the description, and on request the drawing, of what a config can name.

    Parameters
    ----------
    name : str
        A key of one of the registries, with its section in front (``losses.file``) where two have it.
    parameters : mapping
        As a config gives them.
    episodes, seed : int
        Of the losses or delays drawn.
    mdp : str
        The MDP that losses are for.
    draw : bool

    Raises
    ------
    InvalidInputError
        If the name or a parameter does not exist or fit.
    """
    section, kind = _located(name)
    component = find(section, kind, Path.cwd())
    values, problems = fit(component, parameters)
    if problems:
        raise InvalidInputError("; ".join(f"{key}: {said}" if key else said for key, said in problems))
    head = f"{component.described}: {first_line(component.call)}"
    if section == "learners":
        told = [_parameter(key, one.annotation, one.default) for key, one in component.parameters.items()]
        return Shown("\n".join([head, *(f"  {one}" for one in told), *_explained(component.call)]))
    built = component.call(**values)
    if section == "mdps":
        return _mdp(head, built, draw)
    return _sequence(section, head, built, episodes, seed, mdp, draw)


def _explained(learner: Callable[..., Any]) -> list[str]:
    """Return what a learner's parameter class says about them, if it has one of its own."""
    said = inspect.getdoc(getattr(learner, "Parameters", None)) or ""
    _, _, attributes = said.partition("Attributes\n----------\n")
    return ["", attributes] if attributes else []


def _located(name: str) -> tuple[Section, str]:
    before, dot, after = name.partition(".")
    if dot and before in SECTIONS and ":" not in before:
        return before, after
    if ":" in name:
        raise InvalidInputError(f"say what {name!r} is: mdps.{name}, losses.{name}, delays.{name} or learners.{name}")
    having = [section for section in SECTIONS if name in registry(section)]
    if len(having) > 1:
        raise InvalidInputError(
            f"{name!r} could be {' or '.join(f'{one}.{name}' for one in having)}; write one of them"
        )
    if not having:
        raise unknown("name", name, {kind for section in SECTIONS for kind in registry(section)})
    return having[0], name


def _mdp(head: str, mdp: TabularMDP, draw: bool) -> Shown:
    from tabpo import figures

    figure = figures.structure(mdp) if draw else None
    moves = int((mdp.transitions[: max(1, mdp.horizon - 1)] > 0).any(0).sum())
    starts = int((mdp.initial > 0).sum())
    lines = [
        head,
        f"  H = {mdp.horizon} steps, S = {mdp.n_states} states, A = {mdp.n_actions} actions",
        f"  {moves} possible transitions, {starts} initial state{'s' if starts > 1 else ''}",
        f"  losses of its own: {'yes' if mdp.losses is not None else 'no'}",
    ]
    if mdp.loss_map is not None:
        lines.append(f"  a loss of 1 stands for a reward of {mdp.loss_map.scale:g}")
    return Shown("\n".join(lines), figure)


def _sequence(section: str, head: str, built: Any, episodes: int, seed: int, mdp: str, draw: bool) -> Shown:
    from tabpo import figures
    from tabpo.environments import MDPS, Adversary, Environment

    if mdp not in MDPS:
        raise unknown("MDP", mdp, MDPS)
    model = MDPS[mdp]()
    losses = built if section == "losses" else _zero_losses(model)
    realised = Environment(model, losses, built if section == "delays" else 0).realise(episodes, seed)
    if section == "delays":
        figure = figures.delay_law(realised.delays)
        return Shown(f"{head}\n  {figure.caption}", figure)
    if not draw:  # every episode's means would have to be made
        adapts = isinstance(realised.losses, Adversary)
        hint = "each run's own, chosen as it plays: there is no drawing of them" if adapts else "--output draws it"
        return Shown(f"{head}\n  on {mdp}; {hint}")
    figure = figures.loss_sequence(realised.losses, episodes, name=f"{head.split(':')[0]} on {mdp}")
    return Shown(f"{head}\n  {figure.caption}", figure)


def _zero_losses(mdp: TabularMDP) -> Any:
    import numpy as np

    return np.zeros(mdp.shape)
