"""The figures on DAPO: runs what is missing of its experiments and writes each figure as PDF and PNG.

python paper_figures/dapo.py --output results/dapo_paper [--workers N] [--quick]

The full set takes about ten minutes with one worker; run it again to go on where it stopped. ``--quick`` runs every
experiment at a hundredth of its length with four runs: it shows that everything works, and no result. Captions and the
numbers that a text would quote are printed, and kept in a text file per experiment beside the figures.
"""

from __future__ import annotations

import argparse
import sys
import tomllib
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

import tabpo
from tabpo import figures
from tabpo.errors import TabpoError
from tabpo.statistics import interval
from tabpo.sweep import Results

EXPERIMENTS = Path(__file__).resolve().parents[1] / "experiments"
SHORTER, FEWER_RUNS = 100, 4
LENGTHS = ("n_episodes", "period", "delay", "mean", "length", "extra")
"""What is counted in episodes, and shrinks in a quick run."""

Drawn = tuple[str, figures.PaperFigure]


def ablations(results: Results) -> Iterator[Drawn | pd.DataFrame]:
    """Yield the figure of regret over the episodes, for DAPO and without each of its parts."""
    options = {name: value for name, value in results.figure.items() if name != "kind"}
    first = min(options.pop("first_episode"), int(results.manifest["n_episodes"].min()) // 10)
    yield "ablations", figures.regret(results, first_episode=first, **options)
    yield figures.final_table(results)[["mdp", "learner", "mean", "lower", "upper"]]


def delays(results: Results) -> Iterator[Drawn | pd.DataFrame]:
    """Yield the figure of regret against the total delay, and the slopes where D is neither small nor ruinous."""
    yield "delays", figures.regret_against_delay(results, across=["law"])
    manifest = results.manifest.drop_duplicates("delays")
    means = manifest[["delays.delay", "delays.mean"]].astype("float64").max(axis=1)
    means = means.fillna((manifest["delays.length"].astype("float64") - 1) / 2)
    largest = means.max()
    told = manifest["delays"][(means > 0) & (means < largest / 10)].tolist()
    for chosen in (sorted(set(manifest["delays"])), told):
        table = figures.delay_slopes(results, across=["law"], delays=chosen)
        if not table.empty:
            yield table[table["learner"] != "uniform"][["law", "learner", "delays", "slope", "lower", "upper"]]


def rates(results: Results) -> Iterator[Drawn | pd.DataFrame]:
    """Yield the figure of regret against the number of episodes, each with its own tuning, and the slopes."""
    yield "rates", figures.regret_against_setting(results, setting="n_episodes", scale="log")
    longest = sorted(results.manifest["n_episodes"].unique())[-2:]
    for lengths in (None, [int(one) for one in longest]):
        chosen = {} if lengths is None else {"n_episodes": lengths}
        table = figures.setting_slopes(results, setting="n_episodes", **chosen)
        yield table[["delays", "learner", "points", "slope", "lower", "upper"]]


def adversarial(results: Results) -> Iterator[Drawn | pd.DataFrame]:
    """Yield the figures of losses that switch, and where DAPO's regret lies below that without its ratio."""
    yield "adversarial", figures.regret_against_setting(results, setting="learner.step_size")
    step_size = sorted(results.manifest["learner.step_size"].dropna().unique())[-2]
    mdp = results.manifest["mdp"].iloc[0]
    curves = [
        figures.Curve(one["learner"].partition(" (")[0], *numbers, delays=one["delays"], kind=one["learner.kind"])
        for one, *numbers in results.curves(mdp=mdp, step_size=step_size)
    ]
    yield "adversarial_episodes", figures.regret(curves, share_y=False, band="simultaneous")
    differences = paired_differences(results)
    yield differences
    counts = differences.assign(
        lower_regret=differences["upper"] < 0,
        higher_regret=differences["lower"] > 0,
        equal=(differences["mean"] == 0),
    )
    yield counts.groupby("delays", sort=False)[["lower_regret", "higher_regret", "equal"]].sum().reset_index()


def paired_differences(results: Results) -> pd.DataFrame:
    """Return the regret of DAPO less that without the ratio, run by run, with a t interval over the runs."""
    final = results.final()
    point = ["mdp", "delays", "learner.step_size"]
    rows = []
    for place, inside in final.groupby(point, sort=False):
        table = inside.pivot_table(index="run", columns="learner.adapt", values="regret")
        mean, lower, upper = (float(one) for one in interval((table[True] - table[False]).to_numpy()))
        rows.append(dict(zip(point, place, strict=True)) | {"mean": mean, "lower": lower, "upper": upper})
    return pd.DataFrame(rows).rename(columns={"learner.step_size": "step_size"})


def step_sizes(results: Results) -> Iterator[Drawn | pd.DataFrame]:
    """Yield the figure of regret against the step size."""
    yield "step_sizes", figures.regret_against_setting(results, setting="learner.step_size")


PARTS: dict[str, Callable[[Results], Iterator[Drawn | pd.DataFrame]]] = {
    "dapo_ablations": ablations,
    "dapo_delays": delays,
    "dapo_rates": rates,
    "dapo_adversarial": adversarial,
    "dapo_step_sizes": step_sizes,
}


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


def make(output: Path, workers: int, quick: bool, names: Sequence[str] = tuple(PARTS)) -> list[Path]:
    """Run the experiments of these names and write their figures into ``output``; return what was written."""
    output.mkdir(parents=True, exist_ok=True)
    written = []
    for name in names:
        print(f"running  {name}", flush=True)
        stored = output / "results" / (f"{name}_quick" if quick else name)
        results = tabpo.run_experiment(config_of(name, quick), stored, workers=workers)
        numbers = []
        for made in PARTS[name](results):
            if isinstance(made, pd.DataFrame):
                numbers.append(made.to_string(index=False, float_format=lambda value: f"{value:.4g}") + "\n")
            else:
                files = figures.save(made[1], output / f"dapo_{made[0]}")
                numbers.append(f"{files[0].stem}: {made[1].caption}\n")
                written += files
            print(numbers[-1], flush=True)
        written.append(output / f"{name}.txt")
        written[-1].write_text("\n".join(numbers), encoding="utf-8")
    return written


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the script and return the exit code."""
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--output", type=Path, required=True, help="folder for the figures, with results/ in it")
    parser.add_argument("--workers", type=int, default=1, help="processes (default 1)")
    parser.add_argument("--quick", action="store_true", help="a hundredth of the episodes and 4 runs: a trial")
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS), help="some experiments")
    chosen = parser.parse_args(arguments)
    try:
        written = make(chosen.output, chosen.workers, chosen.quick, chosen.only)
    except (TabpoError, OSError) as error:
        print(f"dapo.py: {error}", file=sys.stderr)
        return 2
    for path in written:
        print(f"written  {path}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
