"""What the ``kind`` of a config entry names: a callable, its parameters, whether given values fit them."""

from __future__ import annotations

import dataclasses
import inspect
import json
import re
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Union

from pydantic import PydanticSchemaGenerationError, PydanticUserError, TypeAdapter, ValidationError

from tabpo.errors import InvalidInputError, nearest, unknown
from tabpo.user_code import load_object

Section = Literal["mdps", "losses", "delays", "learners"]
SECTIONS: tuple[Section, ...] = ("mdps", "losses", "delays", "learners")
SINGULAR = {"mdps": "MDP", "losses": "loss sequence", "delays": "delay law", "learners": "learner"}
WRAPPERS: dict[str, Any] = {"skipping": bool | int, "doubling": bool}
REQUIRED = inspect.Parameter.empty


@dataclass(frozen=True)
class Parameter:
    """A parameter's type and default (``REQUIRED`` if it has none)."""

    annotation: Any
    default: Any


@dataclass(frozen=True)
class Component:
    """A callable that a config may name.

    Parameters
    ----------
    section : str
        One of ``mdps``, ``losses``, ``delays``, ``learners``.
    kind : str
        The name in the registry, or ``file.py:Name``.
    call : callable
    parameters : dict of str to Parameter
    takes_any : bool
        The callable has a ``**`` parameter: a name that is not among its parameters is passed on unchecked.
    source : str
        The hash of the user's source, empty for what tabpo brings.
    """

    section: Section
    kind: str
    call: Callable[..., Any]
    parameters: Mapping[str, Parameter]
    takes_any: bool
    source: str

    @property
    def described(self) -> str:
        """What a sentence calls it, such as ``learner 'dapo'``."""
        return f"{SINGULAR[self.section]} {self.kind!r}"


def registry(section: Section) -> Mapping[str, Callable[..., Any]]:
    """Return the names that tabpo knows in a section."""
    from tabpo import environments, learners

    registries: dict[Section, Mapping[str, Callable[..., Any]]] = {
        "mdps": environments.MDPS,
        "losses": environments.LOSSES,
        "delays": environments.DELAYS,
        "learners": learners.LEARNERS,
    }
    return registries[section]


def find(section: Section, kind: str, base_folder: Path) -> Component:
    """Return the component that ``kind`` names.

    Raises
    ------
    InvalidInputError
        If the name is unknown, or the file or module it names cannot be loaded.
    """
    if ":" in kind:
        call, source = load_object(kind, base_folder)
        if not callable(call):
            raise InvalidInputError(f"{kind!r} is a {type(call).__name__}, not a class or function")
    else:
        known = registry(section)
        if kind not in known:
            raise unknown(SINGULAR[section], kind, known)
        call, source = known[kind], ""
    parameters, takes_any = parameters_of(call, skip_first=section == "learners")
    if section == "learners":
        wrappers = {name: Parameter(annotation, False) for name, annotation in WRAPPERS.items()}
        parameters = {**wrappers, **parameters}
    return Component(section, kind, call, parameters, takes_any, source)


def parameters_of(call: Callable[..., Any], skip_first: bool = False) -> tuple[dict[str, Parameter], bool]:
    """Return the keyword parameters of a callable and whether it takes any other keyword.

    Parameters
    ----------
    call : callable
        A function, a dataclass, or a class; a learner class with a dataclass ``Parameters`` has its fields.
    skip_first : bool
        Leave out the first parameter (a learner's ``problem``).
    """
    declared = getattr(call, "Parameters", None)
    if skip_first and declared is not None and dataclasses.is_dataclass(declared):
        call, skip_first = typing.cast("Callable[..., Any]", declared), False
    try:
        found = list(inspect.signature(call).parameters.values())
    except (TypeError, ValueError):  # a compiled callable without a signature
        return {}, True
    hints = _type_hints(call)
    takes_any = any(one.kind is one.VAR_KEYWORD for one in found)
    named = [one for one in found if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)]
    if skip_first:
        named = named[1:]
    return {one.name: Parameter(hints.get(one.name, Any), _default(call, one)) for one in named}, takes_any


def _type_hints(call: Callable[..., Any]) -> dict[str, Any]:
    is_plain_class = inspect.isclass(call) and not dataclasses.is_dataclass(call)
    try:
        return typing.get_type_hints(call.__init__ if is_plain_class else call)
    except Exception:  # names imported for type checkers only: those parameters go unchecked
        return {}


