"""One co-training round at a silo. Knows nothing of Flower."""

import numpy as np

from fedct_flwr.datasets.public_set import PublicSet, Query
from fedct_flwr.learners.base import Distillable, Learner, Resumable
from fedct_flwr.learners.soft import check_in_turn, check_soft, soft_labels, train_soft, weighted_values
from fedct_flwr.types import ABSTAIN, Examples, Features, HardLabels, SoftVotes


def cotrain(
    learner: Learner,
    private: Examples,
    public: PublicSet,
    targets: HardLabels,
    query: Query,
    pseudo_weight: float = 1.0,
) -> HardLabels:
    """Train on private and pseudo-labeled examples, then label the queried ones.

    ``targets`` ``(num_public,)`` are the consensus labels; where they abstain, the example is not used. A
    pseudo-labeled example weighs ``pseudo_weight``, a private one 1. Learners that can train on from the round
    before do so. Returns votes ``(query.size,)``. Raises TrainingError (Abourayya et al., arXiv:2310.05696, Alg. 1).
    """
    positions = query.positions(len(public))
    if isinstance(learner, Resumable):
        learner.advance(private, public.X, targets, pseudo_weight)
        return learner.label(public.X, positions)
    labeled = np.flatnonzero(targets != ABSTAIN)
    X = np.concatenate([private.X, public.X[labeled]])
    y = np.concatenate([private.y, targets[labeled]])
    weights = None
    if pseudo_weight != 1.0 and len(labeled):
        weights = np.concatenate([np.ones(private.size), np.full(len(labeled), pseudo_weight)])
    learner.fit(X, y, sample_weight=weights)
    return learner.predict(public.X[positions])


def cotrain_softly(
    learner: Learner,
    private: Examples,
    public: PublicSet,
    targeted: Features,
    targets: SoftVotes | None,
    query: Query,
    *,
    weight: float,
    rounds: int,
    steps: int,
    num_classes: int,
) -> SoftVotes:
    """Train on private examples and on others' probabilities, then tell those of the queried ones.

    ``targets`` ``(n, classes)`` are the silo's own, of the public examples ``targeted`` ``(n, ...)``; None before there
    are any. The loss on them counts ``weight`` beside that on private examples (Fan, Mendler-Dünner, Jaggi,
    arXiv:2305.18497, Alg. 1); with 0, networks first learn them alone, in so many minibatch ``steps``, and then the
    private examples (Li, Wang, "FedMD", arXiv:1910.03581, Alg. 1: digest and revisit). Learners that can train on from
    the round before do so, for so many ``rounds``; others give the same after one. Returns votes
    ``(query.size, classes)``. Raises TrainingError, or ConfigError for a learner that cannot do it.
    """
    check_soft(learner)
    if targets is not None and not weight:
        check_in_turn(learner)
        if isinstance(learner, Distillable):
            learner.distill(targeted, targets, steps)
        targets = None
    for _ in range(rounds if isinstance(learner, Resumable) else 1):
        train_soft(learner, private, targeted, targets, weight)
    return soft_labels(learner, public.X[query.positions(len(public))], num_classes)


def cotrain_on_values(
    learner: Learner,
    private: Examples,
    public: PublicSet,
    targeted: Features,
    targets: SoftVotes | None,
    query: Query,
    *,
    weight: float,
) -> SoftVotes:
    """``cotrain_softly`` for a quantity: train on private examples and others' values, then predict the queried ones.

    ``targets`` ``(n, 1)`` are the silo's own, of the public examples ``targeted`` ``(n, ...)``; None before there are
    any. The squared error on them counts ``weight`` beside that on private examples. Returns votes ``(query.size, 1)``.
    Raises TrainingError, or ConfigError for weight 0: no such learner learns targets first and then its own records.
    """
    X, y = private
    if targets is not None and not weight:
        check_in_turn(learner)
    if targets is None:
        learner.fit(X, y)
    else:
        learner.fit(*weighted_values(X, y, targeted, targets[:, 0], weight))
    votes: SoftVotes = learner.predict(public.X[query.positions(len(public))]).astype(np.float32)[:, np.newaxis]
    return votes
