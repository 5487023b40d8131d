"""The rounds' secure sums: a session of the silos that are there, and one sum of their answers each round."""

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Final, NamedTuple

from flwr.app import Message
from flwr.serverapp import Grid

from fedct_flwr.coordinator.roster import Roster
from fedct_flwr.coordinator.study import Study, Subject
from fedct_flwr.flower.grid import prompt
from fedct_flwr.secure_sum.coordinator import (
    Exchange,
    Replies,
    Requests,
    SecureSum,
    SumCoordinator,
    begin_session,
    sum_securely,
)
from fedct_flwr.secure_sum.faults import SumRefused
from fedct_flwr.secure_sum.terms import Shape, Terms
from fedct_flwr.silo.summing import ACTION, simulated_terms
from fedct_flwr.types import ConfigError, RunError, SiloName
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.refusal import Refused

LONGEST_SECONDS: Final = 60.0
"""Silos have their answers ready when a sum begins: no message of it takes long."""
NOT_IN_SUM: Final = "its part of the secure sum is missing"


def sum_terms(study: Study) -> Terms:
    """The terms of a run's sums. Raises ConfigError for too few silos, or a study without sums."""
    if study.dataset is not None:
        return simulated_terms(study.config, study.roster.silos)
    return real_terms(study.subject, study.roster.silos)


def real_terms(subject: Subject, silos: Collection[SiloName]) -> Terms:
    """The terms of a study of real silos. Raises ConfigError where it has none, or lacks a silo's key."""
    if subject.sums is None:
        raise ConfigError("secure sums need [sums] with the silos' keys in study.toml: add it, or leave secure out")
    if strangers := sorted(set(silos) - subject.sums.keys.keys()):
        raise ConfigError(f"[sums] in study.toml has no key of silo {strangers[0]}: add the line of its egress.pub")
    return subject.sums


def over_flower(grid: Grid, nodes: Mapping[SiloName, int], group_id: str, timeout: float) -> Exchange:
    """Exchange messages of secure sums with Flower's nodes.

    ``nodes``: the node of each silo, by name; a silo without one is not asked. ``timeout``: seconds until a silo that
    has not answered counts as missing. An error, or a reply of another form, counts as missing too.
    """
    quick = prompt(grid)

    def exchange(requests: Requests) -> Replies:
        asked = {nodes[name]: name for name in requests if name in nodes}
        messages = [
            Message(to_record(requests[name]), node, f"query.{ACTION}", ttl=timeout, group_id=group_id)
            for node, name in asked.items()
        ]
        replies = {}
        for reply in quick.send_and_receive(messages, timeout=timeout):
            name = asked.get(reply.metadata.src_node_id)
            if name is None or reply.has_error():
                continue
            try:
                replies[name] = from_record(reply.content)
            except Refused:
                continue
        return replies

    return exchange


class Summed(NamedTuple):
    """A round's sum, and the bytes that each silo sent for it."""

    of: SecureSum
    bytes_sent: Counter[SiloName]


class Sums:
    """Sums of one run."""

    def __init__(self, terms: Terms, roster: Roster) -> None:
        self._coordinator = SumCoordinator(terms)
        self.honest = terms.min_summands - terms.may_collude
        """How many silos' noise is counted, where they add some."""
        self._roster = roster
        self._added: tuple[SiloName, ...] = ()

    def sum(self, grid: Grid, shape: Shape, silos: Collection[SiloName], server_round: int, deadline: float) -> Summed:
        """Add the answers of these silos, all of which are ready. Raises RunError where no sum can be opened.

        Another session begins where these are other silos than those of the last sum.
        """
        sent: Counter[SiloName] = Counter()
        nodes = {silo: node for silo, node in self._roster.known.items() if silo in silos}
        carried = over_flower(grid, nodes, str(server_round), min(deadline, LONGEST_SECONDS))

        def exchange(requests: Requests) -> Replies:
            replies = carried(requests)
            sent.update({silo: len(reply) for silo, reply in replies.items()})
            return replies

        # A silo that missed a failed sum may have restarted: then another session begins.
        before, self._added = self._added, ()
        try:
            if set(before) != set(silos):
                begin_session(self._coordinator, exchange)
            found = sum_securely(self._coordinator, exchange, shape)
        except SumRefused as refused:
            raise RunError(f"round {server_round} has no secure sum of the silos' answers: {refused}") from None
        self._added = found.summands
        return Summed(found, sent)
