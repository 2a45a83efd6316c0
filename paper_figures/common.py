"""What the scripts of this folder share: running experiments, or short trials of them, and writing what they draw."""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pandas as pd

import tabpo
from tabpo import figures
from tabpo.errors import TabpoError
from tabpo.statistics import interval

EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments"
SHORTER, FEWER_RUNS = 100, 4
LENGTHS = ("n_episodes", "period", "delay", "mean", "length", "extra", "budget")
"""What is counted in episodes, and shrinks in a quick run."""

Drawn = tuple[str, figures.PaperFigure] | pd.DataFrame
"""A figure with the end of its file's name, or a table of numbers that a text would quote."""


@dataclass(frozen=True)
class Part:
    """Figures and numbers, and the experiments whose results they show.

    Attributes
    ----------
    experiments : tuple of str
        Names of configs.
    draw : callable
        Takes the results of each and yields what it draws.
    """

    experiments: tuple[str, ...]
    draw: Callable[..., Iterator[Drawn]]


def shortened(tables: dict[str, Any]) -> dict[str, Any]:
    """Return a config with everything that is counted in episodes cut to a hundredth, and with few runs."""

    def cut(key: str, value: Any) -> Any:
        if isinstance(value, dict):
            return {name: cut(name, one) for name, one in value.items()}
        if isinstance(value, list) and value and isinstance(value[0], dict):
            return [cut(key, one) for one in value]
        if key not in LENGTHS:
            return value
        if isinstance(value, list):
            return list(dict.fromkeys(cut(key, one) for one in value))
        return max(1, round(value / SHORTER)) if value else value

    return cut("", tables) | {"n_runs": FEWER_RUNS, "checkpoints": 20}


def config_of(name: str, quick: bool) -> Path | dict[str, Any]:
    """Return an experiment's file, or its shortened tables."""
    path = EXPERIMENTS / f"{name}.toml"
    return shortened(tomllib.loads(path.read_text(encoding="utf-8"))) if quick else path


def paired_differences(final: pd.DataFrame, switch: str, point: Sequence[str]) -> pd.DataFrame:
    """Return the regret with a switch on less that with it off, run by run, with a t interval over the runs.

    Parameters
    ----------
    final : DataFrame
        Of :meth:`tabpo.sweep.Results.final`.
    switch : str
        The column that is true or false, such as ``learner.adapt``.
    point : sequence of str
        The columns that are the same for the two; a row of the table for each combination.
    """
    rows = []
    for place, inside in final.groupby(list(point), sort=False):
        table = inside.pivot_table(index="run", columns=switch, values="regret")
        mean, lower, upper = (float(one) for one in interval((table[True] - table[False]).to_numpy()))
        rows.append(dict(zip(point, place, strict=True)) | {"mean": mean, "lower": lower, "upper": upper})
    return pd.DataFrame(rows)


def make(
    name: str, parts: Mapping[str, Part], output: Path, workers: int, quick: bool, chosen: Sequence[str]
) -> list[Path]:
    """Run what is missing of the chosen parts' experiments, write their figures and numbers, and return the files.

    Parameters
    ----------
    name : str
        With which the figures' names begin.
    parts : mapping
    output : Path
    workers : int
    quick : bool
    chosen : sequence of str
        Keys of ``parts``.
    """
    output.mkdir(parents=True, exist_ok=True)
    written = []
    for title in chosen:
        part = parts[title]
        results = []
        for experiment in part.experiments:
            print(f"running  {experiment}", flush=True)
            stored = output / "results" / (f"{experiment}_quick" if quick else experiment)
            results.append(tabpo.run_experiment(config_of(experiment, quick), stored, workers=workers))
        told = []
        for made in part.draw(*results):
            if isinstance(made, pd.DataFrame):
                told.append(made.to_string(index=False, float_format=lambda value: f"{value:.4g}") + "\n")
            else:
                files = figures.save(made[1], output / f"{name}_{made[0]}")
                told.append(f"{files[0].stem}: {made[1].caption}\n")
                written += files
            print(told[-1], flush=True)
        written.append(output / f"{title}.txt")
        written[-1].write_text("\n".join(told), encoding="utf-8")
    return written


def run_script(script: str, says: str, parts: Mapping[str, Part], arguments: Sequence[str] | None = None) -> int:
    """Run a script and return the exit code.

    Parameters
    ----------
    script : str
        Its file.
    says : str
        Its docstring, whose first line is its help.
    parts : mapping
    arguments : sequence of str, optional
        Of the command line.
    """
    parser = argparse.ArgumentParser(prog=Path(script).name, description=says.splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="folder for the figures, with results/ in it")
    parser.add_argument("--workers", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the episodes and 4 runs: a trial")
    parser.add_argument("--only", nargs="+", choices=parts, default=list(parts), help="some parts")
    given = parser.parse_args(arguments)
    try:
        written = make(Path(script).stem, parts, given.output, given.workers, given.quick, given.only)
    except (TabpoError, OSError) as error:
        print(f"{Path(script).name}: {error}", file=sys.stderr)
        return 2
    for path in written:
        print(f"written  {path}")
    return 0
