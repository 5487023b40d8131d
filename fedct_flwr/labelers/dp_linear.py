"""The DP linear labeler: softmax regression on public features, by gradient descent with noise. For any CPU.

Bassily, Smith, Thakurta, "Private empirical risk minimization: efficient algorithms and tight error bounds", FOCS 2014;
its noise: Canonne, Kamath, Steinke, "The discrete Gaussian for differential privacy", NeurIPS 2020.
"""

import math
import struct
from functools import lru_cache
from typing import ClassVar, Final

import numpy as np
from dp_accounting import DpEvent, GaussianDpEvent, NoOpDpEvent
from numpy.typing import NDArray

from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.labeler import Asked, Start
from fedct_flwr.labelers.public_features import NORM, PublicFeatures
from fedct_flwr.privacy.accounting import calibrate
from fedct_flwr.privacy.randomness import Noise
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples, Groups, HardLabels, TrainingError, random_state

RESIDUAL: Final = 1 << 20
"""A probability of one, on the grid."""
SENSITIVITY: Final = math.nextafter(math.sqrt(2), 2) * NORM * RESIDUAL
"""No record's gradient is longer, on the grid."""
WEIGHT_GRID: Final = 1 << 16
_MAX_WEIGHT: Final = 1 << 15
_LOGIT: Final = NORM * WEIGHT_GRID
_FINE: Final = 1 << 10
_ODDS: Final = np.rint(np.exp(-np.arange(16 * _FINE + 1) / _FINE) * (1 << 30)).astype(np.int64)
_ROWS: Final = 4096
_MOST_NOISE: Final = 1e4  # with it, noisy sums stay far within 64 bits
_HEADER: Final = struct.Struct("<8sII")
_MAGIC: Final = b"dplinear"


def labeler(start: Start) -> "DpLinearLabeler":
    """On features that the public set teaches, the same for all silos of a study."""
    privacy = start.privacy
    return DpLinearLabeler(
        _features(start.public, start.schema, random_state(start.learner.seed, "public features")),
        start.num_classes,
        num_units=start.num_units,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
    )


@lru_cache(maxsize=4)
def _features(public: PublicSet, schema: Schema, seed: int) -> PublicFeatures:
    """In a simulation they are learned once."""
    return PublicFeatures(public.X, schema, seed=seed)


class DpLinearLabeler:
    """Labels by softmax regression, trained once on the private records, when it is first asked.

    ``num_units`` (records, or patients) is how many the silo has, and public; ``epsilon`` at ``delta`` is what each of
    them spends in total.
    Full-batch gradient descent of ``steps`` steps with ``learning_rate``, on ``features`` that are learned from the
    public set alone; the weights are the mean of the second half. The defaults were chosen on other data than the
    labeler is measured on. Satisfies ``Labeler``. Raises ConfigError for a budget that no noise keeps.

    Formal guarantees:
        For each unit of the silo (a record, or a patient with all records), added or removed: all labels ever returned,
        and what ``dump`` says, are (epsilon, delta)-DP together, as a Gaussian mechanism with the multiplier of
        ``event`` is. The number of units, the public set and the schema are taken as known.

        A record with features x and class y adds the matrix x (p - e_y)^T to the gradient, p being the probabilities
        that public weights give it. Both vectors are integers on a grid, and every operation on the way (product,
        table of exponentials, division) is one of integers, so this matrix depends on the record and the weights
        alone and the sum is exact. With N = ``NORM`` and R = ``RESIDUAL``: |x| <= N; p is rounded down, so its entries
        are at least 0 and sum to at most R, hence |p - R e_y|^2 <= (sum of the others)^2 + (R - p_y)^2 <= 2 R^2. A
        product x r^T has length |x| |r|: one record changes the sum, as one integer vector of all entries, by
        Euclidean length at most ``SENSITIVITY`` = sqrt(2) N R. Nothing else is rounded, so nothing is added for it. Of
        a patient with k records each x is divided by k, toward zero: the k products together are as short.

        Noise is the discrete Gaussian of scale s = multiplier * sqrt(steps) * SENSITIVITY, independent for each entry.
        Rounding the sums of a continuous Gaussian mechanism is post-processing, so that would be exactly as private as
        the mechanism; and the discrete Gaussian is, in total variation, within 1 / (4 s^2) of a rounded continuous one
        for each number drawn. As s is beyond 2^40, all numbers of a training together are within 2^-60: what is
        accounted for, a Gaussian mechanism of that multiplier for all steps together (weights after a step are a
        function of noisy sums, and Gaussians compose to one), holds with delta larger by less than 2^-30 for every
        epsilon up to 20.

        Holds with ``SecureNoise`` only. Not covered: the time that it takes; without a group column, several records
        of one person, who is protected less.
    """

    reads_votes: ClassVar[bool] = False

    def __init__(
        self,
        features: PublicFeatures,
        num_classes: int,
        *,
        num_units: int,
        epsilon: float,
        delta: float,
        steps: int = 40,
        learning_rate: float = 8.0,
    ) -> None:
        self._features = features
        self._num_classes = num_classes
        self._num_units = num_units
        self._steps = steps
        self._learning_rate = learning_rate
        # All steps together are one Gaussian mechanism of this multiplier.
        multiplier = _least_noise(epsilon, delta)
        self._event: DpEvent = GaussianDpEvent(multiplier)
        self._scale = multiplier * math.sqrt(steps) * SENSITIVITY
        self._weights: NDArray[np.float64] | None = None

    def event(self, asked: Asked) -> DpEvent:
        """All of it for the first question, nothing for later ones.

        Raises TrainingError for records of another shape than public examples: nothing is to be charged for them.
        """
        if self._weights is not None:
            return NoOpDpEvent()
        self._check(asked.private)
        return self._event

    def answer(self, asked: Asked, noise: Noise) -> HardLabels:
        """The class of each example asked about, ``(positions,)``. Raises TrainingError."""
        if self._weights is None:
            self._weights = self._train(asked.private, asked.groups, noise)
        vectors = self._features(asked.public[asked.positions])
        return np.asarray((vectors @ self._weights).argmax(axis=1), dtype=LABEL_DTYPE)

    def dump(self) -> bytes:
        if self._weights is None:
            return b""
        return _HEADER.pack(_MAGIC, *self._weights.shape) + self._weights.astype("<f8").tobytes()

    def restore(self, state: bytes) -> None:
        """Go on from a dump. Raises TrainingError if it is not one of this labeler's."""
        shape = (self._features.size, self._num_classes)
        if not state:
            self._weights = None
            return
        header = _HEADER.pack(_MAGIC, *shape)
        if not state.startswith(header) or len(state) != len(header) + 8 * math.prod(shape):
            raise TrainingError("the stored state is not one of this DP linear labeler's: begin the study again")
        weights = np.frombuffer(state, dtype="<f8", offset=len(header)).reshape(shape).astype(np.float64)
        if not np.isfinite(weights).all():
            raise TrainingError("the stored weights of the DP linear labeler are not numbers: begin the study again")
        self._weights = weights

    def reset(self) -> None:
        self._weights = None

    def _check(self, private: Examples) -> None:
        try:
            self._features.check(private.X)
        except DataError as error:
            raise TrainingError(f"the private records cannot be learned from: {error}") from error

    def _train(self, private: Examples, groups: Groups | None, noise: Noise) -> NDArray[np.float64]:
        self._check(private)
        vectors = self._features(private.X)
        weights, total = (np.zeros((self._features.size, self._num_classes)) for _ in range(2))
        unit, shared = NORM * RESIDUAL * self._num_units, sharing(groups)
        averaged_from = self._steps // 2
        for step in range(self._steps):
            exact = gradient(vectors, private.y, weights, shared)
            noisy = exact + noise.discrete_gaussian(self._scale, weights.shape)
            weights = bounded(weights - self._learning_rate * (noisy / unit))
            if step >= averaged_from:
                total += weights
        return total / (self._steps - averaged_from)


