"""Writing TOML: the few kinds of value that an experiment's config holds."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any


def dumps(tables: Mapping[str, Any]) -> str:
    """Return a mapping of plain values, lists and tables as TOML; ``None`` is left out."""
    simple = {key: value for key, value in tables.items() if not _is_table(value) and not _is_tables(value)}
    blocks = ["".join(f"{_key(key)} = {_value(value)}\n" for key, value in simple.items() if value is not None)]
    for key, value in tables.items():
        if _is_tables(value):
            blocks += [f"[[{_key(key)}]]\n" + _lines(entry) for entry in value]
        elif _is_table(value):
            blocks.append(f"[{_key(key)}]\n" + _lines(value))
    return "\n".join(block for block in blocks if block)


def _lines(table: Mapping[str, Any]) -> str:
    return "".join(f"{_key(key)} = {_value(value)}\n" for key, value in table.items() if value is not None)


def _is_table(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_tables(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(entry, Mapping) for entry in value)


def _key(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else _string(key)


def _string(text: str) -> str:
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else str(value)  # TOML knows inf and nan
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(_value(one) for one in value)}]"
    if isinstance(value, Mapping):
        inside = (f"{_key(key)} = {_value(one)}" for key, one in value.items() if one is not None)
        return f"{{ {', '.join(inside)} }}"
    if isinstance(value, str):
        return _string(value)
    return str(value)
