"""The command line: ``tabpo run | plot | table | list | show | doctor``."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from tabpo import __version__
from tabpo.errors import InvalidInputError, TabpoError

if TYPE_CHECKING:
    import pandas as pd

    from tabpo.figures import PaperFigure
    from tabpo.sweep import Experiment, Results

app = typer.Typer(
    name="tabpo",
    help="Regret sweeps, figures and tables for policy optimization in tabular MDPs.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


class Kind(StrEnum):
    """Kinds of figure."""

    regret = "regret"
    per_episode = "per-episode"
    delay = "delay"
    setting = "setting"


class TableFormat(StrEnum):
    """How a table is written."""

    text = "text"
    csv = "csv"
    latex = "latex"
    markdown = "markdown"


class Section(StrEnum):
    """What configs choose from."""

    mdps = "mdps"
    losses = "losses"
    delays = "delays"
    learners = "learners"


ResultsFolder = Annotated[Path, typer.Argument(metavar="RESULTS", help="The folder that `tabpo run` wrote.")]
Level = Annotated[float, typer.Option(help="Level of the intervals over runs.")]
Only = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="KEY=VALUE", help="Which results, as learner=dapo; repeat for more."),
]
Partial = Annotated[bool, typer.Option("--partial", help="Do with the cells that are finished.")]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code: 0, 2 for an error in what was asked, 1 for any other.

    Parameters
    ----------
    arguments : sequence of str, optional
        Default: the process's own.
    """
    given = list(sys.argv[1:] if arguments is None else arguments)
    debug = "--debug" in given
    try:
        # With or without the option the command sees the same; it may stand anywhere on the line.
        app([one for one in given if one != "--debug"], prog_name="tabpo")
    except SystemExit as end:
        return int(end.code or 0)
    except (TabpoError, OSError) as error:
        if debug:
            traceback.print_exc()
        return _fail(error)
    return 0


def _fail(error: Exception) -> int:
    from tabpo.sweep import FailedCellsError

    sentence = str(error)
    if isinstance(error, OSError) and error.strerror:
        sentence = f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    _say(f"tabpo: {sentence}")
    return 1 if isinstance(error, FailedCellsError) else 2


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def _version(wanted: bool) -> None:
    if wanted:
        print(f"tabpo {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and stop.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks; may stand anywhere.")] = False,
) -> None:
    """Regret sweeps, figures and tables for policy optimization in tabular MDPs."""


@app.command()
def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="The experiment's TOML file.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="Folder for the results; run again to go on.")],
    workers: Annotated[
        int | None, typer.Option("--workers", "-w", min=1, help="Local processes; default: one per core.")
    ] = None,
    scheduler: Annotated[
        str | None, typer.Option(metavar="ADDRESS", help="Compute on this Dask scheduler's workers instead.")
    ] = None,
    level: Level = 0.95,
    no_figure: Annotated[bool, typer.Option("--no-figure", help="Draw no figure at the end.")] = False,
) -> None:
    """Compute what an experiment's results do not hold yet; then print its table and draw its figure."""
    from tabpo.sweep import SweepInterrupted, load_config, run_experiment
    from tabpo.sweep.progress import show_progress

    experiment = load_config(config)
    if not no_figure:
        _check_figure(experiment)
    _check_level(level)
    try:
        with show_progress() as progress:
            results = run_experiment(
                experiment, output, workers=workers or _cores(), scheduler=scheduler, progress=progress
            )
    except SweepInterrupted as stop:
        _say(f"tabpo: {stop}")
        raise typer.Exit(130) from None
    _print_final(results, level)
    print(f"results  {output}")
    if not no_figure:
        _draw_configured(results, output, level)