def sharing(groups: Groups | None) -> NDArray[np.int64] | None:
    """How many records ``(n, 1)`` the patient of each has; None where each record is a unit of its own.

    >>> sharing(np.array([7, 7, 3]))[:, 0].tolist()
    [2, 2, 1]
    """
    if groups is None:
        return None
    _, of, counts = np.unique(groups, return_inverse=True, return_counts=True)
    return np.asarray(counts[of][:, None], dtype=np.int64)


def gradient(
    vectors: NDArray[np.float64],
    y: HardLabels,
    weights: NDArray[np.float64],
    shared: NDArray[np.int64] | None = None,
    *,
    longest: int | None = None,
) -> NDArray[np.int64]:
    """Sum over records of the cross-entropy's gradient ``(size, classes)``, in units of 1 / (NORM RESIDUAL), exactly.

    ``vectors`` ``(n, size)`` from ``PublicFeatures``; ``shared`` from ``sharing``. One unit's part is the same whatever
    the others are, and no longer than ``SENSITIVITY``; with residuals clipped to a length of ``longest``, in units of
    1 / RESIDUAL, no longer than ``NORM * longest``.
    """
    total = np.zeros(weights.shape, dtype=np.int64)
    on_grid = np.rint(weights * WEIGHT_GRID)
    for start in range(0, len(vectors), _ROWS):
        rows = slice(start, start + _ROWS)
        # Both products are of integers in floating point, and below 2**53 with all their partial sums.
        residuals = _residuals(vectors[rows] @ on_grid, y[rows])
        if longest is not None:
            residuals = _clipped(residuals, longest)
        own = vectors[rows] if shared is None else np.trunc(vectors[rows] / shared[rows])
        total += (own.T @ residuals.astype(np.float64)).astype(np.int64)
    return total


def _residuals(logits: NDArray[np.float64], y: HardLabels) -> NDArray[np.int64]:
    """Probabilities, rounded down, less the true class ``(n, classes)``, in units of 1 / RESIDUAL."""
    behind = (logits.max(axis=1, keepdims=True) - logits) * (_FINE / _LOGIT)
    odds = _ODDS[np.minimum(behind, len(_ODDS) - 1).astype(np.intp)]
    residuals = odds * RESIDUAL // odds.sum(axis=1, keepdims=True)
    residuals -= RESIDUAL * (y[:, None] == np.arange(logits.shape[1]))
    return np.asarray(residuals)


def _clipped(residuals: NDArray[np.int64], longest: int) -> NDArray[np.int64]:
    """Each row shortened to ``longest``, all in integers: a length is rounded up, and what is left rounded down.

    Squares are below 2**42, where the next integer's root is further off than floating point rounds.
    """
    lengths = np.ceil(np.sqrt((residuals**2).sum(axis=1, keepdims=True).astype(np.float64))).astype(np.int64)
    return np.asarray(np.sign(residuals) * (np.abs(residuals) * longest // np.maximum(lengths, longest)))


def bounded(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    """The weights, with each class's no longer than what products stay exact for."""
    lengths = np.sqrt((weights**2).sum(axis=0))
    return np.asarray(weights * np.minimum(1, _MAX_WEIGHT / np.maximum(lengths, 1)))


@lru_cache(maxsize=64)
def _least_noise(epsilon: float, delta: float) -> float:
    """Takes a second, and a simulation has many silos with one budget."""
    return calibrate(GaussianDpEvent, epsilon, delta, 1e-3, _MOST_NOISE)
