"""Numbers for each public example: how likely each class is, or the value of a quantity where there are no classes.

For prediction consensus, distributed distillation and FedMD.
"""

import hashlib
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from typing import ClassVar, Final

import numpy as np

from fedct_flwr.consensus.label_matrix import agreed
from fedct_flwr.datasets.federated import PublicSet, Query
from fedct_flwr.kinds.base import (
    CLASSES,
    DISTANCE,
    Cost,
    Decided,
    Decision,
    Facts,
    Kind,
    Near,
    SiloTools,
    facts_of_values,
)
from fedct_flwr.learners.base import Choosing, Distillable, Learner
from fedct_flwr.learners.safeguard import Lesson, Safeguard, SoftSafeguard
from fedct_flwr.learners.soft import check_in_turn, check_soft, soft_labels, train_on_values, train_soft
from fedct_flwr.scoring import r_squared
from fedct_flwr.types import ABSTAIN, Answers, ConfigError, Examples, Features, HardLabels, SiloName, SoftVotes, Votes
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Fit, Instruction, Scores, Soft, SoftTargets, Terms
from fedct_flwr.wire.packing import (
    pack_probabilities,
    pack_values,
    unpack_probabilities,
    unpack_values,
)
from fedct_flwr.wire.refusal import Refusal, Refused

MAX_WEIGHT: Final = 1e6
_IN_TURN: Final = 1.0
"""Weight of targets of weight 0: they are learned alone, in as many steps as the records after them."""


