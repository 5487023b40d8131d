"""The rounds' secure sums: a session of the silos that are there, and one sum of their answers each round.

With noise for records a silo adds once to each sum, whatever becomes of it: the same noise in two sums would protect
less. So a sum that cannot be opened is lost, and silos have paid for it.
"""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from numpy import uint64
from numpy.typing import NDArray

from fedct_flwr import privacy, secure_sum
from fedct_flwr.coordinator.questions import Answer, Questions, read_answer
from fedct_flwr.runs.records import IN_WRONG_SUM
from fedct_flwr.types import ConfigError, Refusal, Refused, RunError, SiloName
from fedct_flwr.wire.codec import encode_instruction
from fedct_flwr.wire.messages import ACTION, from_record, to_record

if TYPE_CHECKING:
    from fedct_flwr.coordinator.study import Roster, Study, Subject
    from fedct_flwr.secure_sum.coordinator import (
        Exchange,
        Replies,
        Requests,
        SecureSum,
    )
    from fedct_flwr.secure_sum.terms import Shape, SumTerms
    from fedct_flwr.types import VoteCounts
    from fedct_flwr.wire.content import Instruction, Terms
    from fedct_flwr.wire.sums import NoisySum, Summed

LONGEST_SECONDS: Final = 60.0
"""Silos have their answers ready when a sum begins: no message of it takes long."""
NOT_IN_SUM: Final = "its part of the secure sum is missing"


def sum_terms(study: "Study") -> "SumTerms":
    """The terms of a run's sums. Raises ConfigError for too few silos, or a study without sums."""
    if study.dataset is not None:
        return secure_sum.simulated_terms(study.config, study.roster.silos)
    return real_terms(study.subject, study.roster.silos)


def real_terms(subject: "Subject", silos: Collection[SiloName]) -> "SumTerms":
    """The terms of a study of real silos. Raises ConfigError where it has none, or lacks a silo's key."""
    if subject.sums is None:
        raise ConfigError("secure sums need [sums] with the silos' keys in study.toml: add it, or leave secure out")
    if strangers := sorted(set(silos) - subject.sums.keys.keys()):
        raise ConfigError(f"[sums] in study.toml has no key of silo {strangers[0]}: add the line of its egress.pub")
    return subject.sums


def opened(
    kind: "Summed", total: NDArray[uint64], instruction: "Instruction", terms: "Terms", num_silos: int, honest: int = 0
) -> "VoteCounts":
    """The sum ``(examples, classes)`` of ``num_silos``; with noise in units of its grid, which makes some negative.

    Raises Refused (UNKNOWN_CLASS) for numbers that no votes and noise add up to. ``honest``: silos whose noise is
    counted, as ``noise_shares.surely_honest`` has it; 0: all.
    """
    size = instruction.query.size, terms.width
    if not kind.noisy:
        votes: VoteCounts = total.astype(np.int32).reshape(size)
        if (votes.sum(axis=1) > num_silos).any():
            raise Refused(Refusal.UNKNOWN_CLASS)
        return votes

    # The rule that decides may multiply them.
    signed = total.astype(np.uint32).view(np.int32).astype(np.int64).reshape(size)
    shares = privacy.VoteShares(instruction.noise, *size, honest or num_silos)
    if not shares.could_be(signed, num_silos):
        raise Refused(Refusal.UNKNOWN_CLASS)
    return cast("VoteCounts", signed)


def over_flower(grid: Grid, nodes: Mapping[SiloName, int], group_id: str, timeout: float) -> "Exchange":
    """Exchange messages of secure sums with Flower's nodes.

    ``nodes``: the node of each silo, by name; a silo without one is not asked. ``timeout``: seconds until a silo that
    has not answered counts as missing. An error, or a reply of another form, counts as missing too.
    """

    def exchange(requests: "Requests") -> "Replies":
        asked = {nodes[name]: name for name in requests if name in nodes}
        messages = [
            Message(to_record(requests[name]), node, f"query.{ACTION}", ttl=timeout, group_id=group_id)
            for node, name in asked.items()
        ]
        replies = {}
        for reply in grid.send_and_receive(messages, timeout=timeout):
            name = asked.get(reply.metadata.src_node_id)
            if name is None or reply.has_error():
                continue
            try:
                replies[name] = from_record(reply.content)
            except Refused:
                continue
        return replies

    return exchange


class Lost(RunError):
    """A sum was not opened, and silos with noise have paid for it; ``repeated``: in an earlier run."""

    repeated = False


class RoundSum(NamedTuple):
    """A round's sum, and the bytes that each silo sent for it."""

    of: "SecureSum"
    bytes_sent: Counter[SiloName]


