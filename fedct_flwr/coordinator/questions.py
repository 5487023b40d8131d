"""The question of a round, one message to each node, the replies by silo, and the facts of the round for its log.

All silos are asked the same, or each with targets of its own. ``Questions`` is shared by all strategies, whatever they
send and read.
"""

import math
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeAlias, TypeVar

import numpy as np
from flwr.app import DEFAULT_TTL, Message, RecordDict
from flwr.serverapp import Grid
from numpy.typing import NDArray

from fedct_flwr import wire
from fedct_flwr.consensus.label_matrix import agreed, counts_agreed
from fedct_flwr.flower.grid import ErrorCode, seconds_of
from fedct_flwr.text.printable import logger
from fedct_flwr.types import (
    ABSTAIN,
    LABEL_DTYPE,
    Answers,
    HardLabels,
    Refusal,
    Refused,
    RunError,
    SiloName,
    SoftVotes,
    Votes,
    seed_words,
)
from fedct_flwr.wire.codec import decode_reply
from fedct_flwr.wire.content import Fit, Instruction, Query, Scores, Soft, SoftTargets, Terms
from fedct_flwr.wire.kinds import COUNTS, Kind, kind_by
from fedct_flwr.wire.messages import from_record

if TYPE_CHECKING:
    from fedct_flwr.consensus.counting import Consensus, State
    from fedct_flwr.coordinator.study import Roster


# Flower passes an exception's text on verbatim, and that may quote data: only the codes are read.
_ERRORS: Final[dict[int, str]] = {
    ErrorCode.LOAD_CLIENT_APP_EXCEPTION: "the silo could not load its app; see the log at the silo",
    ErrorCode.CLIENT_APP_RAISED_EXCEPTION: "the silo's app failed; see the log at the silo",
    ErrorCode.MESSAGE_UNAVAILABLE: "the message expired before the silo replied",
    ErrorCode.REPLY_MESSAGE_UNAVAILABLE: "the message expired before the silo replied",
    ErrorCode.NODE_UNAVAILABLE: "the silo's node went offline",
    ErrorCode.CLIENT_APP_CRASHED: "the silo's agent ended before it had replied; see the log at the silo",
    ErrorCode.UNREADABLE: "what it sent is no reply to its question",
}
_OTHER_ERROR: Final = "Flower could not deliver the message or its reply"
_SILENT: Final = "no reply within the deadline"
_BUSY: Final = "no reply yet to an earlier round; it still works, or its agent is down"

_T = TypeVar("_T")


class _Owed(NamedTuple):
    """A message without a reply so far: to which node, and when it was sent (seconds since the epoch)."""

    node_id: int
    sent_at: float


