"""Running a sweep: the same bytes however computed, whatever is killed, and only what is missing."""

from __future__ import annotations

import errno
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import Future
from pathlib import Path

import pytest

from tabpo.sweep import (
    ConfigError,
    FailedCellsError,
    StoreError,
    SweepInterrupted,
    load_config,
    open_results,
    plan,
    run_experiment,
)
from tabpo.sweep.progress import duration, show_progress, summary
from tabpo.sweep.schedule import outcomes
from tabpo.sweep.status import SweepStatus
from tabpo.sweep.store import Store
from tabpo.sweep.worker import Computed, compute
from tests.sweep_pieces import CONFIG, numbers, start, write_config

SLOW = CONFIG.replace("n_episodes = 300", "n_episodes = 100").replace(
    '"dapo"\ngrid = { step_size = [0.05, 0.2] }', '"mine.py:Uniform"\ngrid = { pause = [0.0005, 0.001] }'
)
TROUBLED = SLOW.replace("grid = { pause = [0.0005, 0.001] }", 'grid = { trouble = ["", "raise"] }').replace(
    "mean = [1, 4]", "mean = [1]"
)


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory):
    """The config and its results, computed in this process."""
    folder = tmp_path_factory.mktemp("undisturbed")
    config = write_config(folder)
    run_experiment(config, folder / "out")
    return config, folder / "out"


def leftovers(folder: Path) -> list[str]:
    return [path.name for path in folder.rglob("*.tmp")]


def test_two_workers_give_the_same_bytes(undisturbed, tmp_path):
    config, output = undisturbed
    told: list[SweepStatus] = []
    run_experiment(config, tmp_path / "out", workers=2, progress=told.append)
    assert numbers(tmp_path / "out") == numbers(output)
    assert len(numbers(output)) == 12
    assert not leftovers(output)
    _check_progress(told, n_cells=12, run_episodes=2 * 2 * 5 * 300)


def _check_progress(told: list[SweepStatus], n_cells: int, run_episodes: int) -> None:
    done = [status.run_episodes_done for status in told]
    assert done == sorted(done)
    assert (done[0], done[-1]) == (0, run_episodes)
    assert told[-1].n_done == told[-1].n_cells == n_cells
    assert told[-1].seconds_left == 0


def test_a_cell_alone_gives_the_same_bytes(undisturbed):
    config, output = undisturbed
    cell = plan(load_config(config))[7]
    assert compute(cell).numbers == numbers(output)[f"{cell.hash}.parquet"]


def test_runs_do_not_depend_on_their_block(undisturbed, tmp_path):
    _config, output = undisturbed
    whole = write_config(tmp_path, CONFIG.replace("runs_per_cell = 2", ""))
    merged = {key: values for key, _, values in run_experiment(whole, tmp_path / "out").curves()}
    for key, _, values in open_results(output).curves():
        assert (merged[key] == values).all()


def test_rerunning_computes_nothing(undisturbed):
    config, output = undisturbed
    before = {path: path.stat().st_mtime_ns for path in (output / "cells").iterdir()}
    told: list[SweepStatus] = []
    run_experiment(config, output, progress=told.append)
    assert before == {path: path.stat().st_mtime_ns for path in (output / "cells").iterdir()}
    assert told == []


def test_extending_computes_only_what_is_new(undisturbed, tmp_path):
    config, output = undisturbed
    out = tmp_path / "out"
    run_experiment(config, out)
    before = {path: path.stat().st_mtime_ns for path in (out / "cells").iterdir()}
    wider = CONFIG.replace("[1, 4]", "[1, 4, 9]").replace("n_runs = 5", "n_runs = 6")
    wider += '[[learners]]\nkind = "uniform"\n'
    told: list[SweepStatus] = []
    results = run_experiment(write_config(tmp_path, wider), out, progress=told.append)
    assert before == {path: path.stat().st_mtime_ns for path in before}
    # of 27 cells the 8 full blocks were there; the blocks of run 4 alone are now blocks of runs 4 and 5
    assert (told[0].n_cells, told[0].n_done) == (27, 8)
    assert (told[-1].n_cells, told[-1].n_done) == (27, 27)
    assert len(results.unlisted) == 4
    assert results.missing.empty
    again = run_experiment(config, out)  # the earlier config's cells are still there
    assert again.missing.empty
    assert numbers(output).items() <= numbers(out).items()


