"""One co-training round at a silo. Knows nothing of Flower."""

import numpy as np

from fedct_flwr.datasets.public_set import PublicSet, Query
from fedct_flwr.learners.base import Choosing, Learner, Resumable
from fedct_flwr.learners.guard import Guard
from fedct_flwr.learners.out_of_fold import Pseudo, chosen, fit_with
from fedct_flwr.types import ABSTAIN, Examples, HardLabels


def cotrain(
    learner: Learner,
    private: Examples,
    public: PublicSet,
    targets: HardLabels,
    query: Query,
    pseudo_weight: float = 1.0,
    guard: Guard | None = None,
) -> HardLabels:
    """Train on private and pseudo-labeled examples, then label the queried ones: votes ``(query.size,)``.

    ``targets`` ``(num_public,)`` are the consensus labels, or ABSTAIN. A pseudo-labeled example weighs
    ``pseudo_weight``, a private one 1, unless a ``guard`` decides. Resumable learners train on, at ``pseudo_weight``.
    Raises TrainingError (Abourayya et al., arXiv:2310.05696, Alg. 1).
    """
    positions = query.positions(len(public))
    if isinstance(learner, Choosing):
        learner.choose(private)
    if isinstance(learner, Resumable):
        learner.advance(private, public.X, targets, pseudo_weight)
        return learner.label(public.X, positions)
    weight = pseudo_weight
    if guard:
        trust = guard.trust(learner, public.X, targets)
        weight, targets = trust.weight, guard.counted(trust, targets)
    labeled = np.flatnonzero(targets != ABSTAIN) if weight else np.zeros(0, dtype=np.intp)
    fit_with(learner, private, Pseudo(chosen(public.X, labeled), targets[labeled], weight))
    # A copy: a user's own learner may change what it is given.
    return learner.predict(public.X[positions])