class Questions:
    """Asks the nodes on the roster, but none that still works on the question of an earlier round.

    A node is busy until its reply comes, Flower says that none will come, or it has restarted. To give it more
    work meanwhile would only pile up; in a simulation it would take a second worker away from the others.
    """

    def __init__(self, roster: "Roster", min_silos: int) -> None:
        self._roster = roster
        self._min_silos = min_silos
        self._messages: list[Message] = []
        self._busy: frozenset[int] = frozenset()
        self._owed: dict[str, _Owed] = {}
        self._absent: dict[str, str] = {}
        self.asked_at = 0.0
        """When the last question was asked, in seconds since the epoch."""

    def ask(
        self, grid: Grid, content: Callable[[SiloName], RecordDict], server_round: int, deadline: float
    ) -> list[Message]:
        """The round's question to every node that is there and not busy, for Flower to send.

        ``content`` is given the silo's name, or something else while that is unknown (``Roster.name``). Where
        fewer than ``min_silos`` are there, it waits for them ``deadline`` seconds at most.
        """
        present = self._roster.nodes(grid)
        if len(present) < self._min_silos:
            logger.warning(
                "Round %s: %s of %s silos are there: waiting for others until the round's deadline",
                server_round, len(present), len(self._roster.silos)
            )  # fmt: skip
            present = self._roster.enough(grid, self._min_silos, deadline)
        self._busy = self._still_busy(grid) & frozenset(present)
        self.asked_at = time.time()
        self._messages = [
            Message(
                content=content(self._roster.name(node_id)),
                dst_node_id=node_id,
                message_type="train",
                # Longer than the deadline: that a reply comes late tells that its silo is free again.
                ttl=max(deadline, DEFAULT_TTL),
                group_id=str(server_round),
            )
            for node_id in present
            if node_id not in self._busy
        ]
        return self._messages

    def receive(self, grid: Grid, deadline: float) -> list[Message]:
        """Send the round's question, and return the replies of ``deadline`` seconds."""
        return list(grid.send_and_receive(self._messages, timeout=deadline))

    def sort(
        self, server_round: int, replies: Iterable[Message], read: Callable[[Message], tuple[SiloName, _T | Refusal]]
    ) -> tuple[dict[SiloName, tuple[_T, float]], dict[str, str]]:
        """The silos' replies with their seconds, and why the others did not reply; both by name.

        ``read`` gives the silo that a message names and what it says, or why it says nothing; it raises Refused for
        a message of another protocol. Raises RunError if fewer than ``min_silos`` silos replied.
        """
        valid: dict[SiloName, tuple[_T, float]] = {}
        reasons: dict[int, str] = {}
        # Flower gives messages their ids when it sends them.
        asked = {message.metadata.message_id: message for message in self._messages}
        silent = {message.metadata.dst_node_id: _SILENT for message in self._messages}
        silent |= dict.fromkeys(self._busy, _BUSY)
        answered = set()
        for message in replies:
            question = asked.get(message.metadata.reply_to_message_id)
            # Not by the sender: Flower reports that a node is gone under its own id.
            node = question.metadata.dst_node_id if question else None
            if question is None or node not in silent:
                continue
            del silent[node]
            answered.add(message.metadata.reply_to_message_id)
            if message.has_error():
                reasons[node] = _ERRORS.get(message.error.code, _OTHER_ERROR)
                continue
            try:
                silo, answer = read(message)
                if isinstance(answer, Refusal):
                    self._roster.introduce(node, silo)
                    raise Refused(answer)
                self._roster.claim(node, silo)
            except Refused as refused:
                reasons[node] = refused.reason.sentence
            else:
                valid[silo] = answer, max(0.0, message.metadata.created_at - question.metadata.created_at)
        self._owed |= {
            name: _Owed(message.metadata.dst_node_id, self.asked_at)
            for name, message in asked.items()
            if name not in answered
        }
        absent = {self._roster.name(node): reason for node, reason in reasons.items()}
        absent |= self._roster.explain_silence(silent, heard_of={*valid, *absent})
        valid, absent = dict(sorted(valid.items())), dict(sorted(absent.items()))
        self._log(server_round, valid.keys(), absent)
        if len(valid) < self._min_silos:
            raise RunError(
                f"round {server_round} has {len(valid)} valid replies but min-silos is {self._min_silos}: "
                + "; ".join(f"{name}: {reason}" for name, reason in absent.items())
            )
        return valid, absent

    def _still_busy(self, grid: Grid) -> frozenset[int]:
        """The nodes that owe a reply. Late replies are dropped unread."""
        if self._owed:
            for reply in grid.pull_messages(list(self._owed)):
                self._owed.pop(reply.metadata.reply_to_message_id, None)
            # A node that stopped has lost its work, and will not reply to it.
            started = {int(node.node_id): seconds_of(node.last_activated_at) for node in grid.get_nodes()}
            self._owed = {
                name: owed for name, owed in self._owed.items() if started.get(owed.node_id, 0.0) <= owed.sent_at
            }
        return frozenset(owed.node_id for owed in self._owed.values())

    def _log(self, server_round: int, valid: Iterable[SiloName], absent: dict[str, str]) -> None:
        for name, reason in absent.items():
            if self._absent.get(name) != reason:
                logger.warning("Round %s: without %s: %s", server_round, name, reason)
        for name in sorted(self._absent.keys() & set(valid)):
            logger.info("Round %s: %s is back", server_round, name)
        self._absent = absent


@dataclass(frozen=True, eq=False)
class Answer:
    """A reply with votes: how many bytes it took, the votes, and what the silo tells of its scores."""

    size: int
    votes: Votes
    scores: Scores | Fit | None

    @property
    def known_scores(self) -> dict[str, float] | None:
        """Scores that are numbers, as JSON has no NaN; None if the silo sends none."""
        if self.scores is None:
            return None
        return {name: value for name, value in self.scores._asdict().items() if not math.isnan(value)}


Valid: TypeAlias = dict[SiloName, tuple[Answer, float]]
"""Answers of the silos that count, with the seconds that each took."""


def rows_of(
    valid: Valid, of_silos: Mapping[SiloName, Mapping[str, Any]] = {}, quality: Mapping[SiloName, Any] = {}
) -> dict[SiloName, dict[str, Any]]:
    """The round log's columns of each silo that counts."""
    return {
        silo: {
            "bytes_sent": answer.size,
            "seconds": round(seconds, 3),
            **of_silos.get(silo, {}),
            "scores": answer.known_scores,
            "quality": quality.get(silo),
        }
        for silo, (answer, seconds) in valid.items()
    }


def read_answer(message: Message, terms: Terms, instruction: Instruction) -> tuple[SiloName, Answer | Refusal]:
    """The silo that replies to the instruction, and its votes or why it has none. Raises Refused."""
    payload = from_record(message.content)
    reply = decode_reply(payload, terms, instruction)
    if isinstance(reply.outcome, Refusal):
        return reply.silo, reply.outcome
    return reply.silo, Answer(len(payload), reply.outcome, reply.scores)