def _cores() -> int:
    """Return the number of cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InvalidInputError(f"--level must lie between 0 and 1, such as 0.95, got {level:g}")


def _figure_table(table: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return str(table.get("kind", "regret")), {name: value for name, value in table.items() if name != "kind"}


def _check_figure(experiment: Experiment) -> None:
    from tabpo.figures import kinds

    kind, chosen = _figure_table(experiment.figure)
    try:
        kinds.check(kind, chosen)
    except InvalidInputError as error:
        raise InvalidInputError(f"{experiment.source}: figure: {error}") from None


def _print_final(results: Results, level: float) -> None:
    from tabpo.figures import tables

    table, same = tables.shown(tables.final_table(results, level=level))
    _print_table(table)
    Console().print(tables.caption("regret", level, "t", same), highlight=False, markup=False)


def _print_table(table: pd.DataFrame, numeric: Iterable[str] = ("K", "Runs", "Cumulative regret", "Interval")) -> None:
    console = Console()
    grid = Table(box=None, header_style="bold", pad_edge=False)
    right = set(numeric)
    for name in table.columns:
        grid.add_column(name, justify="right" if name in right else "left", no_wrap=name in right, overflow="fold")
    for row in table.to_numpy().tolist():
        grid.add_row(*map(str, row))
    console.print(grid, highlight=False, markup=False)


def _draw_configured(results: Results, output: Path, level: float) -> None:
    """Draw the config's figure; the results are there whatever becomes of it."""
    from tabpo import figures

    kind, chosen = _figure_table(results.figure)
    try:
        figure = figures.draw(results, kind, **({"level": level} | chosen))
        written = figures.save(figure, output / kind)
    except InvalidInputError as error:
        _say(f"tabpo: no figure was drawn: {error}")
        return
    _report_figure(figure, written)


def _report_figure(figure: PaperFigure, written: Iterable[Path]) -> None:
    for path in written:
        print(f"figure   {path}")
    Console().print(figure.caption, highlight=False, markup=False)


@app.command()
def plot(
    results: ResultsFolder,
    output: Annotated[Path, typer.Option("--output", "-o", help="File; without a suffix both .pdf and .png.")],
    kind: Annotated[Kind | None, typer.Option(help="Default: the config's [figure], else regret.")] = None,
    metric: Annotated[str | None, typer.Option(help="regret, final_regret, expected_loss, sampled_loss.")] = None,
    scale: Annotated[str | None, typer.Option(help="linear, log or symlog.")] = None,
    band: Annotated[str | None, typer.Option(help="t, bootstrap, percentile, simultaneous or none.")] = None,
    abscissa: Annotated[str | None, typer.Option(help="Of delay: total_delay or episodes_plus_delay.")] = None,
    setting: Annotated[
        str | None, typer.Option(help="Of setting: its abscissa, such as learner.step_size or n_episodes.")
    ] = None,
    level: Annotated[float | None, typer.Option(help="Level of the intervals over runs; default 0.95.")] = None,
    width: Annotated[str | None, typer.Option(help="one-column, two-column or inches.")] = None,
    only: Only = None,
    partial: Partial = False,
) -> None:
    """Draw a figure from stored results."""
    from tabpo import figures
    from tabpo.sweep import open_results

    stored = open_results(results)
    configured, chosen = _figure_table(stored.figure)
    if kind is not None and kind.value != configured:
        configured, chosen = kind.value, {}
    told = {"metric": metric, "scale": scale, "abscissa": abscissa, "level": level, "width": _width(width)}
    told["setting"] = setting
    told["method" if configured in ("delay", "setting") else "band"] = band
    chosen |= {name: value for name, value in told.items() if value is not None}
    chosen |= _filters(only) | ({"partial": True} if partial else {})
    figure = figures.draw(stored, configured, **chosen)
    written = figures.save(figure, output)
    if configured == "delay":
        _print_slopes(stored, chosen)
    _report_figure(figure, written)


def _width(text: str | None) -> str | float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


def _print_slopes(stored: Results, chosen: dict[str, Any]) -> None:
    from tabpo.figures import delay_slopes

    ours = ("method", "slopes", "share_y", "width")
    slopes = delay_slopes(stored, **{name: value for name, value in chosen.items() if name not in ours})
    before = slopes.columns[: slopes.columns.get_loc("learner")]
    varying = [name for name in before if slopes[name].nunique() > 1]
    texts = slopes[[*varying, "learner"]].astype(str)
    texts["Slope"] = ["none" if slope != slope else f"{round(slope, 3) + 0.0:.3f}" for slope in slopes["slope"]]
    texts["Interval"] = [
        "none" if low != low else f"[{round(low, 3) + 0.0:.3f}, {round(high, 3) + 0.0:.3f}]"
        for low, high in zip(slopes["lower"], slopes["upper"], strict=True)
    ]
    _print_table(texts, ("Slope", "Interval"))


