"""A user's own learner: the example of the project, looked up by name, file or module."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from tabpo import Environment, InvalidInputError, TabularMDP, simulate
from tabpo.learners import DAPO, find, resolve

EXAMPLES = Path(__file__).parents[1] / "experiments"


def environment():
    transitions = np.full((3, 2, 2, 2), 0.5)
    return Environment(TabularMDP(transitions, np.full(2, 0.5), np.array([[[0.1, 0.9], [0.9, 0.1]]] * 3)), delays=4)


def test_the_example_learns():
    """Fixed losses: after its first visits it plays the best policy but for a tenth of uniform play.

    Uniform play costs 1.2 more than the best policy in each of 200 episodes; the example a tenth of that.
    """
    learner = resolve("my_learner.py:FollowTheLeader", base_folder=EXAMPLES)
    result = simulate(environment(), learner, 200, 5, checkpoints=[100, 200])
    uniform = simulate(environment(), "uniform", 200).regret[-1, 0]
    assert uniform == pytest.approx(240)
    second_half = result.regret[1] - result.regret[0]
    np.testing.assert_allclose(second_half, uniform / 20, rtol=1e-9)


def test_its_parameters_and_the_wrappers_reach_it():
    make = resolve("my_learner.py:FollowTheLeader", {"mixing": 1.0, "skipping": 3}, EXAMPLES)
    result = simulate(environment(), make, 50, 2, checkpoints=[50])
    np.testing.assert_allclose(result.regret, simulate(environment(), "uniform", 50, 2, checkpoints=[50]).regret)
    assert result.settings["skipped"] == 46  # all that arrive take 4 episodes


def test_an_absolute_file_a_module_and_a_class_are_found(tmp_path):
    (tmp_path / "own.py").write_text("class Own:\n    def act(self, k): ...\n    def learn(self, k, arrivals): ...\n")
    assert find(f"{tmp_path / 'own.py'}:Own").__name__ == "Own"
    assert find("own.py:Own", tmp_path).__name__ == "Own"
    assert find("tabpo.learners:DAPO") is DAPO
    assert find("dapo") is DAPO
    assert isinstance(resolve(DAPO, {"step_size": 0.1})(problem()), DAPO)


def problem():
    from tabpo.learners import Problem

    return Problem(environment().mdp, 10, 1, 0, 0)


@pytest.mark.parametrize(
    ("source", "name", "sentence"),
    [
        ("class Own:\n    def act(self, k): ...\n", "Own", "is not a learner: it has no method 'learn'"),
        ("Own = 3\n", "Own", "is a int, not a class or function"),
        ("class Own: ...\n", "Other", "Other"),
    ],
)
def test_what_is_no_learner_gets_a_sentence(source, name, sentence, tmp_path):
    (tmp_path / "own.py").write_text(source)
    with pytest.raises(InvalidInputError, match=sentence):
        find(f"own.py:{name}", tmp_path)


def test_unknown_names_get_a_sentence(tmp_path):
    with pytest.raises(InvalidInputError, match="d_oppo"):
        find("d_opo")
    with pytest.raises(InvalidInputError, match=r"missing\.py"):
        find("missing.py:Own", tmp_path)