@dataclass(frozen=True, eq=False)
class Asking:
    """Makes the instructions of a run."""

    terms: Terms
    consensus: "Consensus"
    query_size: int
    seed: int = 0
    votes: int = 0
    """0 asks silos for labels, a number above for counts of votes on each example."""
    weight: float = 0.5
    """Weight of other silos' probabilities, for a consensus that has targets; 0: before the silo's own records."""
    summed: bool = False
    """Whether the coordinator learns the answers' sum alone."""
    noise: float = 0.0
    """Silos first add shares of noise of this standard deviation to the sum, in votes of one silo."""
    answer: str = ""
    """The name of the kind, if it is asked for by its name."""

    @cached_property
    def kind(self) -> Kind:
        """Kind of the answers."""
        asked = self.votes, self.consensus.targets is not None, self.terms
        return kind_by(*asked, summed=self.summed, noisy=bool(self.noise), answer=self.answer)

    def instruction(self, server_round: int, table: Answers, state: "State") -> Instruction:
        """The instruction to all silos without targets of their own; ``table`` are the labels so far.

        Silos that learn shares of votes learn those of the round before, in this ``state`` of the consensus. So does a
        silo that was not there.

        Silos train on the labels of the round before and not on older ones, which worse models gave: on FashionMNIST
        (5,000 of 50,000 examples a round) that is .838 after 1000 steps, where the whole table gave .826.
        """
        fresh = no_targets(self.terms.num_public)
        if server_round > 1 and not self.kind.for_numbers:
            before = self._query(server_round - 1).positions(self.terms.num_public)
            fresh[before] = table[before]
        learning = Soft()
        shares = self.consensus.alike(state) if self.consensus.alike else None
        if shares is not None:
            learning = self._learned(shares, server_round)
        asked = self.kind.question(server_round, self._query(server_round), fresh, self.votes, learning)
        return replace(asked, noise=self.noise) if self.noise else asked

    def own(self, instruction: Instruction, state: "State", silo: SiloName) -> Instruction | None:
        """The same for a silo that has targets of its own in this state of the consensus; None for others."""
        targets = self.consensus.targets(state, silo) if self.kind.for_numbers and self.consensus.targets else None
        if targets is None:
            return None
        return replace(instruction, soft=self._learned(targets, instruction.round))

    def _learned(self, targets: SoftVotes, server_round: int) -> Soft:
        return Soft(targets=SoftTargets(self._query(server_round - 1), targets, self.weight))

    def _query(self, server_round: int) -> Query:
        low, high = seed_words(self.seed, "query", server_round)[:2]
        return Query(low | high << 32, self.query_size)


def no_targets(num_public: int) -> HardLabels:
    """The table before the first round: nothing is labeled."""
    return np.full(num_public, ABSTAIN, dtype=LABEL_DTYPE)


class RoundConsensus(NamedTuple):
    """Consensus on the queried examples ``(queried,)``, and their previous targets.

    ``targets`` ``(num_public,)`` is the whole table after it.
    """

    decided: Answers
    incumbent: Answers
    targets: Answers


class Facts(NamedTuple):
    """Columns of the round log by name.

    ``of_round`` and ``of_silos`` are the round's and each silo's; ``younger`` are columns of the round that came later,
    which stand at the end of a line. ``metrics`` names those that Flower gets too; ``message`` has them in words.
    """

    of_round: Mapping[str, Any]
    of_silos: Mapping[SiloName, Mapping[str, Any]]
    metrics: tuple[str, ...]
    message: str
    younger: Mapping[str, Any] = {}


def facts_of_labels(
    agreement: float | None,
    of_silos: Mapping[SiloName, Mapping[str, Any]],
    scores: Iterable[Scores | Fit | None],
    decision: RoundConsensus,
    terms: Terms,
) -> Facts:
    """Numbers of changed and missing labels, and the silos' agreement with the labels; None where it is unknown.

    ``changed`` counts labels that are other ones than before, or new; ``churn`` is the share of labels that did not
    stay, of those that the examples asked about had before (None if they had none). ``agreement`` is the mean of the
    shares of votes that equal the consensus, over silos with a vote. ``accuracy_spread`` is the standard deviation of
    the silos' accuracies on the pooled test set, where at least two report one.
    """
    decided, incumbent, targets = decision
    had_one, differs = incumbent != ABSTAIN, decided != incumbent
    agreeing = {} if agreement is None else {"agreement": agreement}
    of_round = {
        "changed": int(differs.sum()),
        "abstained": int((decided == ABSTAIN).sum()),
        **agreeing,
        "class_counts": class_counts(targets, terms),
    }
    message = f"{of_round['changed']} labels changed, {of_round['abstained']} abstained"
    message += "" if agreement is None else f", silos agree with the consensus on {agreement:.1%}"
    younger = {"churn": float(differs[had_one].mean()) if had_one.any() else None, "accuracy_spread": _spread(scores)}
    return Facts(of_round, of_silos, ("changed", "abstained", *agreeing), message, younger)


