"""Claims about DAPO's whole process, exactly: every trajectory of every episode of a tiny problem.

DAPO is played once for each joint trajectory of K episodes, as runs side by side, each weighted by its probability.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from tabpo import estimators, kernels, planning
from tabpo.learners.dapo import DAPO
from tabpo.learners.protocol import Arrivals, Feedback, Problem
from tabpo.mdp import TabularMDP
from tabpo.theory import bounds
from tabpo.theory.claims import Claim, Floats, Instance
from tabpo.theory.instances import all_trajectories, delays, distributions, log_uniform, losses, probabilities

PAPER = "Lancewicki, Rosenberg, Sotnikov, ICML 2023"
TREE = "expectations over at most 512 joint trajectories: sums of products of a dozen factors"


def draw(rng: np.random.Generator, largest_step: float = 3.0) -> Instance:
    """Return a problem with three episodes, delays that all end, and DAPO's parameters; H, S, A are 1 or 2.

    Parameters
    ----------
    rng : Generator
    largest_step : float
        Largest value of ``3 step_size H^2 max_k m^k``; the regret bound needs at most 1.
    """
    H, S, A, K = *(int(x) for x in rng.integers(1, 3, 3)), 3
    d = delays(rng, K)
    step_size = log_uniform(rng, 1e-3, 1.0) * largest_step / (3 * H**2 * bounds.max_arrivals(d))
    return {
        "transitions": distributions(rng, (H, S, A), S),
        "initial": np.eye(S)[0],
        "losses": losses(rng, (K, H, S, A)),
        "delays": d,
        "step_size": step_size,
        "exploration": float(rng.uniform(0.5, 4.0)) * step_size * H,
    }


class Process:
    """DAPO on an instance of :func:`draw`, in every way it can go; arrays have one run per joint trajectory, last.

    Attributes
    ----------
    weights : (R,)
        Probabilities.
    acting, arrival : lists of K arrays (H, S, A, R)
        pi^j and sigma^j.
    occupancy : list of K arrays (H, S, R)
    estimate, bonus : lists of K arrays
        Qhat^j (H, S, A, R) and b^j (H, S, R).
    best : (H, S, A)
        The best fixed policy, with its occupancy ``best_occupancy`` (H, S) and total loss ``best_loss``.
    """

    def __init__(self, instance: Instance) -> None:
        self.transitions, self.losses = instance["transitions"], instance["losses"]
        self.K, self.H, self.S, self.A = self.losses.shape
        self.gamma = float(instance["exploration"])
        initial = instance["initial"]
        states, actions = all_trajectories(self.H, self.S, self.A, starts=(0,))
        n_runs = states.shape[1] ** self.K
        joint = np.stack(np.unravel_index(np.arange(n_runs), (states.shape[1],) * self.K))  # (K, R)
        learner = DAPO(
            Problem(TabularMDP(self.transitions, initial), self.K, n_runs, 0, 0),
            step_size=instance["step_size"],
            exploration=self.gamma,
        )
        self.weights = np.ones(n_runs)
        self.acting: list[Floats] = []
        self.occupancy: list[Floats] = []
        self.arrival: list[Floats] = [np.empty(0)] * self.K
        self.estimate: list[Floats] = [np.empty(0)] * self.K
        self.bonus: list[Floats] = [np.empty(0)] * self.K
        pending: dict[int, list[Feedback]] = {}
        for k in range(self.K):
            policy = np.asarray(learner.act(k))
            s, a = (np.ascontiguousarray(array[:, joint[k]]) for array in (states, actions))
            self.weights = self.weights * probabilities(self.transitions, initial, policy, s, a)
            mu = np.asarray(kernels.state_occupancy(self.transitions, initial, policy))
            observed = self.losses[k][np.arange(self.H)[:, None], s, a]
            self.acting.append(policy)
            self.occupancy.append(mu)
            pending.setdefault(k + int(instance["delays"][k]), []).append(Feedback(k, s, a, observed, policy, mu))
            arrivals = tuple(pending.pop(k, ()))
            for j in arrivals:
                self._arrived(j, policy)
            learner.learn(k, Arrivals(arrivals))
        total = self.losses.sum(0)
        self.best, self.best_loss = planning.best_in_hindsight(self.transitions, initial, total)
        self.best_occupancy = np.asarray(planning.state_occupancy(self.transitions, initial, self.best))

    def _arrived(self, j: Feedback, sigma: Floats) -> None:
        self.arrival[j.episode] = sigma
        self.estimate[j.episode] = np.asarray(
            estimators.q_estimate(j.losses, j.policy, sigma, j.state_occupancy, j.states, j.actions, self.gamma)
        )
        below = j.state_occupancy[:, :, None] * j.policy + self.gamma
        self.bonus[j.episode] = 3 * self.gamma * self.H * (np.minimum(j.policy, sigma) / below).sum(2)

    def mean(self, values: Floats) -> Floats:
        """Return the expectation of values (..., R)."""
        return np.asarray(values @ self.weights)

    def under_best(self, values: Floats) -> float:
        """Return ``E sum_h E_{s ~ mu*}`` of values (H, S, R)."""
        return float(self.mean((self.best_occupancy[:, :, None] * values).sum((0, 1))))

    def q_values(self, j: int) -> Floats:
        """Return Q^j of the true losses (H, S, A, R)."""
        return np.asarray(planning.evaluate(self.transitions, self.losses[j], self.acting[j])[0])

    def bonus_q(self, j: int) -> Floats:
        """Return B^j (H, S, A, R)."""
        return np.asarray(kernels.q_values(self.transitions, self.bonus[j][:, :, None, :], self.acting[j])[0])

    def regret(self) -> float:
        """Return the exact expected regret."""
        expected = 0.0
        for losses_j, mu, policy in zip(self.losses, self.occupancy, self.acting, strict=True):
            expected += float(self.mean((mu[:, :, None] * policy * losses_j[..., None]).sum((0, 1, 2))))
        return expected - float(self.best_loss)

    def drift(self) -> Floats:
        """Return ``E sum_j TV(pi^j, sigma^j)(s)``, shape (H, S)."""
        moved = sum(np.abs(pi - sigma).sum(2) / 2 for pi, sigma in zip(self.acting, self.arrival, strict=True))
        return self.mean(np.asarray(moved))

    def roles(self) -> dict[str, float]:
        """Return the five parts of the regret decomposition, DRIFT, BIAS1, BIAS2, REG and BONUS, over all episodes."""
        parts = dict.fromkeys(("drift", "bias_1", "bias_2", "reg", "bonus"), 0.0)
        best = self.best[..., None]
        for j in range(self.K):
            pi, sigma, estimate = self.acting[j], self.arrival[j], self.estimate[j]
            q, b = self.q_values(j), self.bonus_q(j)
            for name, values in (
                ("drift", (pi - sigma) * (q - b)),
                ("bias_1", sigma * (q - estimate)),
                ("bias_2", best * (estimate - q)),
                ("reg", (sigma - best) * (estimate - b)),
                ("bonus", (pi - best) * b),
            ):
                parts[name] += self.under_best(values.sum(2))
        return parts


def _overlaps(i: Instance) -> int:
    arrival = np.arange(len(i["delays"])) + i["delays"]
    return sum(bool(j <= t < arrival[j]) for j in range(len(arrival)) for t in arrival)


def _l5_left(i: Instance) -> Floats:
    """Return ``E sum_j <sigma^j - pi*, Qhat^j - B^j>(s)`` at every (h, s)."""
    process = Process(i)
    total = np.zeros((process.H, process.S))
    for j in range(process.K):
        difference = process.estimate[j] - process.bonus_q(j)
        total += process.mean(((process.arrival[j] - process.best[..., None]) * difference).sum(2))
    return total


def _l5_right(i: Instance) -> Floats:
    process = Process(i)
    H, D = process.H, int(i["delays"].sum())
    bonuses = process.mean(np.asarray(sum(process.bonus)))
    second = H * bonuses / (3 * process.gamma) + 2 * H**2 * D + 9 * H**4 * (process.K + 2 * D)
    return np.asarray(np.log(process.A) / i["step_size"] + i["step_size"] * second)


def _l6_left(i: Instance) -> Floats:
    """Return ``E TV(pi^k, pi^{k+1})(s)``, shape (K - 1, H, S)."""
    process = Process(i)
    steps = zip(process.acting[:-1], process.acting[1:], strict=True)
    return np.stack([process.mean(np.abs(after - before).sum(2) / 2) for before, after in steps])


def _l6_right(i: Instance) -> Floats:
    K, H, S, _ = i["losses"].shape
    arrivals = np.bincount(np.arange(K) + i["delays"], minlength=K)[:-1]
    bound = i["step_size"] * (H + 3 * H**2) * arrivals
    return np.repeat(bound, H * S).reshape(K - 1, H, S).astype(np.float64)


def _l7_left(i: Instance) -> Floats:
    return Process(i).drift()


def _l7_right(i: Instance) -> Floats:
    _, H, S, _ = i["losses"].shape
    return np.full((H, S), i["step_size"] * (H + 3 * H**2) * _overlaps(i))


def _regret(i: Instance) -> float:
    return Process(i).regret()


def _sum_of_roles(i: Instance) -> float:
    return sum(Process(i).roles().values())


def _regret_bound(i: Instance) -> float:
    K, H, S, A = i["losses"].shape
    most, D = bounds.max_arrivals(i["delays"]), int(i["delays"].sum())
    return bounds.dapo_regret(H, S, A, K, D, i["step_size"], i["exploration"], most)


_claim = partial(Claim, paper=PAPER, tolerance=1e-10, reason=TREE)
_small_steps = partial(draw, largest_step=1.0)

CLAIMS = (
    _claim(
        name="dapo_decomposition",
        where="section 2.3",
        statement="DRIFT + BIAS1 + BIAS2 + REG + BONUS is the expected regret.",
        draw=draw,
        left=_sum_of_roles,
        right=_regret,
        kind="==",
    ),
    _claim(
        name="dapo_bias_2",
        where="section 2.3",
        statement="E BIAS2 <= 0.",
        draw=draw,
        left=lambda i: Process(i).roles()["bias_2"],
        right=lambda i: 0.0,
        kind="<=",
    ),
    _claim(
        name="delayed_mirror_descent",
        where="section 6, L5",
        statement=(
            "If 3 eta H^2 max m <= 1: E sum_j <sigma^j - pi*, Qhat^j - B^j> <= ln A / eta + "
            "eta (H / (3 gamma) sum_j E b^j + 2 H^2 D + 9 H^4 (K + 2 D))."
        ),
        draw=_small_steps,
        left=_l5_left,
        right=_l5_right,
        kind="<=",
    ),
    _claim(
        name="dapo_step_stability",
        where="section 6, L6",
        statement="E TV(pi^k, pi^{k+1})(s) <= eta m^k (H + 3 H^2).",
        draw=draw,
        left=_l6_left,
        right=_l6_right,
        kind="<=",
    ),
    _claim(
        name="drift",
        where="section 6, L7",
        statement="E sum_j TV(pi^j, sigma^j)(s) <= eta (H + 3 H^2) sum_j M_j.",
        draw=draw,
        left=_l7_left,
        right=_l7_right,
        kind="<=",
    ),
    _claim(
        name="dapo_regret",
        where="section 2.3, (star)",
        statement="The expected regret is at most the bound with explicit constants, tabpo.theory.bounds.dapo_regret.",
        draw=_small_steps,
        left=_regret,
        right=_regret_bound,
        kind="<=",
    ),
)