class Targeted(Kind):
    """Numbers ``(examples, width)``, see ``Terms.width``. Each silo learns a mix of its own of all silos' numbers."""

    policy: ClassVar[str] = "soft"
    learns_labels: ClassVar[bool] = False
    own_targets: ClassVar[bool] = True
    decided: ClassVar[Decided] = CLASSES
    for_numbers: ClassVar[bool] = True
    targets_field: ClassVar[str]
    """The field of an instruction's ``soft`` that holds targets."""

    pack: ClassVar["staticmethod[[SoftVotes, Terms], bytes]"]
    """The one encoding of rows ``(n, width)``. Raises Refused."""
    unpack: ClassVar["staticmethod[[bytes, int, Terms], SoftVotes]"]
    """The rows ``(count, width)`` that ``pack`` wrote. Raises Refused for anything else."""
    train: ClassVar["staticmethod[[Learner, Examples, Features, SoftVotes | None, float], None]"]
    """One round of training on private examples, and on public ones if there are targets. Raises TrainingError."""

    @abstractmethod
    def answer(self, learner: Learner, X: Features, num_classes: int) -> SoftVotes:
        """The trained learner's probabilities ``(n, width)`` for examples ``(n, ...)``. Raises TrainingError."""

    def learn(
        self,
        learner: Learner,
        private: Examples,
        public: PublicSet,
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
        self.check_learner(learner)
        if targets is not None and not weight:
            check_in_turn(learner)
            if isinstance(learner, Distillable):
                learner.distill(targeted, targets, steps)
            targets = None
        self.train(learner, private, targeted, targets, weight)
        return self.answer(learner, public.X[query.positions(len(public))], num_classes)

    def cotrain(self, tools: SiloTools, instruction: Instruction) -> Votes:
        learning, public = instruction.soft or Soft(), tools.public
        targets = learning.targets
        targeted = public.X[targets.query.positions(len(public)) if targets else slice(0)]
        weight = self._trusted(tools, targeted, targets) if targets else 0.0
        return self.learn(
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

    def _trusted(self, tools: SiloTools, targeted: Features, targets: SoftTargets) -> float:
        """Weight of the targets: the coordinator's, or less where the silo's own records speak for that."""
        safeguard, weight = tools.soft_safeguard, targets.weight
        if safeguard is None or not weight:
            return weight
        learner, votes, width = tools.learner, targets.votes, tools.terms.num_classes
        self.check_learner(learner)
        if isinstance(learner, Choosing):
            learner.choose(tools.private)

        def train(records: Examples, share: float) -> None:
            self.train(learner, records, targeted, votes if share else None, share * weight)

        def answer(X: Features) -> SoftVotes:
            found = self.answer(learner, X, width)
            return found if width else found[:, 0]

        digest = hashlib.sha256(repr((targets.query, weight)).encode() + votes.tobytes()).digest()
        return weight * safeguard.trust(Lesson(train, answer, digest)).weight

    def question(self, number: int, query: Query, targets: HardLabels, votes: int, learning: Soft) -> Instruction:
        return Instruction(number, query, np.full_like(targets, ABSTAIN), soft=learning)

    def cost(self, instruction: Instruction, terms: Terms) -> Cost:
        learning = instruction.soft or Soft()
        weight = (learning.targets.weight or _IN_TURN) if learning.targets else 0.0
        return Cost(instruction.query.size * terms.width, weight)

    def longest(self, count: int, votes: int, terms: Terms) -> Votes:
        rows = np.zeros((count, terms.width), dtype=np.float32)
        rows[:, 0] = 1
        return rows

    def put(self, votes: Votes, message: labels_pb2.Reply, terms: Terms) -> None:
        """Packed. Raises Refused, as ``pack``, or for rows of another width (UNKNOWN_CLASS)."""
        if votes.shape[1] != terms.width:
            raise Refused(Refusal.UNKNOWN_CLASS)
        self._put(votes, message, self.field, terms)

    def take(self, message: labels_pb2.Reply, instruction: Instruction, terms: Terms) -> Votes:
        """Rows ``(query.size, width)``."""
        return self._take(message, self.field, instruction.query.size, terms)

    def soft_targets(self, instruction: Instruction) -> SoftTargets | None:
        return (instruction.soft or Soft()).targets

    def teaches(self, instruction: Instruction) -> bool:
        return self.soft_targets(instruction) is not None

    def safeguard_of(self, tools: SiloTools) -> Safeguard | SoftSafeguard | None:
        return tools.soft_safeguard

    def put_learning(self, instruction: Instruction, message: labels_pb2.Instruction, terms: Terms) -> None:
        learning = instruction.soft or Soft()
        message.soft.SetInParent()
        if learning.targets:
            query, votes, message.soft.weight = learning.targets
            message.soft.targeted.CopyFrom(labels_pb2.Query(seed=query.seed, size=query.size))
            self._put(votes, message.soft, self.targets_field, terms)

    def take_learning(self, message: labels_pb2.Instruction, terms: Terms) -> Soft | None:
        """How to train, within bounds. Raises Refused."""
        soft = message.soft
        if message.votes or message.HasField("targets"):
            raise Refused(Refusal.MALFORMED)
        if not soft.HasField("targeted"):
            return Soft()
        if not 1 <= soft.targeted.size <= terms.num_public:
            raise Refused(Refusal.QUERY)
        if not 0 <= soft.weight <= MAX_WEIGHT:
            raise Refused(Refusal.MALFORMED)
        votes = self._take(soft, self.targets_field, soft.targeted.size, terms)
        query = Query(soft.targeted.seed, soft.targeted.size)
        # One zero: the other one would be another encoding.
        return Soft(SoftTargets(query, votes, soft.weight + 0.0))

    def check_protection(self, protection: str) -> None:
        """Raise ConfigError: no protection covers numbers."""
        raise ConfigError(f"the coordinator asks for {self.of}, which protection = {protection!r} does not cover")

    def _put(self, votes: SoftVotes, message: labels_pb2.Reply | labels_pb2.Soft, field: str, terms: Terms) -> None:
        getattr(message, field).packed = self.pack(votes, terms)
        getattr(message, field).count = len(votes)

    def _take(self, message: labels_pb2.Reply | labels_pb2.Soft, field: str, count: int, terms: Terms) -> SoftVotes:
        found = getattr(message, field)
        # The count is only compared, never believed: memory follows what was asked for, not what a message claims.
        if found.count != count:
            raise Refused(Refusal.LENGTH)
        return self.unpack(found.packed, count, terms)


class Probabilities(Targeted):
    """Probabilities ``(examples, classes)``, rows sum to 1."""

    name: ClassVar[str] = "probabilities"
    of: ClassVar[str] = "probabilities"
    field: ClassVar[str] = "probabilities"
    targets_field: ClassVar[str] = "targets"
    shared: ClassVar[str] = "probabilities of the classes of public examples"
    unprotected: ClassVar[str] = (
        "the labels were made of the probabilities that the silos' own models give, without noise"
    )
    leaves: ClassVar[str] = "probabilities: one for each class of each public example that is asked about"
    # A policy has one name for both, and a status does not read the study.
    in_short: ClassVar[str] = "probabilities or values, each counted as a label"
    beware: ClassVar[str] = (
        "Probabilities tell more than labels: how sure the model is of each public example, and so how near to its "
        "records that is. The coordinator mixes them into what each other silo learns, and with few silos these can "
        "work out much of them, with two all. No protection under [privacy] covers them. Each class's probability "
        "counts as a label towards the limits"
    )

    pack = staticmethod(lambda votes, terms: pack_probabilities(votes))
    unpack = staticmethod(lambda packed, count, terms: unpack_probabilities(packed, count, terms.num_classes))
    check_learner = staticmethod(check_soft)
    train = staticmethod(train_soft)
    answer = staticmethod(soft_labels)

    def agreed(self, votes: Votes, decided: HardLabels) -> float:
        return agreed(votes.argmax(axis=1), decided)


PROBABILITIES: Final = Probabilities()


class Values(Targeted):
    """Values ``(examples, 1)``."""

    name: ClassVar[str] = "values"
    of: ClassVar[str] = "values"
    field: ClassVar[str] = "values"
    targets_field: ClassVar[str] = "values"
    scores: ClassVar[type[Scores] | type[Fit]] = Fit
    labels: ClassVar[bool] = False
    near: ClassVar[Near] = DISTANCE
    shared: ClassVar[str] = "predicted values of public examples"
    leaves: ClassVar[str] = "values: one number for each public example asked about, rounded to the study's grid"
    in_short: ClassVar[str] = Probabilities.in_short
    beware: ClassVar[str] = (
        "A value tells more than a class does: it is one of as many as the grid has, and can show how near an example "
        "is to a record. The coordinator mixes values into what each other silo learns. No protection under [privacy] "
        "covers them. Each counts as a label towards the limits"
    )

    def fits(self, quantity: str) -> bool:
        return bool(quantity)

    pack = staticmethod(lambda votes, terms: pack_values(votes, terms.grid))
    unpack = staticmethod(lambda packed, count, terms: unpack_values(packed, count, terms.grid))
    train = staticmethod(train_on_values)

    def answer(self, learner: Learner, X: Features, num_classes: int) -> SoftVotes:
        values: SoftVotes = learner.predict(X).astype(np.float32)[:, np.newaxis]
        return values

    def score(self, learner: Learner, own: Examples, pooled: Examples) -> Scores | Fit:
        return Fit(r_squared(learner, own), r_squared(learner, pooled))

    def facts(
        self, votes: Mapping[SiloName, Votes], scores: Iterable[Scores | Fit | None], decision: Decision, terms: Terms
    ) -> Facts:
        return facts_of_values(votes, decision)

    def empty_table(self, num_public: int) -> Answers:
        return np.full(num_public, np.nan, dtype=np.float32)

    def predicted(self, terms: Terms) -> str:
        return terms.quantity


VALUES: Final = Values()