def class_counts(targets: Answers, terms: Terms) -> dict[str, int]:
    """How many public examples have each class."""
    counts = np.bincount(targets[targets != ABSTAIN], minlength=terms.num_classes).tolist()
    return dict(zip(terms.classes, counts, strict=True))


def facts_of_values(votes: Mapping[SiloName, Votes], decision: RoundConsensus) -> Facts:
    """Distance of the silos from the consensus, and its change, in units of the quantity.

    ``distance`` is a root mean square over examples, and for the round one over the silos' distances. ``moved`` is how
    far the values of the examples asked about lie from those that they had before (None if they had none).
    """
    decided, incumbent, _ = decision
    distance = {silo: _root_mean_square(cast[:, 0] - decided) for silo, cast in votes.items()}
    had_one = ~np.isnan(incumbent)
    of_round = {
        "distance": _root_mean_square(np.array(list(distance.values()))),
        "moved": _root_mean_square((decided - incumbent)[had_one]) if had_one.any() else None,
    }
    of_silos = {silo: {"distance": value} for silo, value in distance.items()}
    return Facts(of_round, of_silos, ("distance",), f"silos lie {of_round['distance']:.4g} off the consensus")


def _root_mean_square(values: NDArray[np.floating[Any]]) -> float:
    return float(np.sqrt(np.mean(values.astype(np.float64) ** 2)))


def _spread(scores: Iterable[Scores | Fit | None]) -> float | None:
    accuracies = (score.pooled_accuracy for score in scores if isinstance(score, Scores))
    known = [accuracy for accuracy in accuracies if not np.isnan(accuracy)]
    return float(np.std(known)) if len(known) > 1 else None


def facts_of(
    kind: Kind,
    votes: Mapping[SiloName, Votes],
    scores: Iterable[Scores | Fit | None],
    decision: RoundConsensus,
    terms: Terms,
) -> Facts:
    """The round log's entry for these votes and scores.

    In a sum without noise, ``votes`` has the opened sum ``(examples, classes)`` for each silo in it.
    """
    if not kind.labels:
        return facts_of_values(votes, decision)
    if kind.added and kind is wire.GRADIENTS:
        return _of_labeler(votes, decision, terms)
    if kind.added and isinstance(kind, wire.Summed):
        agreement = None if kind.noisy else _agreed_in_sum(votes, decision)
        found = facts_of_labels(agreement, {silo: {} for silo in votes}, scores, decision, terms)
        message = f"{found.of_round['changed']} labels changed, decided on counts with the silos' noise"
        return found._replace(message=message) if kind.noisy else found
    of_silos = {silo: {"agreement": _agreed(kind, cast, decision.decided)} for silo, cast in votes.items()}
    voting = [silo for silo, cast in votes.items() if cast.ndim > 1 or (cast != ABSTAIN).any()]
    agreement = fmean(of_silos[silo]["agreement"] for silo in voting) if voting else 0.0
    return facts_of_labels(agreement, of_silos, scores, decision, terms)


def empty_table(kind: Kind, num_public: int) -> Answers:
    """The shared table before the first round, ``(num_public,)``: no label, or NaN for values."""
    return no_targets(num_public) if kind.labels else np.full(num_public, np.nan, dtype=np.float32)


def _agreed(kind: Kind, votes: Votes, decided: HardLabels) -> float:
    """Share of a silo's votes that equal the consensus, among examples with a label; 0 if none has one."""
    if kind is COUNTS:
        return counts_agreed(votes, decided)
    return agreed(votes.argmax(axis=1) if kind.for_numbers else votes, decided)


def _agreed_in_sum(votes: Mapping[SiloName, Votes], decision: RoundConsensus) -> float:
    total = next(iter(votes.values()))
    labeled = np.flatnonzero(decision.decided != ABSTAIN)
    agreeing = total[labeled, decision.decided[labeled]].sum()
    return float(agreeing / (len(labeled) * len(votes))) if len(labeled) else 0.0


def _of_labeler(votes: Mapping[SiloName, Votes], decision: RoundConsensus, terms: Terms) -> Facts:
    changed = int((decision.decided != decision.incumbent).sum())
    of_round = {"changed": changed, "abstained": 0, "class_counts": class_counts(decision.targets, terms)}
    return Facts(of_round, {silo: {} for silo in votes}, ("changed",), f"{changed} labels by the joint labeler")