@pytest.mark.slow
@pytest.mark.sample
def test_killed_at_a_random_moment_it_goes_on_to_the_same_bytes(tmp_path):
    config = write_config(tmp_path, SLOW)
    complete = run_experiment(config, tmp_path / "complete")
    pause = 0.05 + time.time() % 0.4  # whenever it comes
    process = start(config, tmp_path / "killed", workers=2)
    _wait_for_a_cell(tmp_path / "killed", process)
    time.sleep(pause)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    there = numbers(tmp_path / "killed")
    assert there.items() <= numbers(tmp_path / "complete").items()
    run_experiment(config, tmp_path / "killed", workers=1)
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "complete")
    assert open_results(tmp_path / "killed").manifest.equals(complete.manifest)
    assert not leftovers(tmp_path / "killed")


def _wait_for_a_cell(folder: Path, process: subprocess.Popen[str]) -> None:
    while not numbers(folder):
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)


@pytest.mark.slow
def test_workers_end_with_their_parent(tmp_path):
    psutil = pytest.importorskip("psutil")
    process = start(write_config(tmp_path, SLOW.replace("0.001]", "0.1]")), tmp_path / "out", workers=2)
    _wait_for_a_cell(tmp_path / "out", process)
    children = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    process.communicate()
    assert children
    _, alive = psutil.wait_procs(children, timeout=10)
    assert not alive


@pytest.mark.slow
@pytest.mark.sample
def test_ctrl_c_says_how_to_go_on(tmp_path):
    config = write_config(tmp_path, SLOW.replace("0.001]", "0.01]"))
    process = start(config, tmp_path / "out", workers=2)
    _wait_for_a_cell(tmp_path / "out", process)
    os.killpg(process.pid, signal.SIGINT)  # what a terminal does: to the workers too
    said, errors = process.communicate(timeout=20)
    n_stored = len(numbers(tmp_path / "out"))
    assert process.returncode == 130
    assert errors == ""
    assert said.strip() == (
        f"stopped: {n_stored} of 12 cells are stored in '{tmp_path}/out'; "
        f"to go on: tabpo run {config} --output {tmp_path}/out"
    )
    assert not leftovers(tmp_path / "out")


def test_ctrl_c_in_this_process(tmp_path):
    def stop(status: SweepStatus) -> None:
        if status.n_done == 3:
            raise KeyboardInterrupt

    config = write_config(tmp_path)
    with pytest.raises(SweepInterrupted, match=r"stopped: 3 of 12 cells are stored"):
        run_experiment(config, tmp_path / "out", progress=stop)
    assert run_experiment(config, tmp_path / "out").missing.empty


def test_ctrl_c_between_storing_a_cell_and_counting_it(tmp_path, monkeypatch):
    save = Store.save

    def save_and_stop(*arguments):
        save(*arguments)
        raise KeyboardInterrupt

    monkeypatch.setattr(Store, "save", save_and_stop)
    with pytest.raises(SweepInterrupted, match=r"stopped: 1 of 12 cells are stored"):
        run_experiment(write_config(tmp_path), tmp_path / "out")


@pytest.mark.slow
def test_two_sweeps_in_one_folder_at_once(undisturbed, tmp_path):
    config, output = undisturbed
    both = [start(config, tmp_path / "out", workers=1) for _ in range(2)]
    for process in both:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    assert numbers(tmp_path / "out") == numbers(output)
    assert not leftovers(tmp_path / "out")


