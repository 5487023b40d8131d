"""Training on probabilities instead of labels, and giving them: for algorithms that share soft labels.

The objective is that of D. Fan, C. Mendler-Dünner, M. Jaggi, "Collaborative learning via prediction consensus", NeurIPS
2023 (arXiv:2305.18497), equation 3: ``mean loss on private examples + lambda * mean disagreement on public ones``.
Networks descend along its gradient; for other learners it is a sum over examples with weights, which they fit.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.consensus.prediction import check_probabilities
from fedct_flwr.learners import Choosing, Distillable, Learner, Probabilistic, Resumable, SoftFittable, SoftTrainable
from fedct_flwr.learners.trained_model import check_probabilities as check_answered
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, Examples, Features, HardLabels, SoftVotes
from fedct_flwr.wire.kinds import Kind
from fedct_flwr.wire.numbers import PROBABILITIES, VALUES


class Weighted(NamedTuple):
    """Examples ``(n, ...)``, a class or a value for each ``(n,)``, and how much each counts ``(n,)``."""

    X: Features
    y: NDArray[np.generic]
    weights: NDArray[np.float64]


def check_soft(learner: Learner) -> None:
    """Raise ConfigError unless the learner can share probabilities and learn from them; it need not be trained."""
    if isinstance(learner, SoftTrainable):
        return
    if not isinstance(learner, SoftFittable) or isinstance(learner, Resumable):
        raise ConfigError(
            f"{type(learner).__name__} cannot learn probabilities, which this algorithm shares: use another learner"
        )
    learner.check_soft()


def check_in_turn(learner: Learner) -> None:
    """Raise ConfigError unless the learner can learn targets and then its own records, without forgetting the first."""
    if not (isinstance(learner, Distillable) and isinstance(learner, Resumable)):
        raise ConfigError(
            "a learner that is refitted each time cannot learn targets and then its own records in turn: use a "
            "network, such as that of examples/own_network"
        )


def soft_labels(learner: Learner, X: Features, num_classes: int) -> SoftVotes:
    """Probabilities ``(n, num_classes)``. Raises ConfigError where there are none, TrainingError for wrong ones."""
    found = learner.probabilities(X, num_classes) if isinstance(learner, Probabilistic) else None
    if found is None:
        check_soft(learner)
        raise ConfigError(f"{type(learner).__name__} knows no probabilities, which this algorithm shares")
    check_answered(found, model=type(learner).__name__)
    votes: SoftVotes = found.astype(np.float32)
    return np.asarray(votes / votes.sum(axis=1, keepdims=True))


def train_soft(learner: Learner, private: Examples, public: Features, targets: SoftVotes | None, weight: float) -> None:
    """One round of training at a silo: on private examples, and on public ones if there are ``targets``.

    ``targets`` ``(num_public, classes)`` are probabilities, or 0 for no target; ``weight`` is the paper's lambda.
    Raises ConfigError as ``check_soft``, DataError for targets that are no probabilities, TrainingError.
    """
    if isinstance(learner, Choosing):
        learner.choose(private)
    if targets is None or not weight or not targets.any():
        if isinstance(learner, Resumable):
            learner.advance(private, public, np.full(len(public), ABSTAIN, dtype=LABEL_DTYPE), 1.0)
        else:
            learner.fit(private.X, private.y)
        return
    check_soft(learner)
    check_probabilities(targets[targets.any(axis=1)])
    if isinstance(learner, SoftTrainable):
        learner.advance_soft(private, public, targets, weight)
        return
    learner.fit(*weighted_duplicates(private, public, targets, weight))


def train_on_values(
    learner: Learner, private: Examples, public: Features, targets: SoftVotes | None, weight: float
) -> None:
    """The same for regression, with the values ``(num_public, 1)`` of a quantity. Raises TrainingError."""
    if isinstance(learner, Choosing):
        learner.choose(private)
    if targets is None:
        learner.fit(private.X, private.y)
    else:
        learner.fit(*weighted_values(private.X, private.y, public, targets[:, 0], weight))


def weighted_duplicates(private: Examples, public: Features, targets: SoftVotes, weight: float) -> Weighted:
    """Each public example once for each class that its target gives a share, weighing as much as that.

    The sum of weighted losses is then ``n`` times the paper's objective, for the ``n`` private examples.

    >>> found = weighted_duplicates(
    ...     Examples(np.zeros((4, 1)), np.int16([0, 0, 1, 1])), np.ones((2, 1)), np.float32([[1, 0], [0.25, 0.75]]), 0.5
    ... )
    >>> found.y[4:].tolist(), found.weights[4:].tolist()
    ([0, 0, 1], [1.0, 0.25, 0.75])
    """
    rows, classes = np.nonzero(targets)
    y: HardLabels = np.concatenate([private.y, classes.astype(LABEL_DTYPE)])
    shares = targets[rows, classes].astype(np.float64)
    each = weight * private.size / np.count_nonzero(targets.any(axis=1))
    return Weighted(
        np.concatenate([private.X, public[rows]]), y, np.concatenate([np.ones(private.size), each * shares])
    )


def weighted_values(
    X: Features, y: NDArray[np.floating], public: Features, targets: NDArray[np.floating], weight: float
) -> Weighted:
    """The same for regression: each public example once, with its target ``(num_public,)`` as its value.

    >>> weighted_values(np.zeros((4, 1)), np.zeros(4), np.ones((2, 1)), np.ones(2), 0.5).weights.tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """
    each = weight * len(y) / len(targets)
    weights = np.concatenate([np.ones(len(y)), np.full(len(targets), each)])
    return Weighted(np.concatenate([X, public]), np.concatenate([y, targets]), weights)


class NumberTraining(NamedTuple):
    """Training for one kind of numbers, and answering with it."""

    train: Callable[[Learner, Examples, Features, SoftVotes | None, float], None]
    """One round of training on private examples, and on public ones if there are targets. Raises TrainingError."""
    answer: Callable[[Learner, Features, int], SoftVotes]
    """The trained learner's numbers ``(n, width)`` for examples ``(n, ...)``. Raises TrainingError."""


def _values(learner: Learner, X: Features, num_classes: int) -> SoftVotes:
    return np.asarray(learner.predict(X).astype(np.float32)[:, np.newaxis])


NUMBER_TRAINING: Final[dict[Kind, NumberTraining]] = {
    PROBABILITIES: NumberTraining(train_soft, soft_labels),
    VALUES: NumberTraining(train_on_values, _values),
}
