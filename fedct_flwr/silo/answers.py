"""Making of a silo's answer: its model learns what the instruction tells it, and labels the queried examples.

Shares of votes are the soft targets of distillation (Hinton, Vinyals, Dean, arXiv:1503.02531), made of hard labels
alone. Probabilities and values serve prediction consensus, distributed distillation and FedMD.
"""

import hashlib
import math
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np

from fedct_flwr import learners, wire
from fedct_flwr.learners.base import Choosing, Distillable, Grading, Learner, Resumable
from fedct_flwr.learners.out_of_fold import Pseudo, chosen, fit_with
from fedct_flwr.scoring import both_accuracies, r_squared
from fedct_flwr.types import (
    ABSTAIN,
    LABEL_DTYPE,
    ConfigError,
    Examples,
    Features,
    HardLabels,
    Refusal,
    Refused,
    SoftVotes,
    Votes,
)
from fedct_flwr.wire.content import Fit, Instruction, Query, Scores, Soft, SoftTargets, Terms
from fedct_flwr.wire.kinds import (
    BY_PROBABILITIES,
    PROBABILITIES,
    SHARES,
    VALUES,
    Kind,
    Numbers,
    Shares,
)

if TYPE_CHECKING:
    from fedct_flwr.config.learner import LearnerSettings
    from fedct_flwr.datasets.federated import PublicSet
    from fedct_flwr.learners.safeguard import Safeguard, SoftSafeguard

_TRIAL: Final = 50
"""Steps, rounded up to rounds, after which a network shows what the consensus does to it."""
_NOTHING: Final = 1.5 / 255
"""Largest difference of an example's shares that carries no information: equal votes for all classes, or none."""


class SiloTools(Protocol):
    """A silo's tools for answering a question."""

    @property
    def learner(self) -> Learner:
        """The personal model."""

    @property
    def private(self) -> Examples:
        """The silo's own records."""

    @property
    def public(self) -> "PublicSet":
        """Its copy of the public set."""

    @property
    def safeguard(self) -> "Safeguard | None":
        """Decides the weight of other silos' labels; None where the weight is set."""

    @property
    def soft_safeguard(self) -> "SoftSafeguard | None":
        """Decides the weight of others' probabilities or values; None where it is set, or where they have no weight."""

    @property
    def settings(self) -> "LearnerSettings":
        """Settings of the personal model's training."""

    @property
    def terms(self) -> Terms:
        """The terms that the silo has agreed to."""


def answer(kind: Kind, tools: SiloTools, instruction: Instruction) -> Votes:
    """Train the silo's own model for a round, and answer with it.

    Raises TrainingError, ConfigError for an answer that students give, Refused (QUERY) where nothing is learned.
    """
    if kind.inner:
        return answer(kind.inner, tools, instruction)
    if not kind.own_model:
        raise ConfigError("students cast votes, not the silo's own model: ask for labels, or for votes of students")
    if isinstance(kind, Numbers):
        return _with_numbers(kind, tools, instruction)
    if kind.added and kind is not wire.GRADIENTS:
        raise Refused(Refusal.QUERY)
    if kind is SHARES:
        targets = SHARES.soft_targets(instruction)
        if targets is not None:
            return _with_shares(tools, instruction, targets)
        check_learner(kind, tools.learner)
    settings = tools.settings
    trial = math.ceil(_TRIAL / settings.local_steps)
    records = tools.private, tools.public, instruction.targets, instruction.query
    return cotrain(tools.learner, *records, settings.full_weight, tools.safeguard, trial)


def check_learner(kind: Kind, learner: Learner) -> None:
    """Raise ConfigError for a learner that cannot give such answers, or cannot learn from them."""
    if kind in BY_PROBABILITIES:
        learners.check_soft(learner)


def safeguard_of(kind: Kind, tools: SiloTools) -> Any:
    """Safeguard that decides the weight of the targets; None where it is set, or where targets have no weight."""
    if isinstance(tools.learner, Grading):
        return tools.learner
    return tools.soft_safeguard if isinstance(kind, Numbers | Shares) else tools.safeguard


def score(kind: Kind, learner: Learner, own: Examples, pooled: Examples) -> Scores | Fit:
    """Scores of a model on a silo's own and on the pooled test set."""
    if kind is VALUES:
        return Fit(r_squared(learner, own), r_squared(learner, pooled))
    return Scores(*both_accuracies(learner, own), *both_accuracies(learner, pooled))


