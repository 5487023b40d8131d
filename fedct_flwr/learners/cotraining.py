"""One co-training round at a silo. Knows nothing of Flower."""

import numpy as np

from fedct_flwr.datasets.public_set import PublicSet, Query
from fedct_flwr.learners.base import Learner, Resumable
from fedct_flwr.types import ABSTAIN, Examples, HardLabels


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
