"""The DP linear labeler on stand-in data, before anything runs: ``fedct_flwr.privacy.planner`` for what has to train.

Stand-in records are a mixture of Gaussians of one covariance, a class each, as far apart as it takes for a linear model
without privacy (linear discriminant analysis, which is made for them) to be as good with one silo's records as a silo's
own model is said to be. The labeler that is trained on them is the real one, with the noise that the real accounting
asks for. Real data has classes that no linear model separates, so a real labeler without noise may be worse than a
silo's own model; what the noise costs is what this shows.
"""

import math
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

from fedct_flwr.consensus.counting import plurality, tally
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.dp_linear import DpLinearLabeler
from fedct_flwr.labelers.joint_choice import JointChoice, plans_for
from fedct_flwr.labelers.joint_linear import JointLinear, plan_for, step_together
from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.labelers.public_features import PublicFeatures
from fedct_flwr.privacy.planner import Estimate, Plan, judged
from fedct_flwr.privacy.randomness import simulated
from fedct_flwr.seeding import generator
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Examples, Features, HardLabels

NUM_FEATURES: Final = 20

_MOST_RECORDS: Final = 20_000
_MOST_SILOS: Final = 50
_MOST_TRAINED_ON: Final = 100_000
_MOST_PUBLIC: Final = 10_000
_JUDGED: Final = 4_000
_TESTS: Final = 4_000
_HALVINGS: Final = 12
_UNPROTECTED: Final = 1e6
"""Stands for an infinite epsilon."""
_UNPROTECTED_TOGETHER: Final = 20.0
"""Noise in shares is measured for this epsilon at most, which keeps higher ones too: labels are those without noise."""
_LARGEST_SEPARATION: Final = 100.0


def rehearse(plan: Plan, seed: int, num_features: int = NUM_FEATURES) -> list[Estimate]:
    """What DP linear labelers make of stand-in data with so many columns, one estimate: a plan and a seed fix it.

    At most 20,000 records a silo and 50 silos (100,000 records in all) are drawn: with more, labels are not worse.
    """
    records = min(plan.num_records, _MOST_RECORDS)
    silos = min(plan.num_silos, _MOST_SILOS, max(1, _MOST_TRAINED_ON // records))
    rng = generator(seed, "rehearsal", "data")
    centers = _separated(plan, records, num_features, rng)
    schema = _schema(plan, num_features)
    # Features are learned from a public set as large as planned; labels are judged on many more examples like it.
    public, judged_on = (_draw(centers, size, rng) for size in (min(plan.num_public, _MOST_PUBLIC), _JUDGED))
    # Noise and features are the same at all silos: one labeler, reset between them.
    labeler = DpLinearLabeler(
        PublicFeatures(public.X, schema, seed=seed),
        plan.num_classes,
        num_records=records,
        epsilon=min(plan.epsilon, _UNPROTECTED),
        delta=plan.delta,
    )
    votes = []
    for silo in range(silos):
        labeler.reset()
        votes.append(_labels(labeler, _draw(centers, records, rng), judged_on.X, generator(seed, "rehearsal", silo)))
    counts = tally(votes, _JUDGED, plan.num_classes)
    consensus = plurality(counts, _nothing(_JUDGED), generator(seed, "rehearsal", "lots"))
    right = float(np.mean([(labels == judged_on.y).mean() for labels in votes]))
    return [judged(plan, "dp-linear", "once, while training", right, float((consensus == judged_on.y).mean()))]


def rehearse_together(plan: Plan, seed: int, num_features: int = NUM_FEATURES) -> list[Estimate]:
    """What the joint labelers make of the same stand-in data, and silos that choose; none where silos cannot add up.

    So many records are drawn in all as ``rehearse`` draws, and the noise is measured for those. Stand-in classes are
    of the linear labeler's form: what the additive one loses there is what its noise and its bins cost.
    """
    if not plan.honest:
        return []
    records, rng = min(plan.num_records, _MOST_TRAINED_ON // plan.num_silos), generator(seed, "rehearsal", "data")
    centers = _separated(plan, min(plan.num_records, _MOST_RECORDS), num_features, rng)
    public, judged_on = (_draw(centers, size, rng) for size in (min(plan.num_public, _MOST_PUBLIC), _JUDGED))
    silos = [_draw(centers, max(1, records), rng) for _ in range(plan.num_silos)]
    schema = _schema(plan, num_features)
    of_all = max(1, records) * plan.num_silos, plan.num_classes
    epsilon = min(plan.epsilon, _UNPROTECTED_TOGETHER)
    linear, additive = (
        plan_for(*of_all, epsilon=epsilon, delta=plan.delta, honest=plan.honest, additive_columns=columns)
        for columns in (0, num_features)
    )
    both = plans_for(
        *of_all, epsilon=epsilon, delta=plan.delta, honest=plan.honest, steps=linear.steps,
        additive_columns=num_features,
    )  # fmt: skip
    found = []
    for name, labeler in (
        ("fedct-joint", JointLinear(linear, public.X, schema, seed=seed)),
        ("fedct-joint, additive", JointLinear(additive, public.X, schema, seed=seed)),
        ("fedct-joint, auto", JointChoice(both, public.X, schema, seed=seed)),
    ):
        noises = [simulated(generator(seed, "rehearsal", "together", silo)) for silo in range(plan.num_silos)]
        winner, weights = labeler.finished(step_together(labeler, silos, noises))
        noise = "none" if math.isinf(plan.epsilon) else f"multiplier {labeler.noise.multiplier:.3g}"
        right = float((winner.label(weights, judged_on.X) == judged_on.y).mean())
        found.append(judged(plan, name, noise, None, right))
    return found


def _schema(plan: Plan, num_features: int) -> Schema:
    return Schema.numeric(
        tuple(f"class {c}" for c in range(plan.num_classes)), tuple(f"column {i}" for i in range(num_features))
    )


def _labels(labeler: DpLinearLabeler, private: Examples, X: Features, rng: Generator) -> HardLabels:
    asked = Asked(private, X, _nothing(len(X)), _nothing(len(X)), np.arange(len(X)))
    return labeler.answer(asked, simulated(rng))


def _nothing(num_examples: int) -> HardLabels:
    return np.full(num_examples, ABSTAIN, dtype=LABEL_DTYPE)


def _draw(centers: NDArray[np.float64], size: int, rng: Generator) -> Examples:
    y = rng.integers(len(centers), size=size).astype(LABEL_DTYPE)
    return Examples(centers[y] + rng.standard_normal((size, centers.shape[1])), y)


def _separated(plan: Plan, records: int, num_features: int, rng: Generator) -> NDArray[np.float64]:
    """Centers ``(classes, columns)`` so far apart that a linear model of one silo's records has the plan's accuracy."""
    directions = rng.standard_normal((plan.num_classes, num_features))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    train, test = (_draw(np.zeros_like(directions), size, rng) for size in (records, _TESTS))

    def accuracy(separation: float) -> float:
        # The same draws, moved: so it grows with the separation.
        X, X_test = (part.X + separation * directions[part.y] for part in (train, test))
        model = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto").fit(X, train.y)
        return float((model.predict(X_test) == test.y).mean())

    low, high = 0.0, 1.0
    while accuracy(high) < plan.accuracy and high < _LARGEST_SEPARATION:
        low, high = high, 2 * high
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        low, high = (middle, high) if accuracy(middle) < plan.accuracy else (low, middle)
    centers: NDArray[np.float64] = high * directions
    return centers
