"""The command line: what it prints and writes, and one sentence with exit code 2 for a mistake."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tabpo import __version__
from tabpo.cli import main

CONFIG = """
name = "tiny"
seed = 7
n_episodes = 30
n_runs = 4
runs_per_cell = 2
checkpoints = 6
[[mdps]]
kind = "river_swim"
n_states = 3
horizon = 3
[[losses]]
kind = "bernoulli"
[[delays]]
kind = "fixed"
grid = { delay = [1, 5] }
[[learners]]
kind = "dapo"
label = "Ours"
[[learners]]
kind = "uniform"
[figure]
kind = "regret"
scale = "log"
"""


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sweep")
    (folder / "tiny.toml").write_text(CONFIG)
    assert main(["run", str(folder / "tiny.toml"), "--output", str(folder / "out"), "--workers", "1"]) == 0
    return folder / "out"


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Run in an empty folder, which stays empty: nothing is written but where the user said."""
    empty = tmp_path / "cwd"
    empty.mkdir()
    monkeypatch.chdir(empty)
    yield
    assert not list(empty.iterdir())


def test_version(capsys):
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"tabpo {__version__}\n"


def test_run_prints_the_table_and_where_things_are(stored, capsys):
    config = stored.parent / "tiny.toml"
    assert main(["run", str(config), "-o", str(stored), "-w", "1"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.replace(str(stored), "OUT").splitlines())) <= 80
    assert re.search(r"fixed \(delay=5\) +Ours +\d", out)
    assert "4 runs" in out
    assert f"results  {stored}" in out
    for suffix in ("pdf", "png"):
        assert f"figure   {stored / 'regret'}.{suffix}" in out
        assert (stored / f"regret.{suffix}").stat().st_size > 1000


def test_no_figure_means_no_figure(tmp_path, capsys):
    (tmp_path / "tiny.toml").write_text(CONFIG)
    arguments = ["run", str(tmp_path / "tiny.toml"), "-o", str(tmp_path / "out"), "-w", "1", "--no-figure"]
    assert main(arguments) == 0
    assert not list((tmp_path / "out").glob("*.p[dn][fg]"))
    assert "figure   " not in capsys.readouterr().out


@pytest.mark.parametrize("kind", ["regret", "per-episode", "delay"])
def test_plot_writes_the_file(stored, tmp_path, capsys, kind):
    target = tmp_path / "one.png"
    assert main(["plot", str(stored), "--kind", kind, "--output", str(target), "--width", "one-column"]) == 0
    assert target.read_bytes()[1:4] == b"PNG"
    out = capsys.readouterr().out
    assert f"figure   {target}" in out
    assert ("Slope" in out) == (kind == "delay")


def test_plot_takes_the_configured_figure_and_filters(stored, tmp_path, capsys):
    chosen = ["--only", "learner=Ours", "--only", "delays.delay=5", "--band", "simultaneous", "--level", "0.9"]
    assert main(["plot", str(stored), "-o", str(tmp_path / "two"), *chosen]) == 0
    assert sorted(path.name for path in tmp_path.glob("two.*")) == ["two.pdf", "two.png"]
    assert "90% simultaneous" in capsys.readouterr().out


@pytest.mark.parametrize(("form", "mark"), [("text", "-----"), ("csv", "total_delay"), ("latex", r"\toprule")])
def test_table_formats(stored, capsys, form, mark):
    assert main(["table", str(stored), "--format", form]) == 0
    assert mark in capsys.readouterr().out


def test_table_goes_to_the_file(stored, tmp_path, capsys):
    assert main(["table", str(stored), "--output", str(tmp_path / "t.md"), "--format", "markdown"]) == 0
    assert (tmp_path / "t.md").read_text().count("\n| ") == 5
    assert capsys.readouterr().out == f"table    {tmp_path / 't.md'}\n"


def test_list_names_everything_with_parameters_in_80_columns(capsys):
    from tabpo.environments import DELAYS, LOSSES, MDPS
    from tabpo.learners import LEARNERS

    assert main(["list"]) == 0
    out = capsys.readouterr().out
    assert max(map(len, out.splitlines())) <= 80
    for name in (*MDPS, *LOSSES, *DELAYS, *LEARNERS):
        assert f"\n  {name}\n" in out
    assert "gap = 0.2" in out
    assert main(["list", "learners"]) == 0
    only = capsys.readouterr().out
    assert "dapo" in only
    assert "geometric" not in only


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["two_state", "horizon=3"], "H = 3 steps, S = 2 states, A = 2 actions"),
        (["geometric", "mean=5"], "mean "),
        (["losses.environment"], "on grid_world"),
        (["dapo"], "tuning = theory"),
    ],
)
def test_show_describes_and_writes_nothing(capsys, arguments, said):
    assert main(["show", *arguments]) == 0
    assert said in capsys.readouterr().out


