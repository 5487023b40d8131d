"""The joint linear labeler: silos train one differentially private softmax regression by noisy sums.

On principal components of the public set, or on bins of a table's columns: then it is additive, and people can read it.
Preconditioned gradient steps: Böhning, "Multinomial logistic regression algorithm", Annals of the
Institute of Statistical Mathematics 44, 1992. Noise in shares: ``privacy/noise_shares.py``. Labels that weigh classes
the same: Menon et al., "Long-tail learning via logit adjustment", ICLR 2021.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.stats import chi2

from fedct_flwr import secure_sum
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.dp_linear import RESIDUAL, WEIGHT_GRID, bounded, gradient
from fedct_flwr.labelers.public_features import NORM, Kind, PublicBins, PublicFeatures
from fedct_flwr.privacy.budget import check_least
from fedct_flwr.privacy.noise_shares import UNLIKELY, NoiseShares, calibrated, least_multiplier, may_be_noise
from fedct_flwr.privacy.randomness import Noise
from fedct_flwr.types import LABEL_DTYPE, ConfigError, DataError, Examples, Features, HardLabels
from fedct_flwr.wire.content import Joint

BITS: Final = 64
"""Sums are modulo 2^64."""
_MOST_RECORDS: Final = 1 << 21
"""Of all silos: each number of a record is at most 2^40, so their sum and its noise stay within 63 bits."""
_STEPS: Final = 15
_RECORDS_PER_BIN: Final = 8
_FEWEST_BINS, _MOST_BINS = 4, 16
_RECORDS_PER_COMPONENT: Final = 30
_FEWEST, _MOST = 10, 300
_RAREST: Final = 10
"""Most times that a class counts as rarer than its fair share: noise alone would make many classes look rare."""
_LOOKS: Final = 5
"""Steps of an additive labeler at weights of zero, after which it chooses its columns."""
_COLUMNS: Final = 10
"""Columns it chooses."""
_ENOUGH: Final = 60
"""Records for each unit of noise from which labels helped on all tables measured (benchmarks/results/joint-few.md)."""
_FEW: Final = 20
"""So few components are the columns' own: those of cosines did no better."""


@dataclass(frozen=True)
class JointPlan:
    """All that is fixed before a study's first sum; nothing of it is learned from records.

    ``num_records``: of all silos together, as they announced it. Features are ``components`` principal components of
    the public set, or where these are 0, at most ``bins`` bins of each column. ``clip``: the length of a record's
    residual (probabilities less the true class) in units of 1 / RESIDUAL. ``ridge``: see ``JointLinear``.
    """

    num_records: int
    num_classes: int
    steps: int
    components: int
    kind: Kind
    bins: int
    clip: int
    ridge: float
    honest: int
    epsilon: float
    delta: float


def plan_for(
    num_records: int,
    num_classes: int,
    *,
    epsilon: float,
    delta: float,
    honest: int,
    steps: int = _STEPS,
    additive_columns: int = 0,
) -> JointPlan:
    """A plan whose sums together keep ``epsilon`` at ``delta`` for each record, chosen without looking at any.

    ``honest``: see ``noise_shares.surely_honest``. By q, the number of records divided by the noise multiplier: q / 30
    principal components of the public set, from 10 to 300, and a ridge of 1 / q. An additive labeler of a table with
    ``additive_columns`` has q / 8 bins in all instead, from 4 to 16 for each column. A record's residual is clipped to
    sqrt(1 - 1 / classes), its length while nothing is known. Raises ConfigError for impossible numbers, and for more
    records than 64 bits hold.
    """
    check_least("the joint labeler", ("records", num_records, 1), ("classes", num_classes, 2), ("steps", steps, 1))
    if num_records > _MOST_RECORDS:
        raise ConfigError(
            f"silos have {num_records} records together, but sums of 64 bits hold {_MOST_RECORDS}: let silos draw fewer"
        )
    per_noise = num_records / least_multiplier(epsilon, delta)
    components = bins = 0
    if additive_columns:
        bins = round(min(max(per_noise / _RECORDS_PER_BIN / additive_columns, _FEWEST_BINS), _MOST_BINS))
    else:
        components = round(min(max(per_noise / _RECORDS_PER_COMPONENT, _FEWEST), _MOST))
    return JointPlan(
        num_records=num_records,
        num_classes=num_classes,
        steps=steps,
        components=components,
        kind="linear" if components <= _FEW else "kernel",
        bins=bins,
        clip=math.floor(RESIDUAL * math.sqrt(1 - 1 / num_classes)),
        ridge=1 / per_noise,
        honest=honest,
        epsilon=epsilon,
        delta=delta,
    )


