"""Cells: what their hashes depend on, the labels of grid points, the blocks of runs."""

from __future__ import annotations

import math
import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tabpo import kernels
from tabpo.sweep import load_config, plan
from tabpo.sweep.cells import run_blocks
from tabpo.sweep.grid import plain
from tabpo.sweep.toml import dumps
from tests.sweep_pieces import CONFIG, LEARNERS, write_config


def hashes(tmp_path, text=CONFIG, name="sweep.toml"):
    return [cell.hash for cell in plan(load_config(write_config(tmp_path, text, name)))]


def test_the_product_of_the_axes(tmp_path):
    cells = plan(load_config(write_config(tmp_path, CONFIG.replace("300", "[300, 400]"))))
    assert len(cells) == 2 * 2 * 2 * 3
    assert len({cell.hash for cell in cells}) == len(cells)
    assert {cell.delays.label for cell in cells} == {"geometric (mean=1)", "geometric (mean=4)"}
    assert {cell.learner.label for cell in cells} == {"dapo (step_size=0.05)", "dapo (step_size=0.2)"}
    assert [list(cell.runs) for cell in cells[:3]] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ('name = "small"', 'name = "other"'),
        ('kind = "dapo"', 'kind = "dapo"\nlabel = "ours"'),
        ("[0.05, 0.2]", "[0.05, 2e-1]"),
        ("[1, 4]", "[1.0, 4.0]"),
        ('kind = "dapo"', 'kind = "dapo"\nskipping = false'),
        ('kind = "bernoulli"', 'kind = "bernoulli"\n[figure]\nkind = "regret"'),
    ],
)
def test_names_and_spelling_enter_no_hash(tmp_path, old, new):
    text = CONFIG.replace(old, new)
    if "[figure]" in new:
        text = CONFIG + new.removeprefix(old)
    assert hashes(tmp_path, text) == hashes(tmp_path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("seed = 7", "seed = 8"),
        ("n_episodes = 300", "n_episodes = 301"),
        ("checkpoints = 8", "checkpoints = 9"),
        ("checkpoints = 8", 'checkpoints = 8\ntrajectories = "delayed"'),
        ("horizon = 2", "horizon = 3"),
        ("horizon = 2", "horizon = 2\nseed = 1"),
        ('kind = "dapo"', 'kind = "dapo"\nskipping = true'),
        ('kind = "dapo"', 'kind = "dapo"\nskipping = 1'),
    ],
)
def test_whatever_changes_numbers_changes_every_hash(tmp_path, old, new):
    assert not set(hashes(tmp_path, CONFIG.replace(old, new))) & set(hashes(tmp_path))


def test_the_kernels_that_round_otherwise_are_other_cells(tmp_path):
    before = hashes(tmp_path)
    with kernels.using("numpy"):
        assert not set(hashes(tmp_path)) & set(before)


def test_a_users_code_counts_by_its_contents_wherever_it_lies(tmp_path):
    text = CONFIG.replace('"dapo"\ngrid = { step_size = [0.05, 0.2] }', '"mine.py:Uniform"')
    before = hashes(tmp_path, text)
    (tmp_path / "elsewhere").mkdir()
    assert hashes(tmp_path / "elsewhere", text) == before
    (tmp_path / "mine.py").write_text(LEARNERS + "\nimport helper\n")
    (tmp_path / "helper.py").write_text("SPEED = 1\n")
    with_helper = [cell.hash for cell in plan(load_config(tmp_path / "sweep.toml"))]
    (tmp_path / "helper.py").write_text("SPEED = 2\n")
    with_another = [cell.hash for cell in plan(load_config(tmp_path / "sweep.toml"))]
    assert not set(before) & set(with_helper)
    assert not set(with_helper) & set(with_another)


def test_a_data_file_counts_by_its_contents(tmp_path):
    (tmp_path / "mine.py").write_text("class Tables:\n    def __init__(self, problem, path: str): pass\n")
    text = CONFIG.replace('"dapo"\ngrid = { step_size = [0.05, 0.2] }', '"mine.py:Tables"\npath = "table.csv"')
    (tmp_path / "sweep.toml").write_text(text)
    found = []
    for contents in ("1,2", "1,3", "1,2"):
        (tmp_path / "table.csv").write_text(contents)
        found.append([cell.hash for cell in plan(load_config(tmp_path / "sweep.toml"))])
    assert found[0] == found[2]
    assert not set(found[0]) & set(found[1])
    cell = plan(load_config(tmp_path / "sweep.toml"))[0]
    assert cell.learner.parameters["path"] == str(tmp_path / "table.csv")


def test_labels_tell_what_differs(tmp_path):
    two = CONFIG + '[[learners]]\nkind = "dapo"\nbonus = false\n[[learners]]\nkind = "dapo"\nlabel = "plain"\n'
    labels = dict.fromkeys(cell.learner.label for cell in plan(load_config(write_config(tmp_path, two))))
    assert list(labels) == ["dapo (step_size=0.05)", "dapo (step_size=0.2)", "dapo (bonus=false)", "plain"]


@given(st.integers(1, 300), st.integers(1, 80))
def test_run_blocks_cover_the_runs_once(n_runs, runs_per_cell):
    blocks = run_blocks(n_runs, runs_per_cell)
    assert [run for first, count in blocks for run in range(first, first + count)] == list(range(n_runs))
    assert all(count == runs_per_cell for _, count in blocks[:-1])
    # with more runs the full blocks stay as they are: their cells are found again
    assert run_blocks(n_runs + 50, runs_per_cell)[: len(blocks) - 1] == blocks[:-1]


scalars = st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | st.text(max_size=8)
tables = st.dictionaries(st.text(max_size=5), scalars | st.lists(scalars, max_size=3), max_size=4)


@given(st.dictionaries(st.text(max_size=5), scalars | tables | st.lists(tables, min_size=1, max_size=3), max_size=5))
def test_toml_written_is_toml_read(config):
    assert tomllib.loads(dumps(config)) == config


def test_a_config_from_a_dict_is_stored_as_toml(tmp_path):
    experiment = load_config(tomllib.loads(CONFIG))
    assert load_config(tomllib.loads(experiment.text)) == experiment


def test_plain_values_are_the_same_for_equal_ones():
    assert plain({"a": (1.0, 2.5)}) == {"a": [1, 2.5]}
    assert plain(math.inf) == math.inf
    assert plain(print) == "builtins.print"


def test_another_gymnasium_makes_other_cells(tmp_path, monkeypatch):
    lake = 'kind = "gymnasium"\nid = "FrozenLake-v1"\nhorizon = 5'
    text = CONFIG.replace('kind = "random"\nn_states = 3\nn_actions = 2\nhorizon = 2', lake)
    before = hashes(tmp_path, text)
    monkeypatch.setattr("tabpo.sweep.grid.installed_version", lambda package: "99.0")
    assert not set(hashes(tmp_path, text)) & set(before)
