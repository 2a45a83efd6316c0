"""O-REPS with the delay-adapted estimator and known transitions (Jin et al., NeurIPS 2022; small sizes)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from tabpo import planning
from tabpo.errors import InvalidInputError, TabpoError
from tabpo.learners.protocol import Arrivals, Problem, per_run

Floats = NDArray[np.float64]
Derivatives = Callable[[Floats, float], tuple[Floats, Floats]]


@dataclass(frozen=True)
class OREPSParameters:
    """Parameters of :class:`OREPS`.

    Attributes
    ----------
    step_size : float or (R,), positive
        eta; ``sqrt(ln(S A) / (S A K + sqrt(H S A) D))`` if None, which balances the terms of the rate
        ``H sqrt(S A K) + (H S A)^(1/4) H sqrt(D)`` (section 8b of the specification; derived).
    exploration : float or (R,), at least 0
        gamma; the step size if None.
    adapt : bool
        False divides by the acting occupancy only.
    """

    step_size: float | list[float] | None = None
    exploration: float | list[float] | None = None
    adapt: bool = True

    def resolve(self, problem: Problem) -> tuple[Floats, Floats]:
        """Return (step_size, exploration), arrays (R,), for the problem's sizes."""
        H, S, A = problem.mdp.shape
        K, D = problem.n_episodes, problem.total_delay
        default = np.sqrt(np.log(max(S * A, 2)) / (S * A * K + np.sqrt(H * S * A) * D))
        step_size = per_run("step_size", default if self.step_size is None else self.step_size, problem, positive=True)
        exploration = step_size if self.exploration is None else self.exploration
        return step_size, per_run("exploration", exploration, problem)


class OREPS:
    """Mirror descent over occupancy measures with relative entropy; each step is a convex programme solved by its dual.

    One dual problem in (H, S) unknowns for each run and batch of arrivals: for small sizes.
    """

    Parameters = OREPSParameters
    returns_new_policies = True

    def __init__(self, problem: Problem, **parameters: Any) -> None:
        if problem.xp is not np:
            raise InvalidInputError("o_reps solves its dual with SciPy: simulate it with NumPy arrays")
        self.parameters = OREPSParameters(**parameters)
        self.step_size, self.exploration = self.parameters.resolve(problem)
        self.projection = OccupancyProjection(problem.mdp.transitions, problem.mdp.initial)
        # q^1 is the occupancy of largest entropy.
        first = self.projection(np.zeros(problem.mdp.shape))
        self.log_occupancy = np.repeat(first[..., None], problem.n_runs, axis=-1)
        self.policy = self._policy()

    def act(self, k: int) -> Floats:
        """Return pi^k(a|s) = q^k(s,a) / sum_a q^k(s,a), shape (H, S, A, R)."""
        return self.policy

    def learn(self, k: int, arrivals: Arrivals) -> None:
        """Make one mirror-descent step with the whole batch of arrivals F^k."""
        if not arrivals:
            return
        occupancy = np.exp(self.log_occupancy)  # q^k
        losses = np.zeros_like(occupancy)
        h, run = np.ogrid[: losses.shape[0], : losses.shape[-1]]
        for j in arrivals:
            # chat^j = c^j 1{visited} / (max(q^j, q^k) + gamma)
            visited = (h, j.states, j.actions, run)
            probability = j.state_occupancy[h, j.states, run] * j.policy[visited]
            if self.parameters.adapt:
                probability = np.maximum(probability, occupancy[visited])
            losses[visited] += j.losses / (probability + self.exploration)
        # q^{k+1} = argmin_q eta <q, sum_{j in F^k} chat^j> + KL(q | q^k) over the occupancy measures
        for r in range(losses.shape[-1]):
            tilted = self.log_occupancy[..., r] - self.step_size[r] * losses[..., r]
            self.log_occupancy[..., r] = self.projection(tilted)
        self.policy = self._policy()

    def _policy(self) -> Floats:
        reachable = np.where(self.projection.reachable[:, :, None, None], self.log_occupancy, 0.0)
        weights = np.exp(reachable - reachable.max(axis=2, keepdims=True))
        policy: Floats = weights / weights.sum(axis=2, keepdims=True)
        return policy

    @property
    def settings(self) -> dict[str, Any]:
        """The resolved parameters."""
        return {"step_size": self.step_size, "exploration": self.exploration}


