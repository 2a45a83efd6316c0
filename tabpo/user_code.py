"""Files that a cell's numbers depend on: hashes of their contents, and Python objects loaded by path."""

from __future__ import annotations

import ast
import hashlib
import importlib
import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

from tabpo.errors import InvalidInputError, nearest


def contents_hash(*paths: Path) -> str:
    """Return the SHA-256 (hex) of the files' contents in the order given; names and folders do not enter.

    Raises
    ------
    InvalidInputError
        If a file cannot be read.
    """
    total = hashlib.sha256()
    for path in paths:
        try:
            contents = path.read_bytes()
        except OSError as error:
            raise InvalidInputError(f"cannot read the file {str(path)!r}: {error.strerror or error}") from None
        total.update(hashlib.sha256(contents).digest())
    return total.hexdigest()


def _imported_names(path: Path) -> Iterator[str]:
    """Yield the names of modules that could be files beside ``path``."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return  # loading the file says what is wrong with it
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.level <= 1:
            if node.module:
                yield node.module
            prefix = f"{node.module}." if node.module else ""
            yield from (prefix + alias.name for alias in node.names)


def source_files(path: Path) -> list[Path]:
    """Return ``path`` and the Python files beside it that it imports, directly or through one another."""
    found, waiting = {path}, [path]
    while waiting:
        current = waiting.pop()
        for name in _imported_names(current):
            base = current.parent.joinpath(*name.split("."))
            for beside in (base.with_suffix(".py"), base / "__init__.py"):
                if beside not in found and beside.is_file():
                    found.add(beside)
                    waiting.append(beside)
    return [path, *sorted(found - {path})]


def load_object(spec: str, base_folder: Path) -> tuple[Any, str]:
    """Return the object that ``"file.py:Name"`` or ``"package.module:Name"`` names, and its source's hash.

    Parameters
    ----------
    spec : str
        A Python file, relative to ``base_folder`` or absolute, or an importable module; a colon; a name.
    base_folder : Path

    Raises
    ------
    InvalidInputError
        If there is no such file, module or name, or if loading it fails.
    """
    where, _, name = spec.rpartition(":")
    if not where or not name:
        raise InvalidInputError(f"{spec!r} names no object; write 'file.py:Name' or 'package.module:Name'")
    module = _module_of_file(base_folder / where) if where.endswith(".py") else _imported_module(where)
    if not hasattr(module, name):
        known = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
        raise InvalidInputError(f"{where!r} defines no {name!r}{nearest(name, known)}")
    file = getattr(module, "__file__", None)
    ours = module.__name__.partition(".")[0] == "tabpo"  # tabpo's own numbers have NUMERICS_VERSION
    source = "" if ours or not file else contents_hash(*source_files(Path(file)))
    return getattr(module, name), source


def _module_of_file(path: Path) -> ModuleType:
    if not path.is_file():
        raise InvalidInputError(f"there is no Python file {str(path)!r}")
    path = path.resolve()
    # the name holds the place's and the contents' hashes: an edited file is another module in a process that lives on
    place = hashlib.sha256(str(path).encode()).hexdigest()[:8]
    name = f"tabpo_user_{path.stem}_{place}_{contents_hash(*source_files(path))[:12]}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InvalidInputError(f"{str(path)!r} cannot be loaded as Python")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # dataclasses look their module up while the file runs
    sys.path.insert(0, str(path.parent))
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise InvalidInputError(f"loading {str(path)!r} failed: {type(error).__name__}: {error}") from error
    finally:
        sys.path.remove(str(path.parent))
    return module


def _imported_module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except Exception as error:
        raise InvalidInputError(f"importing {name!r} failed: {type(error).__name__}: {error}") from error