def test_a_failing_cell_is_reported_and_the_others_go_on(tmp_path):
    config = write_config(tmp_path, TROUBLED)
    with pytest.raises(FailedCellsError, match=r"RuntimeError: lost my way") as caught:
        run_experiment(config, tmp_path / "out")
    assert len(caught.value.failures) == 3
    assert len(numbers(tmp_path / "out")) == 3
    assert set(caught.value.results.missing["learner"]) == {"mine.py:Uniform (trouble=raise)"}
    reports = list((tmp_path / "out" / "failed").glob("*.txt"))
    assert len(reports) == 3
    text = reports[0].read_text()
    assert '"trouble": "raise"' in text
    assert "in act" in text  # the traceback


def test_a_mended_failure_is_forgotten(tmp_path, monkeypatch):
    config = write_config(tmp_path)
    from tabpo.sweep import executors

    def refuse(*arguments):
        raise MemoryError("too big")

    with monkeypatch.context() as patch:
        patch.setattr(executors, "compute", refuse)
        with pytest.raises(FailedCellsError, match=r"12 cells could not.*\n.*MemoryError: too big"):
            run_experiment(config, tmp_path / "out")
    run_experiment(config, tmp_path / "out")
    assert not list((tmp_path / "out" / "failed").iterdir())


@pytest.mark.slow
def test_only_the_cell_that_kills_its_worker_fails(tmp_path):
    text = TROUBLED.replace('"raise"', '"die", "raise"').replace("n_runs = 5", "n_runs = 2")
    config = write_config(tmp_path, text)
    with pytest.raises(FailedCellsError, match=r"2 cells could not") as caught:
        run_experiment(config, tmp_path / "out", workers=2)
    said = {failure.cell.learner.parameters["trouble"]: failure.sentence for failure in caught.value.failures}
    assert said["die"].startswith("the worker process died")
    assert said["raise"] == "RuntimeError: lost my way"
    assert len(numbers(tmp_path / "out")) == 1


def _full_disk_after(monkeypatch, n_files: int) -> None:
    written = 0

    def sync(descriptor: int) -> None:
        nonlocal written
        written += 1
        if written > n_files:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", sync)


@pytest.mark.parametrize("n_files", [0, 1, 5, 6])
def test_a_full_disk_is_a_sentence_and_loses_nothing(undisturbed, tmp_path, monkeypatch, n_files):
    config, output = undisturbed
    with monkeypatch.context() as patch:
        _full_disk_after(patch, n_files)
        with pytest.raises(StoreError, match=r"cannot write .*: No space left on device; what is stored already"):
            run_experiment(config, tmp_path / "out")
    assert numbers(tmp_path / "out").items() <= numbers(output).items()
    assert not leftovers(tmp_path / "out")
    run_experiment(config, tmp_path / "out")
    assert numbers(tmp_path / "out") == numbers(output)


def test_an_output_that_cannot_be_written(tmp_path, monkeypatch):
    config = write_config(tmp_path)
    with pytest.raises(StoreError, match=r"must be a folder, but a file is in the way"):
        run_experiment(config, config)
    with pytest.raises(StoreError, match=r"must be a folder, but a file is in the way"):
        run_experiment(config, config / "below")

    def read_only(*arguments, **more):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(Path, "mkdir", read_only)
    with pytest.raises(StoreError, match=r"cannot write .*: Read-only file system"):
        run_experiment(config, tmp_path / "out")


def test_files_that_a_dead_process_left_are_removed(undisturbed):
    config, output = undisturbed
    machine = "".join(letter if letter.isalnum() else "-" for letter in socket.gethostname())
    cells = output / "cells"
    dead = cells / f".0123456789abcdef.parquet.{machine}.999999999.00ff00ff.tmp"
    alive = cells / f".0123456789abcdef.parquet.{machine}.{os.getppid()}.00ff00ff.tmp"
    far, far_and_old = (cells / f".0123456789abcdef.parquet.far-{age}.1.00ff00ff.tmp" for age in ("new", "old"))
    for path in (dead, alive, far, far_and_old):
        path.write_bytes(b"PAR1")
    os.utime(far_and_old, (0, 0))
    assert run_experiment(config, output).missing.empty
    assert [path.exists() for path in (dead, alive, far, far_and_old)] == [False, True, True, False]
    alive.unlink()
    far.unlink()


