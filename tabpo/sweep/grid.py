"""From a config's entries to the points of its axes: parameters checked, defaults filled in, labels given."""

from __future__ import annotations

import dataclasses
import enum
import itertools
import json
import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tabpo.environments import gymnasium_mdp
from tabpo.errors import InvalidInputError, nearest
from tabpo.sweep.components import REQUIRED, WRAPPERS, Component, Section, find, fit
from tabpo.sweep.config import ConfigError, Entry, Experiment, shown
from tabpo.user_code import contents_hash
from tabpo.versions import installed_version


@dataclass(frozen=True)
class Part:
    """An MDP, loss sequence, delay law or learner with all its parameters: one point of one axis.

    Parameters
    ----------
    section, kind : str
        As in the config.
    parameters : dict
        What the config gives, as the callable takes it (files with absolute paths).
    settings : dict
        Plain values that the numbers depend on: the kind, the given parameters and the others' defaults, the
        contents' hashes in place of files.
    label : str
        Its name in results and figures; no number depends on it.
    where : str
        Its entry in the config, such as ``learners[2]``.
    """

    section: Section
    kind: str
    parameters: Mapping[str, Any]
    settings: Mapping[str, Any]
    label: str
    where: str


@dataclass(frozen=True)
class _Point:
    """A part before its label is settled."""

    index: int
    entry: Entry
    component: Component
    chosen: Mapping[str, Any]
    values: Mapping[str, Any]


def expand(experiment: Experiment, section: Section) -> list[Part]:
    """Return the points of an axis, in the config's order.

    Raises
    ------
    ConfigError
        If a kind is unknown, a parameter unknown, missing or of a wrong type, or a label is used twice.
    """
    problems: list[str] = []
    points: list[_Point] = []
    for index, entry in enumerate(getattr(experiment, section)):
        where = f"{section}[{index}]"
        try:
            component = find(section, entry.kind, experiment.base_folder)
        except InvalidInputError as error:
            problems.append(f"{where}.kind = {shown(entry.kind)}: {error}")
            continue
        found = list(_points(index, entry, component, problems, where))
        points += found
    if problems:
        raise ConfigError(experiment.source, problems)
    labels = _labels(points)
    problems = [*_repeated(section, points, labels)]
    parts = []
    for point, label in zip(points, labels, strict=True):
        try:
            parts.append(_part(point, label, experiment.base_folder))
        except InvalidInputError as error:
            problems.append(f"{section}[{point.index}].path: {error}")
    if problems:
        raise ConfigError(experiment.source, problems)
    return parts


def _points(index: int, entry: Entry, component: Component, problems: list[str], where: str) -> Iterator[_Point]:
    """Yield the points of an entry's grid; append what is wrong to ``problems``, each thing once."""
    said = set(problems)
    for choice in itertools.product(*entry.grid.values()):
        chosen = dict(zip(entry.grid, choice, strict=True))
        given = entry.parameters | chosen
        values, wrong = fit(component, given)
        for name, sentence in wrong:
            problem = _located(where, entry, name, given.get(name), sentence)
            if problem not in said:
                said.add(problem)
                problems.append(problem)
        if not wrong:
            yield _Point(index, entry, component, chosen, values)


def _located(where: str, entry: Entry, name: str, value: Any, sentence: str) -> str:
    if not name:
        return f"{where}: {sentence}"
    if name not in entry.grid and sentence.startswith("unknown") and "did you mean" not in sentence:
        sentence += nearest(name, ("label", "grid"))  # a key of the entry itself, mistyped
    return f"{where}.{'grid.' if name in entry.grid else ''}{name} = {shown(value)}: {sentence}"


def _labels(points: list[_Point]) -> list[str]:
    """Return a label per point: the entry's, else the kind, with the values that tell namesakes apart."""
    names = [point.entry.label or point.component.kind for point in points]
    namesakes: dict[str, list[_Point]] = {}
    for point, name in zip(points, names, strict=True):
        namesakes.setdefault(name, []).append(point)
    varying = {name: _varying(group) for name, group in namesakes.items()}
    labels = []
    for point, name in zip(points, names, strict=True):
        told = list(point.entry.grid)
        if point.entry.label is None:
            told += [key for key in varying[name] if key not in told]
        values = [f"{key}={written(point.values[key])}" for key in told if key in point.values]
        labels.append(f"{name} ({', '.join(values)})" if values else name)
    return labels


def _varying(points: list[_Point]) -> list[str]:
    keys = dict.fromkeys(key for point in points for key in point.values)
    return [key for key in keys if len({written(point.values.get(key)) for point in points}) > 1]


def written(value: Any) -> str:
    """Return a parameter's value as labels write it."""
    if isinstance(value, str):
        return value
    if isinstance(value, float):
        return f"{value:.12g}"
    return json.dumps(plain(value), separators=(",", ":"))


def _repeated(section: Section, points: list[_Point], labels: list[str]) -> Iterator[str]:
    first: dict[str, int] = {}
    for point, label in zip(points, labels, strict=True):
        if label not in first:
            first[label] = point.index
        elif first[label] == point.index:
            yield f"{section}[{point.index}].grid has the point {label!r} twice"
        else:
            other = f"{section}[{first[label]}]"
            yield f"{section}[{point.index}] and {other} are both called {label!r}; give one another `label`"


def _part(point: _Point, label: str, base_folder: Path) -> Part:
    component, parameters = point.component, dict(point.values)
    if component.section == "learners":
        for name in WRAPPERS:
            if parameters.get(name) is False:  # the same as left out
                del parameters[name]
    defaults = {
        name: parameter.default
        for name, parameter in component.parameters.items()
        if name not in parameters and name not in WRAPPERS and parameter.default is not REQUIRED
    }
    settings = {name: plain(value) for name, value in (defaults | parameters).items()}
    if isinstance(parameters.get("path"), (str, Path)):
        file = base_folder / parameters["path"]
        settings["path"] = f"sha256:{contents_hash(file)}"
        parameters["path"] = type(parameters["path"])(file)
    settings = {"kind": component.kind, **dict(sorted(settings.items()))}
    if component.source:  # a user's code is its contents, wherever the file lies
        settings |= {"kind": component.kind.rpartition(":")[2], "source": f"sha256:{component.source}"}
    if package := FROM_PACKAGE.get(component.call):
        settings["version"] = installed_version(package)
    where = f"{component.section}[{point.index}]"
    return Part(component.section, component.kind, parameters, settings, label, where)


FROM_PACKAGE: dict[Callable[..., Any], str] = {gymnasium_mdp: "gymnasium"}
"""Parts whose numbers another package makes: its version is among the settings."""


def plain(value: Any) -> Any:
    """Return a value as JSON holds it, the same for equal values: integral floats are integers.

    What is no plain value (a function as a default, say) is replaced by its qualified name.
    """
    if isinstance(value, enum.Enum):
        return plain(value.value)
    if value is None or isinstance(value, (bool, int, str)):
        return value
    if isinstance(value, float):
        return int(value) if math.isfinite(value) and value.is_integer() and abs(value) < 2**53 else value
    if isinstance(value, Path):
        return str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(one) for one in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {
            "kind": type(value).__qualname__,
            **{f.name: plain(getattr(value, f.name)) for f in dataclasses.fields(value)},
        }
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    named: Callable[..., Any] = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}.{named.__qualname__}"
