"""An experiment's settings: one TOML file, validated; errors name the key and the nearest known one."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr, ValidationError

from tabpo.errors import InvalidInputError, nearest
from tabpo.sweep.components import SECTIONS, expectations

DEFAULT_RUNS_PER_CELL = 64
DEFAULT_CHECKPOINTS = 60

PositiveInteger = Annotated[int, Field(ge=1)]


class ConfigError(InvalidInputError):
    """A config that cannot be used.

    Parameters
    ----------
    source : str
        The file's name.
    problems : list of str
        One sentence each, starting with the key path.
    """

    def __init__(self, source: str, problems: list[str]) -> None:
        super().__init__("\n".join(f"{source}: {problem}" for problem in problems))
        self.source = source
        self.problems = problems


class Entry(BaseModel):
    """One MDP, loss sequence, delay law or learner; further keys are parameters of what ``kind`` names."""

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)

    kind: Annotated[str, Field(min_length=1)]
    label: Annotated[str, Field(min_length=1)] | None = None
    grid: dict[str, Annotated[list[Any], Field(min_length=1)]] = {}

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters that are the same at every point of the grid."""
        return {name: value for name, value in (self.model_extra or {}).items() if name not in self.grid}


class Experiment(BaseModel):
    """A sweep: ``n_episodes`` x ``mdps`` x ``losses`` x ``delays`` x ``learners``, each with its grid.

    Attributes
    ----------
    name : str
    seed : int, at least 0
    n_episodes : int or list of int, at least 1
        A list is an axis of the sweep.
    n_runs : int
        Independent runs of every grid point.
    runs_per_cell : int
        A grid point's runs are split into blocks of at most this many; a block is one task and one file.
    checkpoints : int or list of int
        How many log-spaced checkpoints, or the episode counts themselves.
    trajectories : "immediate" or "delayed"
        Whether a trajectory is seen at the end of its episode or with its losses.
    mdps, losses, delays, learners : lists of Entry
    figure : dict
        Options for the figure, kept as they are.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    name: Annotated[str, Field(min_length=1)] = "experiment"
    seed: Annotated[int, Field(ge=0)] = 0
    n_episodes: PositiveInteger | Annotated[list[PositiveInteger], Field(min_length=1)]
    n_runs: PositiveInteger
    runs_per_cell: PositiveInteger = DEFAULT_RUNS_PER_CELL
    checkpoints: PositiveInteger | Annotated[list[PositiveInteger], Field(min_length=1)] = DEFAULT_CHECKPOINTS
    trajectories: Literal["immediate", "delayed"] = "immediate"
    mdps: Annotated[list[Entry], Field(min_length=1)]
    losses: Annotated[list[Entry], Field(min_length=1)]
    delays: Annotated[list[Entry], Field(min_length=1)]
    learners: Annotated[list[Entry], Field(min_length=1)]
    figure: dict[str, Any] = {}

    _base_folder: Path = PrivateAttr(default_factory=Path.cwd)
    _source: str = PrivateAttr(default="config")
    _path: Path | None = PrivateAttr(default=None)
    _text: str | None = PrivateAttr(default=None)

    @property
    def lengths(self) -> list[int]:
        """The values of ``n_episodes``."""
        return self.n_episodes if isinstance(self.n_episodes, list) else [self.n_episodes]

    @property
    def base_folder(self) -> Path:
        """The folder that files named in the config are relative to: the config file's own."""
        return self._base_folder

    @property
    def source(self) -> str:
        """What errors call the config: its file's name."""
        return self._source

    @property
    def path(self) -> Path | None:
        """The file that the config was read from, if any."""
        return self._path

    @property
    def text(self) -> str:
        """The config as TOML: the file's own text if it came from one."""
        from tabpo.sweep.toml import dumps

        return self._text if self._text is not None else dumps(self.model_dump(exclude_defaults=True))


