"""The rounds' secure sums: a session of the silos that are there, and one sum of their answers each round.

With noise for records a silo adds once to each sum, whatever becomes of it: the same noise in two sums would protect
less. So a sum that cannot be opened is lost, and silos have paid for it.
"""

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final, cast

import numpy as np
from flwr.app import Message
from flwr.serverapp import Grid
from numpy import uint64
from numpy.typing import NDArray

from fedct_flwr import privacy, secure_sum
from fedct_flwr.types import ConfigError, Refusal, Refused, RunError, SiloName
from fedct_flwr.wire.messages import ACTION, from_record, to_record

if TYPE_CHECKING:
    from fedct_flwr.coordinator.questions import Valid
    from fedct_flwr.coordinator.study import Roster, Study, Subject
    from fedct_flwr.secure_sum.coordinator import Exchange, Replies, Requests
    from fedct_flwr.secure_sum.terms import Shape, SumTerms
    from fedct_flwr.types import VoteCounts
    from fedct_flwr.wire.content import Instruction, Terms
    from fedct_flwr.wire.sums import Summed

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


class Sums:
    """Sums of one run."""

    def __init__(self, terms: "SumTerms", roster: "Roster") -> None:
        self._coordinator = secure_sum.SumCoordinator(terms)
        self.honest = terms.min_summands - terms.may_collude
        """How many silos' noise is counted, where they add some."""
        self._roster = roster
        self._added: tuple[SiloName, ...] = ()

    def sum(
        self, grid: Grid, shape: "Shape", ready: "Valid", server_round: int, deadline: float
    ) -> tuple[NDArray[uint64], "Valid"]:
        """The sum of the answers of these silos, and which are in it, with the bytes that each sent for it.

        Another session begins where these are other silos than those of the last sum. Raises Lost where no sum can be
        opened.
        """
        sent: Counter[SiloName] = Counter()
        nodes = {silo: node for silo, node in self._roster.known.items() if silo in ready}
        carried = over_flower(grid, nodes, str(server_round), min(deadline, LONGEST_SECONDS))

        def exchange(requests: "Requests") -> "Replies":
            replies = carried(requests)
            sent.update({silo: len(reply) for silo, reply in replies.items()})
            return replies

        # A silo that missed a failed sum may have restarted: then another session begins.
        before, self._added = self._added, ()
        try:
            if set(before) != set(ready):
                secure_sum.begin_session(self._coordinator, exchange)
            found = secure_sum.sum_securely(self._coordinator, exchange, shape)
        except secure_sum.SumRefused as refused:
            faults = self._coordinator.faults
            why = "; ".join([str(refused), *(f"{silo}: {fault.sentence}" for silo, fault in faults.items())])
            error = Lost(f"round {server_round} has no secure sum of the silos' answers: {why}")
            error.repeated = secure_sum.Fault.REPEATED in faults.values()
            raise error from None
        self._added = found.summands
        return found.total, {
            silo: (replace(answer, size=answer.size + sent[silo]), seconds)
            for silo, (answer, seconds) in ready.items()
            if silo in found.summands
        }