def _default(call: Callable[..., Any], parameter: inspect.Parameter) -> Any:
    if dataclasses.is_dataclass(call):  # a default factory shows as a placeholder in the signature
        for field in dataclasses.fields(call):
            if field.name == parameter.name and field.default_factory is not dataclasses.MISSING:
                return field.default_factory()
    return parameter.default


def fit(component: Component, given: Mapping[str, Any]) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the given parameters as their types, and what is wrong with them.

    Parameters
    ----------
    component : Component
    given : mapping of str to value
        As TOML holds them: numbers, strings, booleans, lists, tables.

    Returns
    -------
    values : dict
        Converted where a type asks for it (a list to a tuple, 3 to 3.0).
    problems : list of (name, sentence)
        An empty name stands for the entry as a whole.
    """
    values: dict[str, Any] = {}
    problems: list[tuple[str, str]] = []
    known = component.parameters
    for name, value in given.items():
        if name not in known and not component.takes_any:
            listed = f" (known: {', '.join(known)})" if known else " (it has none)"
            problems.append((name, f"unknown parameter of {component.described}{nearest(name, known)}{listed}"))
            continue
        annotation = known[name].annotation if name in known else Any
        try:
            values[name] = convert(annotation, value)
        except InvalidInputError as error:
            problems.append((name, str(error)))
    for name, parameter in known.items():
        if parameter.default is REQUIRED and name not in given:
            problems.append(("", f"{component.described} needs the parameter {name!r}"))
    return values, problems


def convert(annotation: Any, value: Any) -> Any:
    """Return a TOML value as the annotated type, without guessing: a string is no number, 1.0 no integer.

    Raises
    ------
    InvalidInputError
        If it does not fit; the sentence starts with "must be".
    """
    try:
        text = json.dumps(value)
    except TypeError:
        kinds = "a number, a string, true or false, a list or a table"
        raise InvalidInputError(f"must be {kinds}, not a {type(value).__name__}") from None
    usable = _usable(annotation)
    if usable is Any:
        return value
    try:
        return TypeAdapter(usable).validate_json(text, strict=True)  # JSON: a list will do for a tuple, 3 for 3.0
    except ValidationError as error:
        hint = ""
        if isinstance(value, list) and not any(_takes_list(one) for one in typing.get_args(usable) or [usable]):
            hint = "; the values of an axis belong in the entry's `grid` table"
        raise InvalidInputError(expectations(error.errors()) + hint) from None


def _takes_list(annotation: Any) -> bool:
    origin = typing.get_origin(annotation) or annotation
    return inspect.isclass(origin) and issubclass(origin, Iterable) and not issubclass(origin, str)


def _usable(annotation: Any) -> Any:
    """Return the part of a type that TOML can hold; ``Any`` if nothing is left to check against."""
    if typing.get_origin(annotation) in (Union, types.UnionType):
        if any(getattr(one, "__module__", "").startswith("numpy._typing") for one in typing.get_args(annotation)):
            return Any  # an ArrayLike: its constructor checks it
        members = [one for one in (_usable(one) for one in typing.get_args(annotation)) if one is not Any]
        if all(one is type(None) for one in members):
            return Any
        return Union[tuple(members)]  # noqa: UP007
    try:
        TypeAdapter(annotation)
    except (PydanticSchemaGenerationError, PydanticUserError):
        return Any
    return annotation


PHRASES = {
    "int_type": "an integer",
    "float_type": "a number",
    "string_type": "a string",
    "bool_type": "true or false",
    "list_type": "a list",
    "tuple_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "none_required": "left out",
    "string_too_short": "a string that is not empty",
    "too_short": "a list with at least one value",
}


def expectations(errors: Iterable[Any]) -> str:
    """Return pydantic's complaints about one value as one phrase: "must be a number or 'practical'"."""
    said: list[str] = []
    for error in errors:
        phrase = PHRASES.get(error["type"]) or re.sub(r"^Input should be ", "", error["msg"])
        phrase = phrase.replace("greater than or equal to", "at least")
        if phrase not in said:
            said.append(phrase)
    return f"must be {' or '.join(said)}" if said else "is not valid"