def expected(num_records: int, epsilon: float, delta: float) -> tuple[bool, str]:
    """Whether labels of all silos' ``num_records`` may be mostly noise, and a sentence on what to expect of them.

    By the records for each unit of noise alone: how much columns say of the class, no one knows before.

    >>> print(*expected(100, 1.0, 1e-5), sep=": ")
    True: joint labels of 100 records at epsilon 1 can be mostly noise: on all tables measured they helped from 224 on
    >>> expected(500, 1.0, 1e-5)[0]
    False
    """
    enough = math.ceil(_ENOUGH * least_multiplier(epsilon, delta))
    if num_records < enough:
        worth = f"can be mostly noise: on all tables measured they helped from {enough:,} on"
    else:
        worth = f"are worth their noise, as on all tables measured with {enough:,} or more"
    return num_records < enough, f"joint labels of {num_records:,} records at epsilon {epsilon:g} {worth}"


class Descent(NamedTuple):
    """How far training has come; all of it follows from sums that were opened.

    While an additive labeler looks for its columns, ``weights`` are zero and ``total`` adds up mean gradients.
    """

    step: int
    weights: NDArray[np.float64]
    """``(size, classes)``, on a grid."""
    total: NDArray[np.float64]
    """Sum of the weights after the steps of the second half."""