def test_what_constructors_reject_is_said_before_anything_runs(tmp_path):
    text = CONFIG.replace('kind = "bernoulli"', 'kind = "bernoulli"\ngap = 2.0').replace("n_states = 3", "n_states = 0")
    with pytest.raises(ConfigError) as caught:
        run_experiment(write_config(tmp_path, text), tmp_path / "out")
    losses, mdp = sorted(caught.value.problems)
    assert losses.startswith("losses[0] (bernoulli): gap must")
    assert mdp.startswith("mdps[0] (random): n_states must")
    text = CONFIG.replace("[0.05, 0.2]", "[0.05, -0.2]")
    with pytest.raises(ConfigError, match=r"learners\[0\] \(dapo \(step_size=-0.2\)\): step_size must be"):
        run_experiment(write_config(tmp_path, text), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_one_action_and_delays_beyond_the_end_work(tmp_path):
    text = CONFIG.replace("n_actions = 2", "n_actions = 1").replace("[1, 4]", "[1e6]").replace("= 300", "= 1")
    results = run_experiment(write_config(tmp_path, text), tmp_path / "out")
    final = results.final()
    assert (final["regret"].abs() < 1e-12).all()
    assert (final["lost_feedback"] == 1).all()


def test_arguments_are_checked(tmp_path):
    config = write_config(tmp_path)
    with pytest.raises(ValueError, match=r"workers must be an integer of at least 1, got 0"):
        run_experiment(config, tmp_path / "out", workers=0)


class _Counting:
    """An executor that finishes cells late and counts those it holds."""

    capacity = 5

    def __init__(self) -> None:
        self.held: list[Future[Computed]] = []
        self.most = 0

    def submit(self, cell):
        future: Future[Computed] = Future()
        self.held.append(future)
        self.most = max(self.most, len(self.held))
        if len(self.held) == self.capacity or cell == 999:
            for one in self.held:
                one.set_result(cell)
            self.held.clear()
        return future


def test_few_cells_are_under_way_at_a_time():
    executor = _Counting()
    found = [cell for cell, _ in outcomes(executor, range(1000), lambda: None)]  # type: ignore[arg-type]
    assert sorted(found) == list(range(1000))
    assert executor.most == 5


def test_progress_is_shown_as_lines_where_there_is_no_terminal(capsys):
    status = SweepStatus(4, 1, 1, 10_000, 5_000, 4_000, 2.0)
    assert summary(status) == "1/4 cells · 1 failed · 5k of 10k run-episodes · 2k/s · 0:02 left"
    assert duration(3725) == "1:02:05"
    with show_progress() as tell:
        for n_done in (0, 1, 2, 4, 4):
            tell(SweepStatus(4, n_done, 0, 100, 25 * n_done, 25 * n_done, 1.0))
    lines = capsys.readouterr().err.splitlines()
    assert [line.split()[0] for line in lines] == ["0/4", "4/4"]


def test_progress_is_a_bar_in_a_terminal():
    import io

    from rich.console import Console

    screen = io.StringIO()
    with show_progress(Console(file=screen, force_terminal=True, width=100)) as tell:
        tell(SweepStatus(4, 1, 0, 100, 25, 25, 1.0))
        time.sleep(0.2)
    assert "1/4 cells" in screen.getvalue()


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::ResourceWarning")
def test_a_dask_cluster_gives_the_same_bytes(undisturbed, tmp_path):
    distributed = pytest.importorskip("distributed")
    config, output = undisturbed
    options = {"n_workers": 1, "threads_per_worker": 1, "processes": False, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster:
        run_experiment(config, tmp_path / "out", scheduler=cluster.scheduler_address)
    assert numbers(tmp_path / "out") == numbers(output)


def test_a_cluster_needs_dask_and_a_scheduler(tmp_path, monkeypatch):
    config = write_config(tmp_path)
    with monkeypatch.context() as patch:
        patch.setitem(sys.modules, "distributed", None)
        with pytest.raises(ImportError, match=r"pip install tabpo\[cluster\]"):
            run_experiment(config, tmp_path / "out", scheduler="tcp://127.0.0.1:1")
