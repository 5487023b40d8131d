"""Answers that are numbers, or that learn from them.

Shares of votes are the soft targets of distillation (Hinton, Vinyals, Dean, arXiv:1503.02531), made of hard labels
alone. Probabilities and values serve prediction consensus, distributed distillation and FedMD.
"""

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr import learners
from fedct_flwr.learners import Choosing, Distillable, Learner, Resumable
from fedct_flwr.silo.personal import check_learner
from fedct_flwr.silo.site import Site
from fedct_flwr.types import LABEL_DTYPE, Examples, Features, HardLabels, SoftVotes, Votes
from fedct_flwr.wire.content import Instruction, Query, Soft, SoftTargets
from fedct_flwr.wire.kinds import Kind
from fedct_flwr.wire.numbers import PROBABILITIES

if TYPE_CHECKING:
    from fedct_flwr.datasets.federated import PublicSet


_NOTHING: Final = 1.5 / 255
"""Largest difference of an example's shares that carries no information: equal votes for all classes, or none."""


def with_shares(site: Site, instruction: Instruction, targets: SoftTargets) -> HardLabels:
    """Learn the shares of the votes, and label: votes ``(query.size,)``."""
    informative = np.ptp(targets.votes, axis=1) > _NOTHING
    weight = site.settings.full_weight
    if not isinstance(site.learner, Resumable):
        # Each counts as a pseudo-labeled example does. A network's batches have a fixed number of them.
        weight *= np.count_nonzero(informative) / site.private.size
    learned = targets._replace(votes=np.where(informative[:, np.newaxis], targets.votes, 0), weight=weight)
    learning = Soft(targets=learned) if informative.any() else Soft()
    sure = with_numbers(PROBABILITIES, site, replace(instruction, soft=learning))
    labels: HardLabels = sure.argmax(axis=1).astype(LABEL_DTYPE)
    return labels


def learn_numbers(
    kind: Kind,
    learner: Learner,
    private: Examples,
    public: "PublicSet",
    targeted: Features,
    targets: SoftVotes | None,
    query: Query,
    *,
    weight: float,
    steps: int = 1,
    num_classes: int = 0,
) -> SoftVotes:
    """Train on private examples and on others' answers, then answer for the queried ones.

    ``targets`` ``(n, width)`` are the silo's own, of the public examples ``targeted`` ``(n, ...)``; None before
    there are any. The loss on them has this ``weight`` (Fan, Mendler-Dünner, Jaggi, arXiv:2305.18497, Alg. 1). With
    0, networks first learn them alone, in ``steps`` minibatches (Li, Wang, "FedMD", arXiv:1910.03581, Alg. 1).
    Returns votes ``(query.size, width)``. Raises TrainingError, or ConfigError for a learner that cannot do it.
    """
    check_learner(kind, learner)
    if targets is not None and not weight:
        learners.check_in_turn(learner)
        if isinstance(learner, Distillable):
            learner.distill(targeted, targets, steps)
        targets = None
    training = learners.NUMBER_TRAINING[kind]
    training.train(learner, private, targeted, targets, weight)
    return training.answer(learner, public.X[query.positions(len(public))], num_classes)


def with_numbers(kind: Kind, site: Site, instruction: Instruction) -> Votes:
    """Learn others' numbers, weighed by own records, and answer ``(query.size, width)``."""
    learning, public = instruction.soft or Soft(), site.public
    targets = learning.targets
    targeted = public.X[targets.query.positions(len(public)) if targets else slice(0)]
    weight = _trusted(kind, site, targeted, targets) if targets else 0.0
    return learn_numbers(
        kind,
        site.learner,
        site.private,
        public,
        targeted,
        # With weight 0 they would be learned alone, before the records; distrusted targets are not learned.
        targets.votes if targets and (weight or not targets.weight) else None,
        instruction.query,
        weight=weight,
        steps=site.settings.local_steps,
        num_classes=site.terms.num_classes,
    )


def _trusted(kind: Kind, site: Site, targeted: Features, targets: SoftTargets) -> float:
    """Weight of the targets: the coordinator's, or less where the silo's own records speak for that."""
    safeguard, weight = site.soft_safeguard, targets.weight
    if safeguard is None or not weight:
        return weight
    learner, votes, width = site.learner, targets.votes, site.terms.num_classes
    training = learners.NUMBER_TRAINING[kind]
    check_learner(kind, learner)
    if isinstance(learner, Choosing):
        learner.choose(site.private)

    def train(records: Examples, share: float) -> None:
        training.train(learner, records, targeted, votes if share else None, share * weight)

    def numbers(X: Features) -> NDArray[np.floating]:
        # Values in double precision: rounded to what travels, models of large values may look alike.
        return training.answer(learner, X, width) if width else learner.predict(X).astype(np.float64)

    digest = hashlib.sha256(repr((targets.query, weight)).encode() + votes.tobytes()).digest()
    return weight * safeguard.trust(learners.Lesson(train, numbers, digest)).weight