class JointLinear:
    """One linear labeler of all silos: what a silo sends for a step, and what follows from the sums.

    Softmax regression on ``PublicFeatures`` or ``PublicBins``: W <- W - (A / 2 + ridge I)^-1 (G / n + ridge W). G is
    the noisy sum of the records' gradients, n ``plan.num_records`` and A the second moments of the *public* set's
    features: half of A is an upper bound for the curvature where records are like public examples. The labeler's
    weights are the mean of the second half. A label is the class whose probability is the largest multiple of its mean
    over the public set, so that rare classes are found; this costs nothing, as it reads no record.

    An additive labeler of a table with more than 10 columns asks a third of its sums at weights of zero. These say how
    classes differ in each bin. The 10 columns that differ most beyond the noise are kept; the others have weights of
    zero from then on, by which silos know that they do not count.

    Formal guarantees:
        Unit: one record of one silo, or one patient with all records there. Data sets are adjacent if one unit is added
        or removed; the numbers of records that silos announced, the roster, the public set and the plan are taken as
        known, and do not change with it. From whom: everybody, also the coordinator together with the silos counted as
        ``may-collude``, who see all sums, all weights, the labels and the colluders' own records and noise. Summands
        stay secret: that is what a secure sum promises, and a plain sum does not.

        A record with integer features x and residual r adds the matrix x r^T to one silo's summand. |x| <= NORM by
        the construction of the features, and |r| <= ``plan.clip`` after clipping, all in integers: nothing is
        rounded after clipping, so no conditional or stochastic rounding is needed. Its Euclidean length is |x| |r|,
        at most NORM * clip: the sensitivity of each sum, **whatever the weights are**, so a coordinator that makes up
        weights, or chooses other columns, learns no more. All steps are counted before the first, and all their noise
        is set then.

        Noise comes in shares of silos: see ``NoiseShares`` for the cost of the sums together, which counts the noise
        of ``plan.honest`` silos alone. Weights and labels follow from the sums. The labeler may be given away.

        Of a patient with k records each x is divided by k, toward zero: the k products together are as short.

        Not covered: without a group column, several records of one person; the time that a silo takes; that a record
        makes a silo fail (features take any number; a record of another shape must be refused before a study).

    Raises DataError for features that are no numbers, or a public set that teaches none.
    """

    def __init__(self, plan: JointPlan, public: Features, schema: Schema, *, seed: int) -> None:
        if len(public) < 2:
            raise DataError(f"the public set has {len(public)} examples: a joint labeler needs at least 2")
        self.plan = plan
        self.features: PublicFeatures | PublicBins = (
            PublicFeatures(public, schema, num_components=plan.components, kind=plan.kind, seed=seed)
            if plan.components
            else PublicBins(public, schema, bins=plan.bins)
        )
        self._public = public
        self._preconditioners: dict[bytes, NDArray[np.float64]] = {}

    @cached_property
    def noise(self) -> NoiseShares:
        """Noise in each silo's summand. Raises ConfigError for a budget that no noise keeps."""
        plan, numbers = self.plan, self.features.size * self.plan.num_classes
        how = {"sums": plan.steps, "numbers": numbers, "honest": plan.honest}
        return calibrated(plan.epsilon, plan.delta, sensitivity=float(NORM * plan.clip), **how)

    @property
    def start(self) -> Descent:
        """Weights of zero."""
        zeros = np.zeros((self.features.size, self.plan.num_classes))
        return Descent(0, zeros, zeros)

    def vectors(self, X: Features) -> NDArray[np.float64]:
        """Integer features of a silo's records, to be made once. Raises DataError for another shape."""
        self.features.check(X)
        return self.features(X)

    def summand(
        self,
        vectors: NDArray[np.float64],
        y: HardLabels,
        weights: NDArray[np.float64],
        noise: Noise,
        shared: NDArray[np.int64] | None = None,
    ) -> NDArray[np.uint64]:
        """A silo's summand of one step: its records' clipped gradients and its share of the noise.

        ``shared`` is from ``sharing``, where patients have several records. Integers modulo 2^64. The silo charges
        ``self.noise.event()`` before, and calls this once for each step. Raises ValueError for weights of another
        shape, or that are no numbers. No record makes it fail.
        """
        if weights.shape != self.start.weights.shape or not np.isfinite(weights).all():
            raise ValueError(f"weights of shape {weights.shape} are not those of this labeler, or no numbers")
        return (self.gradient(vectors, y, weights, shared).ravel() + self.noise.share(noise)).view(np.uint64)

    def gradient(
        self,
        vectors: NDArray[np.float64],
        y: HardLabels,
        weights: NDArray[np.float64],
        shared: NDArray[np.int64] | None = None,
    ) -> NDArray[np.int64]:
        """Of records, clipped, ``(size, classes)``; **without noise, so it never leaves a silo like this**."""
        return gradient(self.seen(vectors, weights), y, bounded(weights), shared, longest=self.plan.clip)

    def step(self, progress: Descent, opened: NDArray[np.uint64]) -> Descent:
        """Progress after the opened sum of a step. Raises ValueError after the last step, or for another length."""
        plan, step, weights = self.plan, progress.step, progress.weights
        if step >= plan.steps or opened.shape != (weights.size,):
            raise ValueError(f"step {step} of {plan.steps} with a sum of shape {opened.shape}")
        mean = opened.view(np.int64).reshape(weights.shape) / (NORM * RESIDUAL * plan.num_records)
        return self._after(progress, mean)

    def could_be(self, opened: NDArray[np.uint64], records: int, silos: int) -> bool:
        """Whether gradients of ``records`` and the noise of ``silos`` silos can add up to the sum of a step.

        Clipped gradients are no longer than ``records`` times the sensitivity. A record's residuals add up to zero over
        the classes, but for roundings, and so does each feature's row. Of honest silos it is refused with a probability
        of at most ``noise_shares.UNLIKELY``.
        """
        numbers = opened.view(np.int64).reshape(self.start.weights.shape).astype(np.float64)
        length, scale = float(np.linalg.norm(numbers)), self.noise.spread(silos)
        rounded = 2 * self.plan.num_classes * NORM * records
        rows = np.maximum(np.abs(numbers.sum(axis=1)) - rounded, 0)
        noise = scale * math.sqrt(chi2.isf(UNLIKELY / 2, numbers.size))
        long = length > records * self.noise.sensitivity + noise
        return not long and may_be_noise(rows, scale * math.sqrt(self.plan.num_classes))

    def lost(self, progress: Descent) -> Descent:
        """Go past a step whose sum the coordinator cannot open. Raises ValueError like ``step``.

        The weights stay, but after the last look: it sets them from the sums that were opened.
        """
        if progress.step >= self.plan.steps:
            raise ValueError(f"step {progress.step} of {self.plan.steps}")
        return self._after(progress, None)

    def _after(self, progress: Descent, mean: NDArray[np.float64] | None) -> Descent:
        """Progress after the mean gradient of a step; None: it is lost."""
        plan, step, weights, total = self.plan, progress.step, progress.weights, progress.total
        if step < self._looks:
            total = total if mean is None else total + mean
            if step + 1 < self._looks:
                return Descent(step + 1, weights, total)
            return Descent(step + 1, self._begun(total / self._looks), np.zeros_like(total))
        if mean is not None:
            weights = self._moved(weights, mean)
        return Descent(step + 1, weights, total + weights if step >= plan.steps // 2 else total)

    def _moved(self, weights: NDArray[np.float64], mean: NDArray[np.float64]) -> NDArray[np.float64]:
        counting = _counting(weights)
        moved = np.asarray(weights - self._preconditioner(counting) @ (mean + self.plan.ridge * weights))
        if self._looks and counting.any():
            moved[~counting] = 0  # of columns that do not count there is noise alone
        return _on_grid(moved)

    @cached_property
    def _looks(self) -> int:
        """Steps at weights of zero: none where all columns are kept."""
        features = self.features
        many = isinstance(features, PublicBins) and features.num_columns > _COLUMNS
        return min(_LOOKS, self.plan.steps // 3) if many else 0

    def _begun(self, mean: NDArray[np.float64]) -> NDArray[np.float64]:
        """The first weights, on the columns that the mean gradient at weights of zero says most of.

        A bin's gradient differs from that of its share of all records by noise alone, where classes are in it as in
        all. Beyond the noise, its square is weighed by what chance and noise make of it.
        """
        features = self.features
        if not isinstance(features, PublicBins):
            return mean
        height = features.height(features.num_columns) / NORM
        share = self._public_vectors[:, :-1].mean(axis=0) / NORM / height
        constant = self._public_vectors[0, -1] / NORM
        noise = (self.noise.scale / (NORM * RESIDUAL * self.plan.num_records)) ** 2 / self._looks
        beyond = mean[:-1] - height * share[:, None] * (mean[-1] / constant)
        scores = (beyond**2 - noise) / (height**2 * share + self.plan.num_records * noise)[:, None]
        kept = np.append(features.chosen(scores.sum(axis=1), _COLUMNS), True)
        # The same gradient, of the larger numbers that the columns which are kept have from now on.
        larger = np.append(np.full(len(kept) - 1, features.height(_COLUMNS) / NORM / height), 1.0)
        return _on_grid(-self._preconditioner(kept) @ (mean * larger[:, None]) * kept[:, None])

    def weights(self, progress: Descent) -> NDArray[np.float64]:
        """Of the labeler, ``(size, classes)``, once all steps are done. Raises ValueError before."""
        if progress.step < self.plan.steps:
            raise ValueError(f"only {progress.step} of {self.plan.steps} steps are done")
        return progress.total / (self.plan.steps - self.plan.steps // 2)

    def opened(self, before: NDArray[np.float64], after: NDArray[np.float64]) -> NDArray[np.float64]:
        """The noisy mean of gradients between the weights of two steps, which anybody who has both can work out."""
        inverse = self._preconditioner(_counting(after))
        return np.asarray(np.linalg.solve(inverse, before - after) - self.plan.ridge * before)

    def seen(self, vectors: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Part of vectors that a labeler with these weights reads: an additive one the columns that count."""
        return self._counted(vectors, _counting(weights))

    def _counted(self, vectors: NDArray[np.float64], counting: NDArray[np.bool_]) -> NDArray[np.float64]:
        features = self.features
        return features.seen(vectors, counting) if self._looks and isinstance(features, PublicBins) else vectors

    def probabilities(self, weights: NDArray[np.float64], vectors: NDArray[np.float64]) -> NDArray[np.float64]:
        """Of each class, ``(n, classes)``, for ``vectors`` of examples."""
        return np.asarray(np.exp(self._logits(self.seen(vectors, weights), weights)))

    def label(self, weights: NDArray[np.float64], X: Features) -> HardLabels:
        """The class of each example, ``(n,)``."""
        logits = self._logits(self.seen(self.features(X), weights), weights)
        return np.asarray((logits - self._usual(weights)).argmax(axis=1), dtype=LABEL_DTYPE)

    def _usual(self, weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithm of each class's mean probability over the public set, ``(classes,)``."""
        p = np.exp(self._logits(self.seen(self._public_vectors, weights), weights)).mean(axis=0)
        return np.asarray(np.log(np.maximum(p, 1 / (_RAREST * len(p)))))

    @staticmethod
    def _logits(vectors: NDArray[np.float64], weights: NDArray[np.float64]) -> NDArray[np.float64]:
        """Logarithms of probabilities ``(n, classes)``."""
        logits = vectors @ (weights / NORM)
        logits -= logits.max(axis=1, keepdims=True)
        return np.asarray(logits - np.log(np.exp(logits).sum(axis=1, keepdims=True)))

    @cached_property
    def _public_vectors(self) -> NDArray[np.float64]:
        return self.features(self._public)

    def _preconditioner(self, counting: NDArray[np.bool_]) -> NDArray[np.float64]:
        """``(size, size)``, from the public set's columns with components ``(size,)`` that count."""
        key = counting.tobytes() if self._looks else b""
        if key not in self._preconditioners:
            U = self._counted(self._public_vectors, counting) / NORM
            found = np.asarray(np.linalg.inv(U.T @ U / (2 * len(U)) + self.plan.ridge * np.eye(U.shape[1])), np.float64)
            # The last alone: from the choice on, the same columns count.
            self._preconditioners = {key: found}
        return self._preconditioners[key]


def _counting(weights: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which components have a weight for some class, ``(size,)``."""
    return np.asarray(weights.any(axis=1))


def _on_grid(weights: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(np.rint(bounded(weights) * WEIGHT_GRID) / WEIGHT_GRID)


def train_together(labeler: JointLinear, silos: Sequence[Examples], noises: Sequence[Noise]) -> NDArray[np.float64]:
    """All steps in one process, as a simulation: the labeler's weights ``(size, classes)``.

    ``silos`` are their private records, ``noises`` where each takes its noise from. It sums in the open, **which
    protects no summand**: a simulation shows what labels are worth, and guarantees nothing. Raises
    DataError for records of another shape than public examples, ConfigError for fewer silos than have to be honest.
    """
    if len(silos) < labeler.plan.honest:
        raise ConfigError(
            f"{len(silos)} silos cannot add the noise of {labeler.plan.honest} honest ones: lower min-summands"
        )
    vectors = [labeler.vectors(private.X) for private in silos]
    progress = labeler.start
    for _ in range(labeler.plan.steps):
        summands = [
            labeler.summand(own, private.y, progress.weights, noise)
            for own, private, noise in zip(vectors, silos, noises, strict=True)
        ]
        progress = labeler.step(progress, secure_sum.sum_modulo(summands, BITS))
    return labeler.weights(progress)


def joint_labeler(joint: Joint, public: PublicSet, schema: Schema) -> JointLinear:
    """The labeler of a step's plan, made once in a process. Raises ConfigError or DataError."""
    plan = plan_for(
        joint.records,
        len(schema.classes),
        epsilon=joint.epsilon,
        delta=joint.delta,
        honest=joint.honest,
        steps=joint.steps,
        additive_columns=joint.columns,
    )
    return _made(plan, public, schema, joint.seed)


# Silos of one process share it, and all steps do.
@lru_cache(maxsize=2)
def _made(plan: JointPlan, public: PublicSet, schema: Schema, seed: int) -> JointLinear:
    return JointLinear(plan, public.X, schema, seed=seed)
