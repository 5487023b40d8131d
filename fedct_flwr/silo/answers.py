"""A question as a silo reads it, and its answer: the model learns what it is told, and labels the queried examples."""

import hashlib
import math
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol, Self

import numpy as np

from fedct_flwr import learners, silo, wire
from fedct_flwr.learners import Choosing, Grading, Learner, Resumable
from fedct_flwr.learners.out_of_fold import Pseudo, chosen, fit_with
from fedct_flwr.scoring import both_accuracies, r_squared
from fedct_flwr.types import (
    ABSTAIN,
    ConfigError,
    Examples,
    HardLabels,
    Refusal,
    Refused,
    Votes,
)
from fedct_flwr.wire.codec import decode_instruction
from fedct_flwr.wire.content import Fit, Instruction, Query, Scores, Terms
from fedct_flwr.wire.kinds import Kind, kind_of

if TYPE_CHECKING:
    from fedct_flwr.config.learner import LearnerSettings
    from fedct_flwr.datasets.federated import PublicSet
    from fedct_flwr.learners.safeguard import Safeguard, SoftSafeguard
    from fedct_flwr.silo.context import SiloContext

_TRIAL: Final = 50
"""Steps, rounded up to rounds, after which a network shows what the consensus does to it."""


class Question(NamedTuple):
    """A coordinator's question: its bytes, what they say, the kind of answer, and the ``digest`` (32 bytes)."""

    payload: bytes
    instruction: Instruction
    kind: Kind
    digest: bytes
    """SHA-256 of the bytes and of the noise's size."""

    @classmethod
    def asked(cls, payload: bytes, context: "SiloContext") -> Self:
        """Read a question. Raises Refused for one that is not of the silo's terms, or ConfigError."""
        instruction = decode_instruction(payload, context.site.terms)
        named = payload
        if instruction.noise and context.noise_adder_of:
            named += b" for %d honest silos" % context.noise_adder_of().honest
        return cls(payload, instruction, kind_of(instruction, context.site.terms), hashlib.sha256(named).digest())

    @property
    def teaches(self) -> bool:
        """Whether it has targets for the silo's own model."""
        return self.kind.teaches(self.instruction)

    @property
    def subject(self) -> bytes:
        """Name of a sum of the answers: SHA-256 of the bytes alone."""
        return hashlib.sha256(self.payload).digest()


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
        """The study's terms, agreed before the first message: its public set, and its classes or quantity."""


def answer(kind: Kind, tools: SiloTools, instruction: Instruction) -> Votes:
    """Train the silo's own model for a round, and answer with it.

    Raises TrainingError, ConfigError for an answer that students give, Refused (QUERY) where nothing is learned.
    """
    if kind.inner:
        return answer(kind.inner, tools, instruction)
    if not kind.own_model:
        raise ConfigError("students cast votes, not the silo's own model: ask for labels, or for votes of students")
    if kind.for_numbers:
        return silo.with_numbers(kind, tools, instruction)
    if kind.added and kind is not wire.GRADIENTS:
        raise Refused(Refusal.QUERY)
    if kind.with_soft:
        if (targets := kind.soft_targets(instruction)) is not None:
            return silo.with_shares(tools, instruction, targets)
        check_learner(kind, tools.learner)
    settings = tools.settings
    trial = math.ceil(_TRIAL / settings.local_steps)
    records = tools.private, tools.public, instruction.targets, instruction.query
    return cotrain(tools.learner, *records, settings.full_weight, tools.safeguard, trial)


def check_learner(kind: Kind, learner: Learner) -> None:
    """Raise ConfigError for a learner that cannot give such answers, or cannot learn from them."""
    if kind.by_probabilities:
        learners.check_soft(learner)


def safeguard_of(kind: Kind, tools: SiloTools) -> Any:
    """Safeguard that decides the weight of the targets; None where it is set, or where targets have no weight."""
    if isinstance(tools.learner, Grading):
        return tools.learner
    return tools.soft_safeguard if kind.for_numbers or kind.with_soft else tools.safeguard


def score(kind: Kind, learner: Learner, own: Examples, pooled: Examples) -> Scores | Fit:
    """Scores of a model on a silo's own and on the pooled test set."""
    if kind.scores is Fit:
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
        weight = safeguard.trust(learner, public.X, targets).weight
        targets = safeguard.counted(learner, public.X, targets)
    labeled = np.flatnonzero(targets != ABSTAIN) if weight else np.zeros(0, dtype=np.intp)
    fit_with(learner, private, Pseudo(chosen(public.X, labeled), targets[labeled], weight))
    # A copy: a user's own learner may change what it is given.
    return learner.predict(public.X[positions])