def cotrain(
    learner: Learner,
    private: Examples,
    public: "PublicSet",
    targets: HardLabels,
    query: Query,
    pseudo_weight: float = 1.0,
    safeguard: "Safeguard | None" = None,
    trial: int = 1,
) -> HardLabels:
    """Train on private and pseudo-labeled examples, then label the queried ones: votes ``(query.size,)``.

    ``targets`` ``(num_public,)`` are the consensus labels, or ABSTAIN. A pseudo-labeled example weighs
    ``pseudo_weight``, a private one 1, unless a ``safeguard`` decides: of a learner that trains on, after ``trial``
    rounds of what the consensus does to it. Raises TrainingError (Abourayya et al., arXiv:2310.05696, Alg. 1).
    """
    positions = query.positions(len(public))
    if isinstance(learner, Choosing):
        learner.choose(private)
    if isinstance(learner, Grading):
        return learner.grade(private, public.X, targets, positions)
    if isinstance(learner, Resumable):
        if isinstance(safeguard, learners.NetworkSafeguard):
            trust = safeguard.weigh(learner, public.X, targets, trial)
            private, pseudo_weight = safeguard.training, trust.weight or pseudo_weight
            targets = targets if trust.weight else np.full_like(targets, ABSTAIN)
        learner.advance(private, public.X, targets, pseudo_weight)
        return learner.label(public.X, positions)
    weight = pseudo_weight
    if safeguard:
        trust = safeguard.trust(learner, public.X, targets)
        weight, targets = trust.weight, safeguard.counted(trust, targets)
    labeled = np.flatnonzero(targets != ABSTAIN) if weight else np.zeros(0, dtype=np.intp)
    fit_with(learner, private, Pseudo(chosen(public.X, labeled), targets[labeled], weight))
    # A copy: a user's own learner may change what it is given.
    return learner.predict(public.X[positions])


def _with_shares(tools: SiloTools, instruction: Instruction, targets: SoftTargets) -> HardLabels:
    """Learn the shares of the votes, and label: votes ``(query.size,)``."""
    informative = np.ptp(targets.votes, axis=1) > _NOTHING
    weight = tools.settings.full_weight
    if not isinstance(tools.learner, Resumable):
        # Each counts as a pseudo-labeled example does. A network's batches have a fixed number of them.
        weight *= np.count_nonzero(informative) / tools.private.size
    learned = targets._replace(votes=np.where(informative[:, np.newaxis], targets.votes, 0), weight=weight)
    learning = Soft(targets=learned) if informative.any() else Soft()
    sure = answer(PROBABILITIES, tools, replace(instruction, soft=learning))
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
    course = learners.COURSES[kind]
    course.train(learner, private, targeted, targets, weight)
    return course.answer(learner, public.X[query.positions(len(public))], num_classes)


def _with_numbers(kind: Kind, tools: SiloTools, instruction: Instruction) -> Votes:
    learning, public = instruction.soft or Soft(), tools.public
    targets = learning.targets
    targeted = public.X[targets.query.positions(len(public)) if targets else slice(0)]
    weight = _trusted(kind, tools, targeted, targets) if targets else 0.0
    return learn_numbers(
        kind,
        tools.learner,
        tools.private,
        public,
        targeted,
        # With weight 0 they would be learned alone, before the records; distrusted targets are not learned.
        targets.votes if targets and (weight or not targets.weight) else None,
        instruction.query,
        weight=weight,
        steps=tools.settings.local_steps,
        num_classes=tools.terms.num_classes,
    )


def _trusted(kind: Kind, tools: SiloTools, targeted: Features, targets: SoftTargets) -> float:
    """Weight of the targets: the coordinator's, or less where the silo's own records speak for that."""
    safeguard, weight = tools.soft_safeguard, targets.weight
    if safeguard is None or not weight:
        return weight
    learner, votes, width, course = tools.learner, targets.votes, tools.terms.num_classes, learners.COURSES[kind]
    check_learner(kind, learner)
    if isinstance(learner, Choosing):
        learner.choose(tools.private)

    def train(records: Examples, share: float) -> None:
        course.train(learner, records, targeted, votes if share else None, share * weight)

    def numbers(X: Features) -> SoftVotes:
        found = course.answer(learner, X, width)
        return found if width else found[:, 0]

    digest = hashlib.sha256(repr((targets.query, weight)).encode() + votes.tobytes()).digest()
    return weight * safeguard.trust(learners.Lesson(train, numbers, digest)).weight
