"""A config's mistakes are sentences that name the file, the key path, the value and the nearest known name."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from tabpo.errors import InvalidInputError
from tabpo.sweep import components, load_config, plan
from tabpo.sweep.config import ConfigError


def chain(length: int, horizon: int = 3, slip: float = 0.1, direction: Literal["left", "right"] = "right") -> None:
    """Stand in for an MDP."""


def from_file(path: str) -> None:
    """Stand in for an MDP that is read from a file."""


@dataclass(frozen=True)
class Bernoulli:
    gap: float = 0.2
    levels: tuple[float, ...] = (0.5,)


@dataclass(frozen=True)
class Geometric:
    mean: float


@dataclass(frozen=True)
class Settings:
    step_size: float | None = None
    tuning: Literal["theory", "practical"] = "theory"
    bonus: bool = True


class Fake:
    Parameters = Settings

    def __init__(self, problem: Any, **parameters: Any) -> None:
        self.parameters = Settings(**parameters)


REGISTRIES: dict[str, dict[str, Any]] = {
    "mdps": {"chain": chain, "from_file": from_file},
    "losses": {"bernoulli": Bernoulli},
    "delays": {"geometric": Geometric},
    "learners": {"dapo": Fake},
}


@pytest.fixture(autouse=True)
def small_registries(monkeypatch):
    monkeypatch.setattr(components, "registry", REGISTRIES.__getitem__)


GOOD = """
n_episodes = 10
n_runs = 4
[[mdps]]
kind = "chain"
length = 5
[[losses]]
kind = "bernoulli"
[[delays]]
kind = "geometric"
mean = 3
[[learners]]
kind = "dapo"
"""


def planned(tmp_path, text):
    file = tmp_path / "sweep.toml"
    file.write_text(text, encoding="utf-8")
    return plan(load_config(file))


def test_the_good_config_has_one_cell(tmp_path):
    (cell,) = planned(tmp_path, GOOD)
    assert cell.mdp.parameters == {"length": 5}
    assert cell.mdp.settings == {
        "kind": "chain", "length": 5, "horizon": 3, "slip": 0.1, "direction": "right"
    }  # fmt: skip
    assert cell.learner.settings["step_size"] is None


EDITS = [
    # what is changed, into what, and what the sentence says
    ("n_episodes = 10", "n_episode = 10", "n_episode = 10: unknown key; did you mean 'n_episodes'?"),
    ("n_episodes = 10", "", "n_episodes is missing"),
    ("n_episodes = 10", "n_episodes = 0", "n_episodes = 0: must be at least 1"),
    ("n_episodes = 10", "n_episodes = []", "n_episodes = []: must be an integer or a list with at least one value"),
    ("n_episodes = 10", "n_episodes = [10, 0]", "n_episodes[1] = 0: must be at least 1"),
    ("n_episodes = 10", "n_episodes = [10, 20, 10]", "n_episodes = [10, 20, 10]: 10 occurs twice"),
    ("n_episodes = 10", "n_episodes = 1e5", "n_episodes = 100000.0: must be an integer"),
    ("n_episodes = 10", "n_episodes = '10'", "n_episodes = '10': must be an integer"),
    ("n_runs = 4", "n_runs = true", "n_runs = true: must be an integer"),
    ("n_runs = 4", "n_runs = 4\nruns_per_cell = 0", "runs_per_cell = 0: must be at least 1"),
    ("n_runs = 4", "n_runs = 4\nseed = -1", "seed = -1: must be at least 0"),
    ("n_runs = 4", "n_runs = 4\nseed = 2.5", "seed = 2.5: must be an integer"),
    ("n_runs = 4", "n_runs = 4\nname = 3", "name = 3: must be a string"),
    ("n_runs = 4", "n_runs = 4\ncheckpoints = [1, 11]", "checkpoints = [1, 11]: 11 lies beyond n_episodes = 10"),
    ("n_runs = 4", "n_runs = 4\ncheckpoints = [0, 5]", "checkpoints[0] = 0: must be at least 1"),
    ("n_runs = 4", "n_runs = 4\ntrajectories = 'late'", "trajectories = 'late': must be 'immediate' or 'delayed'"),
    ("n_runs = 4", "n_runs = 4\nn_runs = 5", "this is not valid TOML: "),
    ("n_runs = 4", "n_runs = ", "this is not valid TOML: "),
    ("n_runs = 4", "n_runs = 4\nfigure = 'regret'", "figure = 'regret': must be a table"),
    ("[[mdps]]", "[mdps]", "mdps: write the table's header with double brackets, [[mdps]]"),
    ("[[mdps]]", "[[mpds]]", "mpds = [{'kind': 'chain', 'length': 5}]: unknown key; did you mean 'mdps'?"),
    ('kind = "dapo"', 'kidn = "dapo"', "learners[0].kind is missing; did you mean 'kidn'?"),
    ('kind = "dapo"', "kind = 3", "learners[0].kind = 3: must be a string"),
    ('kind = "dapo"', 'kind = "daop"', "learners[0].kind = 'daop': unknown learner 'daop'; did you mean 'dapo'?"),
    ('kind = "chain"', 'kind = "chian"', "mdps[0].kind = 'chian': unknown MDP 'chian'; did you mean 'chain'?"),
    ('kind = "dapo"', 'kind = "dapo"\nstep_sise = 0.1',
     "learners[0].step_sise = 0.1: unknown parameter of learner 'dapo'; did you mean 'step_size'?"),
    ('kind = "dapo"', 'kind = "dapo"\nlable = "x"',
     "learners[0].lable = 'x': unknown parameter of learner 'dapo' (known: skipping, doubling, step_size, tuning, "
     "bonus); did you mean 'label'?"),
    ('kind = "dapo"', 'kind = "dapo"\nstep_size = "0.1"', "learners[0].step_size = '0.1': must be a number"),
    ('kind = "dapo"', 'kind = "dapo"\nstep_size = true', "learners[0].step_size = true: must be a number"),
    ('kind = "dapo"', 'kind = "dapo"\nstep_size = [0.1, 0.2]',
     "learners[0].step_size = [0.1, 0.2]: must be a number; the values of an axis belong in the entry's `grid` table"),
    ('kind = "dapo"', 'kind = "dapo"\ngrid = { step_size = [0.1, "x"] }',
     "learners[0].grid.step_size = 'x': must be a number"),
    ('kind = "dapo"', 'kind = "dapo"\ngrid = { step_sizes = [0.1] }',
     "learners[0].grid.step_sizes = 0.1: unknown parameter of learner 'dapo'; did you mean 'step_size'?"),
    ('kind = "dapo"', 'kind = "dapo"\ngrid = { step_size = [] }',
     "learners[0].grid.step_size is empty; it needs at least one value"),
    ('kind = "dapo"', 'kind = "dapo"\ngrid = { step_size = 0.1 }', "learners[0].grid.step_size = 0.1: must be a list"),
    ('kind = "dapo"', 'kind = "dapo"\ngrid = { step_size = [0.1, 0.1] }',
     "learners[0].grid has the point 'dapo (step_size=0.1)' twice"),
    ('kind = "dapo"', 'kind = "dapo"\ntuning = "practica"',
     "learners[0].tuning = 'practica': must be 'theory' or 'practical'"),
    ('kind = "dapo"', 'kind = "dapo"\nbonus = 1', "learners[0].bonus = 1: must be true or false"),
    ('kind = "dapo"', 'kind = "dapo"\nbonus = 2023-01-01',
     "learners[0].bonus = datetime.date(2023, 1, 1): must be a number, a string, true or false, a list or a table"),
    ('kind = "dapo"', 'kind = "dapo"\ndoubling = 2', "learners[0].doubling = 2: must be true or false"),
    ('kind = "dapo"', 'kind = "dapo"\nskipping = "yes"',
     "learners[0].skipping = 'yes': must be true or false or an integer"),
    ('kind = "dapo"', 'kind = "dapo"\n[[learners]]\nkind = "dapo"',
     "learners[1] and learners[0] are both called 'dapo'; give one another `label`"),
    ('kind = "dapo"', 'kind = "dapo"\nlabel = ""', "learners[0].label = '': must be a string that is not empty"),
    ("length = 5", "", "mdps[0]: MDP 'chain' needs the parameter 'length'"),
    ("length = 5", "length = 5.0", "mdps[0].length = 5.0: must be an integer"),
    ("length = 5", "length = 5\nlength_ = 1", "mdps[0].length_ = 1: unknown parameter of MDP 'chain'"),
    ("mean = 3", "", "delays[0]: delay law 'geometric' needs the parameter 'mean'"),
    ('kind = "bernoulli"', 'kind = "bernoulli"\nlevels = [0.1, "a"]',
     "losses[0].levels = [0.1, 'a']: must be a number"),
    ('kind = "chain"\nlength = 5', 'kind = "from_file"\npath = "nowhere.npz"',
     "mdps[0].path: cannot read the file"),
    ('kind = "dapo"', 'kind = "mine.py:Mine"', "learners[0].kind = 'mine.py:Mine': there is no Python file"),
    ('kind = "dapo"', 'kind = "no_such_package.there:Mine"',
     "learners[0].kind = 'no_such_package.there:Mine': importing 'no_such_package.there' failed"),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "sentence"), EDITS, ids=[f"{new[-40:]!r}" for _, new, _ in EDITS])
def test_a_mistake_has_its_sentence(tmp_path, old, new, sentence):
    assert GOOD.count(old) == 1
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, GOOD.replace(old, new))
    assert any(line.startswith(f"sweep.toml: {sentence}") for line in str(caught.value).splitlines()), caught.value


def test_all_mistakes_are_told_at_once(tmp_path):
    text = GOOD.replace("mean = 3", "maen = 3").replace('"dapo"', '"dpao"').replace("length = 5", "length = true")
    with pytest.raises(ConfigError) as caught:
        planned(tmp_path, text)
    assert len(caught.value.problems) == 4  # the delay law's `maen` is unknown, and its `mean` is missing


def test_files_that_are_not_there_or_not_text(tmp_path):
    (tmp_path / "quickstart.toml").write_text(GOOD)
    with pytest.raises(ConfigError, match=r"there is no such file; did you mean 'quickstart\.toml'\?"):
        load_config(tmp_path / "quikstart.toml")
    with pytest.raises(ConfigError, match=r"cannot be read"):
        load_config(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b"name = '\xe9'")
    with pytest.raises(ConfigError, match=r"must be UTF-8"):
        load_config(tmp_path / "latin.toml")


def test_user_code(tmp_path):
    (tmp_path / "broken.py").write_text("1/0\n")
    (tmp_path / "mine.py").write_text(
        "class Mine:\n    def __init__(self, problem, speed: float, colour='red'): pass\n"
    )
    with pytest.raises(ConfigError, match=r"broken.py' failed: ZeroDivisionError"):
        planned(tmp_path, GOOD.replace('"dapo"', '"broken.py:Mine"'))
    with pytest.raises(ConfigError, match=r"defines no 'Mien'; did you mean 'Mine'?"):
        planned(tmp_path, GOOD.replace('"dapo"', '"mine.py:Mien"'))
    with pytest.raises(ConfigError, match=r"needs the parameter 'speed'"):
        planned(tmp_path, GOOD.replace('"dapo"', '"mine.py:Mine"'))
    with pytest.raises(ConfigError, match=r"speed = 'x': must be a number"):
        planned(tmp_path, GOOD.replace('"dapo"', '"mine.py:Mine"\nspeed = "x"'))
    (cell,) = planned(tmp_path, GOOD.replace('"dapo"', '"mine.py:Mine"\nspeed = 2'))
    assert cell.learner.settings["speed"] == 2
    assert cell.learner.settings["colour"] == "red"


def test_a_dict_is_a_config_too():
    with pytest.raises(InvalidInputError, match=r"^config: n_runs = 0: must be at least 1"):
        load_config({"n_episodes": 1, "n_runs": 0, **{section: [{"kind": "x"}] for section in components.SECTIONS}})
