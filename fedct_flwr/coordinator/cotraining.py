"""Federated co-training as a Flower strategy: the pseudo-label table takes the place of the global model.

Where the consensus has a target for each silo, silos share probabilities, and each is sent its own. The table then
holds the labels that these stand for. Where a quantity is predicted, they share its values, and so does the table.
"""

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.serverapp.strategy import Result, Strategy
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr import coordinator, secure_sum
from fedct_flwr.consensus.counting import tally
from fedct_flwr.consensus.label_matrix import label_matrix, opposed
from fedct_flwr.coordinator.questions import (
    Asking,
    Questions,
    RoundConsensus,
    Valid,
    empty_table,
    facts_of,
    no_targets,
    read_answer,
    rows_of,
)
from fedct_flwr.coordinator.study import Roster, introduce
from fedct_flwr.runs.run_folder import Checkpoint, RunFolder
from fedct_flwr.text.printable import logger
from fedct_flwr.types import Answers, Refused, RunError, SiloName, VoteCounts, Votes, generator
from fedct_flwr.wire.codec import encode_instruction
from fedct_flwr.wire.content import Instruction, Query
from fedct_flwr.wire.messages import to_record

if TYPE_CHECKING:
    from fedct_flwr.consensus.counting import Ballot, Consensus, State
    from fedct_flwr.coordinator.summing import Sums
    from fedct_flwr.wire.sums import Summed

_TARGETS: Final = "targets"

Rounds: TypeAlias = Callable[["CoTraining", "Consensus", Checkpoint, int], Iterator[Checkpoint]]
"""An algorithm's loop: silos, a rule, where the run stands and the last round's number in, each round's end out."""


def targets_to_arrays(targets: Answers) -> ArrayRecord:
    """The pseudo-label table ``(num_public,)``, or that of values, as Flower's arrays."""
    return ArrayRecord({_TARGETS: Array(targets)})


def arrays_to_targets(arrays: ArrayRecord) -> Answers:
    """Read the same table from Flower's arrays."""
    return arrays[_TARGETS].numpy()


@dataclass(frozen=True, eq=False)
class Heard:
    """The silos' answers to round ``round`` on the examples ``positions`` ``(queried,)``.

    ``votes`` are by silo; in a secure sum, each silo in it has the ``total``. ``excluded`` are silos whose labels are
    the opposite of the others', with their kappa: their votes do not count. ``answers`` has each silo's reply and its
    seconds; ``absent`` says why others sent none. ``rng`` is the round's generator, which breaks ties.
    """

    round: int
    positions: NDArray[np.int64]
    votes: Mapping[SiloName, Votes]
    total: VoteCounts | None
    excluded: Mapping[SiloName, float]
    answers: Valid
    absent: Mapping[SiloName, str]
    rng: Generator

    def decided(self, rule: "Consensus", labels: Answers, state: "State") -> tuple[Answers, "State"]:
        """The next labels ``(num_public,)``, changed where silos were asked, and the next state of the rule."""
        before, labels = labels[self.positions], labels.copy()
        if rule.of_sum and self.total is not None:
            labels[self.positions], state = rule.of_sum(self.total, before, state, self.rng)
        else:
            labels[self.positions], state = rule.apply(self.ballots, before, state, self.rng)
        return labels, state

    @property
    def ballots(self) -> "Iterator[Ballot]":
        """Votes that count, by silo."""
        return ((silo, own) for silo, own in self.votes.items() if silo not in self.excluded)