class OccupancyProjection:
    """The occupancy measure nearest in relative entropy to a positive weight, for known transitions.

    ``argmin_q KL(q | w)`` over the occupancy measures of a model is
    ``q_h(s,a) = w_h(s,a) exp(v_h(s) - sum_s' p_h(s'|s,a) v_{h+1}(s')) / Z_h`` with ``v_H = 0`` and v minimising the
    convex dual ``sum_h ln Z_h(v) - sum_s initial(s) v_0(s)``, whose gradient is the imbalance of flow (section 8b of
    the DAPO specification; the multipliers v_0 make the first state's distribution any, not only a point).

    Parameters
    ----------
    transitions : (H, S, A, S)
    initial : (S,)
    tolerance : float
        Largest imbalance of flow accepted.
    """

    def __init__(self, transitions: Floats, initial: Floats, tolerance: float = 1e-10) -> None:
        self.transitions, self.initial, self.tolerance = transitions, initial, tolerance
        H, S, A, _ = transitions.shape
        uniform = planning.uniform_policy(H, S, A)
        self.reachable = planning.state_occupancy(transitions, initial, uniform) > 0
        self.index = np.flatnonzero(self.reachable)  # the unknowns: v at reachable (h, s)
        self.features = self._feature_matrices()

    def _feature_matrices(self) -> list[Floats]:
        """Return per step the matrix M_h (reachable pairs, unknowns) with ``ln q_h = ln w_h + M_h v - ln Z_h``."""
        H, S, A, _ = self.transitions.shape
        matrices = []
        for h in range(H):
            matrix = np.zeros((S, A, H, S))
            matrix[np.arange(S), :, h, np.arange(S)] = 1.0
            if h + 1 < H:
                matrix[:, :, h + 1, :] = -self.transitions[h]
            rows = matrix[self.reachable[h]].reshape(-1, H * S)
            matrices.append(rows[:, self.index])
        return matrices

    def __call__(self, log_weights: Floats) -> Floats:
        """Return ln q for weights exp(``log_weights``), both (H, S, A); -inf at unreachable states.

        Raises
        ------
        TabpoError
            If the dual was not solved to the tolerance.
        """
        start = [log_weights[h][self.reachable[h]].ravel() for h in range(len(log_weights))]
        target = np.zeros(self.reachable.shape)
        target[0] = self.initial
        target_flow = target.ravel()[self.index]

        def derivatives(v: Floats, power: float) -> tuple[Floats, Floats]:
            """Return the dual's gradient and Hessian for the weights to a power."""
            gradient, hessian = -target_flow, np.zeros((v.size, v.size))
            for features, base in zip(self.features, start, strict=True):
                exponents = power * base + features @ v
                q = np.exp(exponents - logsumexp(exponents))
                mean = features.T @ q
                gradient = gradient + mean
                hessian += (features.T * q) @ features - np.outer(mean, mean)
            return gradient, hessian

        v = self._minimise(derivatives, np.zeros(self.index.size))
        result = np.full(log_weights.shape, -np.inf)
        for h, (features, base) in enumerate(zip(self.features, start, strict=True)):
            exponents = base + features @ v
            result[h][self.reachable[h]] = (exponents - logsumexp(exponents)).reshape(-1, log_weights.shape[2])
        return result

    def _minimise(self, derivatives: Derivatives, start: Floats) -> Floats:
        """Return the minimiser of the dual: Newton's method, along growing powers of the weights if it fails at once.

        At the power 0 the weights are 1, and Newton's method converges from afar; where the weights are steep, the
        multipliers grow in proportion to the power, so that those of a power are a good start for the next one.
        """
        v, imbalance = self._newton(derivatives, start, 1.0)
        if imbalance <= self.tolerance:
            return v
        v, imbalance = self._newton(derivatives, start, 0.0)
        power, step = 0.0, 2.0**-10
        while imbalance <= self.tolerance and power < 1.0 and step > 2.0**-30:
            further = min(power + step, 1.0)
            guess = v * (further / power) if power > 0 else v
            found, left = self._newton(derivatives, guess, further)
            if left <= self.tolerance:
                v, power, step = found, further, 2.0 * step
            else:
                step /= 4.0
        if not (imbalance <= self.tolerance and power == 1.0):
            raise TabpoError(
                f"the dual of the occupancy projection was solved for the weights to the power {power:.3g} only, with "
                f"the flow balanced to {self.tolerance:.2g}; a smaller step_size makes the problem easier"
            )
        return v

    def _newton(self, derivatives: Derivatives, v: Floats, power: float, most_steps: int = 20) -> tuple[Floats, float]:
        """Return where Newton steps on the flow equations lead while they improve, and the imbalance left there.

        Along a step of length t the imbalance is at first multiplied by 1 - t, so that a short enough one improves.
        Adding a constant to a step's multipliers changes nothing, so the Hessian is singular: least squares.
        """
        gradient, hessian = derivatives(v, power)
        imbalance = float(np.abs(gradient).max())
        for _ in range(most_steps):
            if imbalance <= self.tolerance:
                break
            direction = np.linalg.lstsq(hessian, gradient, rcond=1e-13)[0]
            for length in (1.0, 0.5, 0.25, 0.125, 0.0625, 0.015625):
                further = v - length * direction
                gradient, hessian = derivatives(further, power)
                largest = float(np.abs(gradient).max())
                if largest < imbalance:
                    break
            else:
                break
            v, imbalance = further, largest
        return v, imbalance