def load_config(path_or_config: str | os.PathLike[str] | Mapping[str, Any] | Experiment) -> Experiment:
    """Return the validated experiment of a TOML file, of a dict of the same shape, or as given.

    The kinds and their parameters are checked by :func:`tabpo.sweep.grid.expand`.

    Raises
    ------
    ConfigError
        If the file cannot be read or is not TOML, or a key is unknown, missing or of a wrong type; one
        sentence each.
    """
    if isinstance(path_or_config, Experiment):
        return path_or_config
    if isinstance(path_or_config, Mapping):
        return _validated(path_or_config, "config", "experiment")
    path = Path(path_or_config)
    text = _read(path)
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ConfigError(path.name, [f"this is not valid TOML: {error}"]) from None
    experiment = _validated(tables, path.name, path.stem)
    experiment._base_folder = path.resolve().parent
    experiment._path = path
    experiment._text = text
    return experiment


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        beside = [one.name for one in path.parent.glob("*.toml")] if path.parent.is_dir() else []
        raise ConfigError(str(path), [f"there is no such file{nearest(path.name, beside)}"]) from None
    except OSError as error:
        raise ConfigError(str(path), [f"the file cannot be read: {error.strerror or error}"]) from None
    except UnicodeDecodeError as error:
        raise ConfigError(str(path), [f"TOML must be UTF-8 text: {error}"]) from None


def _validated(tables: Mapping[str, Any], source: str, name: str) -> Experiment:
    try:
        experiment = Experiment.model_validate({"name": name, **tables})
    except ValidationError as error:
        raise ConfigError(source, sentences(error)) from None
    problems = _beyond_types(experiment)
    if problems:
        raise ConfigError(source, problems)
    experiment._source = source
    return experiment


def sentences(error: ValidationError) -> list[str]:
    """Return one sentence per value at fault, in the file's order."""
    grouped: dict[tuple[str | int, ...], list[Any]] = {}
    for one in error.errors(include_url=False, include_context=True):
        location = tuple(part for part in one["loc"] if isinstance(part, int) or part.isidentifier())
        grouped.setdefault(_trimmed(location), []).append(one)
    inner = [location for location in grouped if not _holds_another(location, grouped)]
    return [_sentence(location, grouped[location]) for location in inner]


def _holds_another(location: tuple[str | int, ...], all_of_them: Iterable[tuple[str | int, ...]]) -> bool:
    """Whether a place inside is at fault too: then the complaint about the list around it says nothing."""
    return any(len(other) > len(location) and other[: len(location)] == location for other in all_of_them)


def _trimmed(location: tuple[str | int, ...]) -> tuple[str | int, ...]:
    """Drop the names of union members that pydantic appends (``checkpoints.int``)."""
    return location[:-1] if len(location) > 1 and location[-1] in ("int", "str", "float", "bool") else location


def _sentence(location: tuple[str | int, ...], errors: list[Any]) -> str:
    where, first = key_path(location), errors[0]
    if first["type"] == "missing":
        return f"{where} is missing{nearest(str(location[-1]), map(str, first['input']))}"
    if first["type"] == "extra_forbidden":
        known = Experiment.model_fields
        like = nearest(str(location[-1]), known)
        return f"{where} = {shown(first['input'])}: unknown key{like} (known: {', '.join(known)})"
    if first["type"] == "too_short":
        table = location[0] in SECTIONS and len(location) == 1
        return f"{where} is empty; it needs at least one {'entry' if table else 'value'}"
    if location[0] in SECTIONS and len(location) == 1 and first["type"] == "list_type":
        return f"{where}: write the table's header with double brackets, [[{where}]]"
    return f"{where} = {shown(first['input'])}: {expectations(errors)}"


def key_path(location: tuple[str | int, ...]) -> str:
    """Return a key path as in ``learners[2].step_size``; entries count from 0."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


def shown(value: Any) -> str:
    """Return a value as a sentence quotes it, cut short if long."""
    text = "true" if value is True else "false" if value is False else repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def _beyond_types(experiment: Experiment) -> list[str]:
    problems = []
    for key in ("n_episodes", "checkpoints"):
        values = getattr(experiment, key)
        repeated = sorted({value for value in values if values.count(value) > 1}) if isinstance(values, list) else []
        if repeated:
            problems.append(f"{key} = {shown(values)}: {repeated[0]} occurs twice")
    last, shortest = experiment.checkpoints, min(experiment.lengths)
    if isinstance(last, list) and max(last) > shortest:
        problems.append(f"checkpoints = {shown(last)}: {max(last)} lies beyond n_episodes = {shortest}")
    return problems