class CoTraining(Strategy):
    """Sends an algorithm's questions to the silos, receives their votes, and writes the run.

    ``rounds`` is the algorithm's loop, such as ``LabelSharing.rounds`` of ``algorithms/fedct.py``, which is handed this
    strategy as its silos. Flower's own loop, ``Strategy.start``, works too, without fixed points and resuming.

    ``start`` takes ``initial_arrays`` from ``targets_to_arrays``; ``Result.arrays`` has the final table. It ends early
    at a fixed point (the same silos voted and no label changed), and begins after a checkpoint's round if one is given.
    ``timeout`` is each round's deadline in seconds.

    ``sums`` add the answers where only their sum is asked for. ``excludes``: whether silos with opposite labels are
    left out. Not where the rule adds noise: all votes decide who is left out, so one silo would change the counts by
    more than the noise is made for.

    Raises RunError where fewer than ``min_silos`` silos answer a round or the run folder cannot be written.
    """

    def __init__(
        self,
        asking: Asking,
        roster: Roster,
        rounds: Rounds,
        *,
        min_silos: int = 2,
        sums: "Sums | None" = None,
        excludes: bool = True,
        stop_at_fixed_point: bool = True,
        folder: RunFolder | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        self._asking = asking
        self._terms = terms = asking.terms
        self._consensus = asking.consensus
        self._roster = roster
        self._rounds = rounds
        self.kind = asking.kind
        """Kind of the silos' answers."""
        self._stop_at_fixed_point = stop_at_fixed_point
        self._folder = folder
        self._rounds_done = checkpoint.round if checkpoint else 0
        self._state = checkpoint.state if checkpoint else asking.consensus.init(roster.silos)
        self._deadline = 3600.0
        self._questions = Questions(roster, min_silos)
        self._table = empty_table(self.kind, terms.num_public)
        self._instruction = Instruction(0, Query(0, 0), no_targets(terms.num_public))
        self._instruction_bytes = 0
        self._voters: frozenset[SiloName] = frozenset()
        self._unintroduced = True
        self._sums = sums
        self._excludes = excludes
        self._grid: Grid | None = None
        self._metrics = MetricRecord()
        self.fixed_point: int | None = None
        """The round in which the consensus stopped changing, if it did."""
        self._last: Heard | None = None
        if folder and checkpoint:
            self._remember(folder.rounds())

    def start(
        self,
        grid: Grid,
        initial_arrays: ArrayRecord,
        num_rounds: int = 3,
        timeout: float = 3600,
        train_config: ConfigRecord | None = None,
        evaluate_config: ConfigRecord | None = None,
        evaluate_fn: Callable[[int, ArrayRecord], MetricRecord | None] | None = None,
    ) -> Result:
        """Run the rounds. Flower's own loop can neither stop early nor begin after round 1, so this is ours."""
        self._grid, self._deadline = grid, timeout
        self.summary()
        result = Result(arrays=initial_arrays)
        if self._is_over(num_rounds):
            return result
        self._roster.wait(grid)

        def evaluate(number: int) -> None:
            if evaluate_fn and (scores := evaluate_fn(number, result.arrays)) is not None:
                result.evaluate_metrics_serverapp[number] = scores

        evaluate(self._rounds_done)
        begun = Checkpoint(self._rounds_done, arrays_to_targets(initial_arrays), self._state)
        for done in self._rounds(self, self._consensus, begun, num_rounds):
            result.arrays = targets_to_arrays(done.targets)
            result.train_metrics_clientapp[done.round] = self._metrics
            evaluate(done.round)
            if self._is_over(num_rounds):
                break
        return result

    def train_and_label(self, number: int, labels: Answers, state: "State") -> Heard:
        """Round ``number`` at all silos: each trains on the labels so far, and answers. Raises RunError.

        ``labels`` ``(num_public,)``; ``state`` is the rule's, which may have targets for each silo. ``note`` compares
        with the labels of the round before, which this strategy remembers.
        """
        if self._grid is None:
            raise RunError("silos are asked before the strategy was started")
        self._state = state
        self.configure_train(number, targets_to_arrays(labels), ConfigRecord(), self._grid)
        return self._heard(number, self._questions.receive(self._grid, self._deadline))

    def _is_over(self, num_rounds: int) -> bool:
        return self._rounds_done >= num_rounds or (self._stop_at_fixed_point and self.fixed_point is not None)

    def _remember(self, rounds: Sequence[Mapping[str, Any]]) -> None:
        """Restore from the round log what shows a fixed point."""
        self._voters = frozenset(rounds[-1]["silos"]) if rounds else frozenset()
        for record in reversed(rounds):
            if not record["fixed_point"]:
                break
            self.fixed_point = record["round"]

    def summary(self) -> None:
        """Log the plan of the rounds."""
        logger.info(
            "Co-training %r: %s silos, %s public examples (%s a round), %s, public set %s",
            self._terms.study, len(self._roster.silos), self._terms.num_public, self._asking.query_size,
            self._terms.quantity or f"{self._terms.num_classes} classes", self._terms.public_fingerprint.hex()[:16],
        )  # fmt: skip

    def configure_train(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """One instruction for all nodes on the roster that are there now, or for each its own."""
        self._table = arrays_to_targets(arrays)
        # After a resume, nodes have no names yet, and each silo goes on with its own targets.
        if self.kind.for_numbers and self._unintroduced and server_round > 1:
            introduce(grid, self._roster, self._deadline)
        self._unintroduced = False
        self._grid = grid
        self._instruction = self._asking.instruction(server_round, self._table, self._state)
        self._instruction_bytes = 0
        question = partial(self._question, for_all=self._record_of(self._instruction))
        return self._questions.ask(grid, question, server_round, self._deadline)

    def _question(self, silo: SiloName, for_all: RecordDict) -> RecordDict:
        own = self._asking.own(self._instruction, self._state, silo)
        return self._record_of(own) if own else for_all

    def _record_of(self, instruction: Instruction) -> RecordDict:
        payload = encode_instruction(instruction, self._terms)
        self._instruction_bytes = max(self._instruction_bytes, len(payload))
        return to_record(payload)

    def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple[ArrayRecord, MetricRecord]:
        """Refuse what does not answer, form the consensus of the rest, write the checkpoint: for Flower's own loop."""
        heard = self._heard(server_round, replies)
        done = self.note(heard, *heard.decided(self._consensus, self._table, self._state))
        return targets_to_arrays(done.targets), self._metrics

    def _heard(self, server_round: int, replies: Iterable[Message]) -> Heard:
        """Answers to this round's question. Raises RunError where too few silos answer."""
        read = partial(read_answer, terms=self._terms, instruction=self._instruction)
        valid, absent = self._questions.sort(server_round, replies, read)
        positions = self._instruction.query.positions(self._terms.num_public)
        total: VoteCounts | None = None
        excluded: Mapping[SiloName, float] = {}
        votes: Mapping[SiloName, Votes]
        if self._sums and self._consensus.of_sum:
            total, added = self._added(self._sums, valid, server_round)
            for silo in valid.keys() - added.keys():
                absent[silo] = coordinator.NOT_IN_SUM
                logger.warning("Round %s: without %s: %s", server_round, silo, coordinator.NOT_IN_SUM)
            valid, votes = added, dict.fromkeys(added, total)
        else:
            votes = {silo: answer.votes for silo, (answer, _) in valid.items()}
            excluded = self._opposed(server_round, votes, len(positions)) if self._excludes else {}
        rng = generator(self._asking.seed, "consensus", server_round)
        return Heard(server_round, positions, votes, total, excluded, valid, absent, rng)

    def note(self, heard: Heard, labels: Answers, state: "State") -> Checkpoint:
        """Append the round to the run's log and save a checkpoint; ``state`` is the consensus rule's after the round.

        Raises RunError if a file cannot be written.
        """
        incumbent, decided = self._table[heard.positions], labels[heard.positions]
        # Targets that are numbers may move where labels stay.
        numbers = self._consensus.targets or self._consensus.alike
        moved = (decided != incumbent).any() or not (numbers is None or _same(self._state, state))
        self._note_fixed_point(heard.round, bool(moved), frozenset(heard.answers), len(decided))
        self._last = heard
        self._table, self._state = labels, state

        scores = [answer.scores for answer, _ in heard.answers.values()]
        facts = facts_of(self.kind, heard.votes, scores, RoundConsensus(decided, incumbent, labels), self._terms)
        record = {
            "round": heard.round,
            "seconds": round(time.time() - self._questions.asked_at, 3),
            "queried": len(decided),
            **facts.of_round,
            "instruction_bytes": self._instruction_bytes,
            "bytes_sent": sum(answer.size for answer, _ in heard.answers.values()),
            "silos": rows_of(heard.answers, facts.of_silos, self._consensus.report(self._state)),
            "absent": heard.absent,
            "fixed_point": self.fixed_point is not None,
            **facts.younger,
            **({"opposed": heard.excluded} if heard.excluded else {}),
        }
        logger.info(
            "Round %s: %s silos, %s, %s bytes received%s",
            heard.round, len(heard.answers), facts.message, record["bytes_sent"],
            " - fixed point" if record["fixed_point"] else "",
        )  # fmt: skip
        done = Checkpoint(heard.round, labels, state)
        if self._folder:
            # First, so that readers of a round's record find its trust too.
            if self._consensus.trust:
                self._folder.append_trust(heard.round, self._consensus.trust(state))
            self._folder.append_round(record)
            self._folder.save_checkpoint(done)
        self._rounds_done = heard.round
        measures = {name: facts.of_round[name] for name in facts.metrics}
        self._metrics = MetricRecord({"silos": len(heard.answers), **measures, "bytes-sent": record["bytes_sent"]})
        return done

    @property
    def certificate(self) -> dict[str, int]:
        """Labels of the last round, and how many of them 1 and 2 lying silos cannot change; empty if unknown."""
        certify, heard = self._consensus.certify, self._last
        if certify is None or heard is None:
            return {}
        counts = heard.total
        if counts is None:
            votes = (own for _, own in heard.ballots)
            counts = tally(votes, len(heard.positions), self._terms.num_classes)
        found = {str(liars): int(certify(counts, liars).sum()) for liars in (1, 2)}
        return {**found, "labels": len(counts)}

    def _added(self, sums: "Sums", ready: Valid, server_round: int) -> tuple[VoteCounts, Valid]:
        """The sum of the answers of silos that are ready, and what is known of those whose answers are in it."""
        if self._grid is None:
            raise RunError("answers are added before anybody was asked")
        subject = hashlib.sha256(encode_instruction(self._instruction, self._terms)).digest()
        kind = cast("Summed", self.kind)
        shape = secure_sum.shape_of_votes(kind, self._instruction, self._terms, subject)
        total, added = sums.sum(self._grid, shape, ready, server_round, self._deadline)
        try:
            return coordinator.opened(kind, total, self._instruction, self._terms, len(added), sums.honest), added
        except Refused:
            raise RunError(
                f"round {server_round} has a secure sum that {len(added)} silos' {kind.inner.name} cannot add up to: "
                "a silo breaks the protocol, and the sum does not show which; ask them, then go on with --resume"
            ) from None

    def _opposed(self, server_round: int, votes: Mapping[SiloName, Any], asked: int) -> dict[SiloName, float]:
        """Silos whose labels seem to be swapped, and their agreement with the others; each is warned of."""
        if not self.kind.one_label:
            return {}
        found = opposed(label_matrix(votes.items(), asked, self._terms.num_classes))
        for silo, kappa in found.items():
            logger.warning(
                "Round %s: the labels of silo %s are the opposite of the others' (kappa %.2f), and count nothing: ask "
                "it which class is which",
                server_round, silo, kappa,
            )  # fmt: skip
        return found

    def _note_fixed_point(self, server_round: int, changed: bool, voters: frozenset[SiloName], asked: int) -> None:
        """Note whether the same silos voted on the whole public set and no target changed."""
        if changed or voters != self._voters or asked < self._terms.num_public:
            self.fixed_point = None
        elif self.fixed_point is None:
            self.fixed_point = server_round
        self._voters = voters

    def configure_evaluate(
        self, server_round: int, arrays: ArrayRecord, config: ConfigRecord, grid: Grid
    ) -> list[Message]:
        """Asks no silo: what a silo is willing to tell travels on its reply."""
        return []

    def aggregate_evaluate(self, server_round: int, replies: Iterable[Message]) -> None:
        """There is nothing to aggregate."""


def _same(state: "State", other: "State") -> bool:
    return all(np.array_equal(value, other[name], equal_nan=value.dtype.kind == "f") for name, value in state.items())