class Sums:
    """Sums of one run."""

    def __init__(self, terms: "SumTerms", roster: "Roster") -> None:
        self._coordinator = secure_sum.SumCoordinator(terms)
        self.honest = terms.min_summands - terms.may_collude
        """How many silos' noise is counted, where they add some."""
        self._roster = roster
        self._added: tuple[SiloName, ...] = ()

    def sum(
        self, grid: Grid, shape: "Shape", silos: Collection[SiloName], server_round: int, deadline: float
    ) -> RoundSum:
        """Add the answers of these silos, all of which are ready. Raises Lost where no sum can be opened.

        Another session begins where these are other silos than those of the last sum.
        """
        sent: Counter[SiloName] = Counter()
        nodes = {silo: node for silo, node in self._roster.known.items() if silo in silos}
        carried = over_flower(grid, nodes, str(server_round), min(deadline, LONGEST_SECONDS))

        def exchange(requests: "Requests") -> "Replies":
            replies = carried(requests)
            sent.update({silo: len(reply) for silo, reply in replies.items()})
            return replies

        # A silo that missed a failed sum may have restarted: then another session begins.
        before, self._added = self._added, ()
        try:
            if set(before) != set(silos):
                secure_sum.begin_session(self._coordinator, exchange)
            found = secure_sum.sum_securely(self._coordinator, exchange, shape)
        except secure_sum.SumRefused as refused:
            faults = self._coordinator.faults
            why = "; ".join([str(refused), *(f"{silo}: {fault.sentence}" for silo, fault in faults.items())])
            error = Lost(f"round {server_round} has no secure sum of the silos' answers: {why}")
            error.repeated = secure_sum.Fault.REPEATED in faults.values()
            raise error from None
        self._added = found.summands
        return RoundSum(found, sent)


Valid = dict[SiloName, tuple[Answer, float]]
"""Answers with the seconds that they took."""


class NoisySums:
    """Secure sums with noise of one run; each is one of its ``rounds``, or none."""

    def __init__(self, study: "Study", grid: Grid, kind: "NoisySum", *, rounds: bool = True) -> None:
        self._study, self._grid, self._kind, self._rounds = study, grid, kind, rounds
        self._questions = Questions(study.roster, study.config.min_silos)
        self._terms = sum_terms(study)
        self._sums = Sums(self._terms, study.roster)

    def wait(self) -> None:
        """Until the silos are there, or the roster's deadline has passed."""
        self._study.roster.wait(self._grid)

    def opened(
        self, instruction: "Instruction", wrong: Callable[[NDArray[uint64], int], str]
    ) -> tuple[NDArray[uint64], int]:
        """The sum of what silos add, and their number. ``wrong`` says what is wrong with both; empty: nothing.

        Raises RunError where too few silos are ready: none has added yet, so it can be asked for again. Raises Lost.
        """
        valid, absent, asked = self.ask(instruction)
        if len(valid) < self._terms.min_summands:
            raise RunError(
                f"step {instruction.round} has {len(valid)} silos ready and min-summands is "
                f"{self._terms.min_summands}: "
                + "; ".join(f"{name}: {reason}" for name, reason in absent.items())
                + "; see to them, then resume the run"
            )
        shape = secure_sum.shape_of_records(self._kind, instruction, hashlib.sha256(asked).digest())
        deadline = self._study.config.round_deadline
        try:
            found, sent = self._sums.sum(self._grid, shape, valid.keys(), instruction.round, deadline)
        except Lost:
            self.note(instruction, len(asked), {}, absent | dict.fromkeys(valid, NOT_IN_SUM))
            raise
        if why := wrong(found.total, len(found.summands)):
            self.note(instruction, len(asked), {}, absent | dict.fromkeys(valid, IN_WRONG_SUM))
            raise Lost(f"step {instruction.round} has a secure sum {why}")
        absent |= {silo: NOT_IN_SUM for silo in valid if silo not in found.summands}
        added = {silo: valid[silo] for silo in found.summands}
        self.note(instruction, len(asked), added, absent, sent)
        return found.total, len(added)

    def ask(self, instruction: "Instruction") -> tuple[Valid, dict[str, str], bytes]:
        """The silos' answers, why others have none, and what they were asked."""
        study, deadline = self._study, self._study.config.round_deadline
        payload = encode_instruction(instruction, study.terms)
        self._questions.ask(self._grid, lambda silo: to_record(payload), instruction.round, deadline)
        replies = self._questions.receive(self._grid, deadline)
        read = partial(read_answer, terms=study.terms, instruction=instruction)
        return *self._questions.sort(instruction.round, replies, read), payload

    def note(
        self,
        instruction: "Instruction",
        asked_bytes: int,
        valid: Valid,
        absent: Mapping[str, str],
        sent: Mapping[SiloName, int] = {},
        facts: Mapping[str, Any] = {},
    ) -> None:
        """Write the round down; ``sent``: bytes of each silo in the sum."""
        if not self._rounds:
            return
        silos = {
            silo: {
                "bytes_sent": answer.size + sent.get(silo, 0),
                "seconds": round(seconds, 3),
                "scores": answer.known_scores,
                "quality": None,
            }
            for silo, (answer, seconds) in valid.items()
        }
        self._study.folder.append_round(
            {
                "round": instruction.round,
                "seconds": round(time.time() - self._questions.asked_at, 3),
                "queried": self._study.terms.num_public,
                **facts,
                "instruction_bytes": asked_bytes,
                "bytes_sent": sum(answer.size + sent.get(silo, 0) for silo, (answer, _) in valid.items()),
                "silos": silos,
                "absent": dict(absent),
                "fixed_point": False,
            }
        )