@app.command()
def table(
    results: ResultsFolder,
    level: Level = 0.95,
    method: Annotated[str, typer.Option(help="t, bootstrap or percentile.")] = "t",
    metric: Annotated[str, typer.Option(help="regret, final_regret, expected_loss, sampled_loss.")] = "regret",
    form: Annotated[TableFormat, typer.Option("--format", help="How to write it.")] = TableFormat.text,
    output: Annotated[Path | None, typer.Option("--output", "-o", help="File; default: print it.")] = None,
    only: Only = None,
    partial: Partial = False,
) -> None:
    """Print regret after the last episode with intervals over runs."""
    from tabpo import figures
    from tabpo.sweep import open_results

    _check_level(level)
    more = _filters(only) | ({"partial": True} if partial else {})
    found = figures.final_table(open_results(results), metric=metric, level=level, method=method, **more)  # type: ignore[arg-type]
    text = figures.render(found, form.value, metric=metric, level=level, method=method)
    if output is None:
        print(text, end="")
    else:
        output.write_text(text, encoding="utf-8")
        print(f"table    {output}")


def _filters(only: Iterable[str] | None) -> dict[str, Any]:
    """Return the filters of ``--only``; a key given twice allows either value."""
    found: dict[str, list[Any]] = {}
    for one in only or ():
        name, value = _pair(one, "--only")
        found.setdefault(name, []).append(value)
    return {name: values[0] if len(values) == 1 else values for name, values in found.items()}


def _pair(text: str, where: str) -> tuple[str, Any]:
    """Return the name and the value, a TOML value if it is one and else a string, of ``NAME=VALUE``."""
    import tomllib

    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise InvalidInputError(f"{where}: {text!r} must have the form NAME=VALUE, such as learner=dapo")
    try:
        return name.strip(), tomllib.loads(f"value = {value}")["value"]
    except tomllib.TOMLDecodeError:
        return name.strip(), value.strip()


@app.command("list")
def list_(
    section: Annotated[Section | None, typer.Argument(help="One of them; default: all.")] = None,
) -> None:
    """List the MDPs, loss sequences, delay laws and learners that configs can name, with their parameters."""
    from tabpo import listing
    from tabpo.sweep.components import SECTIONS

    sections = [one for one in SECTIONS if section is None or one == section.value]
    print(listing.text(sections, min(Console().width, 100)), end="")


@app.command()
def show(
    name: Annotated[str, typer.Argument(metavar="NAME", help="As in `tabpo list`; losses.file where two share it.")],
    parameters: Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Its parameters.")] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Draw it there; without a suffix both .pdf and .png.")
    ] = None,
    episodes: Annotated[int, typer.Option(min=1, help="Episodes of losses or delays.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of losses or delays.")] = 0,
    mdp: Annotated[str, typer.Option(help="The MDP that losses are for.")] = "grid_world",
) -> None:
    """Describe an MDP, a loss sequence, a delay law or a learner, and draw it where --output says."""
    from tabpo import figures, listing

    chosen = dict(_pair(one, "show") for one in parameters or ())
    shown = listing.show(name, chosen, episodes=episodes, seed=seed, mdp=mdp, draw=output is not None)
    Console().print(shown.text, highlight=False, markup=False)
    if output is None:
        return
    if shown.figure is None:
        raise InvalidInputError(f"{name!r} is a learner, and there is no drawing of one; leave --output out")
    for path in figures.save(shown.figure, output):
        print(f"figure   {path}")


@app.command()
def check(
    claim: Annotated[str | None, typer.Argument(help="Default: list the claims.")] = None,
    instances: Annotated[int, typer.Option("--instances", "-n", min=1, help="Random instances.")] = 1000,
    seed: Annotated[int, typer.Option(min=0, help="Of the instances.")] = 0,
) -> None:
    """Evaluate a paper's claim on random instances: does it hold, how tight is it, which instance is the worst."""
    from tabpo.errors import unknown
    from tabpo.theory import CLAIMS
    from tabpo.theory import check as evaluate

    if claim is None:
        for one in CLAIMS.values():
            print(f"{one.name}\n    {one.statement}\n    {one.paper}: {one.where}")
        return
    if claim not in CLAIMS:
        raise unknown("claim", claim, CLAIMS)
    report = evaluate(CLAIMS[claim], instances, seed)
    print(CLAIMS[claim].statement)
    print(report)
    if not report.holds:
        raise typer.Exit(1)


@app.command()
def doctor() -> None:
    """Say what is installed, what is missing and how to install it."""
    from tabpo import doctor as examination

    report = examination.examine()
    print(report.text, end="")
    raise typer.Exit(0 if report.healthy else 1)


if __name__ == "__main__":
    sys.exit(main())