@pytest.mark.parametrize("arguments", [["two_state"], ["fixed", "delay=2"], ["bernoulli", "gap=0.3"]])
def test_show_draws_where_it_is_told(tmp_path, capsys, arguments):
    assert main(["show", *arguments, "--output", str(tmp_path / "drawing.png"), "--episodes", "50"]) == 0
    assert (tmp_path / "drawing.png").read_bytes()[1:4] == b"PNG"
    assert "drawing.png" in capsys.readouterr().out


def test_doctor_tells_versions_parts_and_gpu(capsys, monkeypatch):
    import importlib.metadata

    assert main(["doctor"]) == 0
    out = capsys.readouterr().out
    assert f"numpy             {importlib.metadata.version('numpy')}" in out
    assert "CPU cores" in out
    assert "CuPy" in out
    from tabpo import doctor

    monkeypatch.setattr(doctor, "installed_version", lambda package: None)
    assert main(["doctor"]) == 1
    out = capsys.readouterr().out
    assert "MISSING: pip install numpy" in out
    assert 'pip install "tabpo[gymnasium]"' in out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["run", "nowhere.toml", "-o", "out"], "no such file"),
        (["plot", "nowhere", "-o", "x.png"], "there is no folder 'nowhere'"),
        (["table", "nowhere"], "there is no folder"),
        (["table", "STORED", "--only", "learner=ours"], "did you mean 'Ours'"),
        (["table", "STORED", "--only", "learner"], "NAME=VALUE"),
        (["table", "STORED", "--level", "95"], "--level must lie between 0 and 1"),
        (["table", "STORED", "--method", "z"], "unknown interval method 'z'"),
        (["plot", "STORED", "-o", "x.png", "--scale", "lgo"], "did you mean 'log'"),
        (["plot", "STORED", "-o", "no/x.png"], "does not exist"),
        (["show", "gridworld"], "did you mean 'grid_world'"),
        (["show", "file"], "losses.file or delays.file"),
        (["show", "grid_world", "slip=2"], "slip"),
        (["show", "grid_world", "slipp=2"], "did you mean 'slip'"),
        (["show", "dapo", "--output", "x.png"], "no drawing"),
    ],
)
def test_a_mistake_is_one_sentence_and_exit_code_2(stored, capsys, arguments, sentence):
    assert main([str(stored) if one == "STORED" else one for one in arguments]) == 2
    captured = capsys.readouterr()
    assert sentence in captured.err
    assert captured.err.startswith("tabpo: ")
    assert "Traceback" not in captured.err


def test_a_mistake_in_the_figure_shows_before_the_sweep_runs(tmp_path, capsys):
    config = tmp_path / "bad.toml"
    config.write_text(CONFIG.replace('scale = "log"', "scael = 1"))
    assert main(["run", str(config), "-o", str(tmp_path / "out")]) == 2
    assert "did you mean 'scale'" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_debug_shows_the_traceback(capsys):
    assert main(["table", "nowhere", "--debug"]) == 2
    assert "Traceback" in capsys.readouterr().err


def test_wrong_usage_is_exit_code_2(capsys):
    assert main(["plot"]) == 2
    assert main(["rnu"]) == 2
    assert "rnu" in capsys.readouterr().err


def test_the_installed_command_starts_without_heavy_parts():
    code = "import sys, tabpo.cli; sys.exit(any(m in sys.modules for m in ('numba', 'pandas', 'matplotlib')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_check_lists_and_evaluates_claims(capsys):
    assert main(["check"]) == 0
    assert "dapo_p2\n    sigma r = min(sigma, pi)" in capsys.readouterr().out
    assert main(["check", "dapo_p2", "-n", "20", "--seed", "3"]) == 0
    assert "no violation in 20 instances of seed 3" in capsys.readouterr().out
    assert main(["check", "dapo_p22"]) == 2
    assert "unknown claim 'dapo_p22'; did you mean 'dapo_p2'" in capsys.readouterr().err
