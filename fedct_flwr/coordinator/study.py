"""The coordinator's state for every algorithm: a run's subject, and which node belongs to which silo.

The roster waits for the nodes, and lets no two of them answer for one silo.
"""

import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NamedTuple

import numpy as np
from flwr.app import DEFAULT_TTL, Message, RecordDict
from flwr.serverapp import Grid

from fedct_flwr.text.printable import count, logger
from fedct_flwr.types import LABEL_DTYPE, ConfigError, Examples, Refusal, Refused, RunError, SiloName
from fedct_flwr.wire.codec import decode_reply
from fedct_flwr.wire.content import NO_TERMS, Instruction, Joint, Query, Terms
from fedct_flwr.wire.messages import from_record

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.config.study import StudyScores
    from fedct_flwr.datasets.federated import FederatedDataset, PublicSet
    from fedct_flwr.datasets.schema import Schema
    from fedct_flwr.datasets.study_folder import StudyFolder
    from fedct_flwr.runs.run_folder import Checkpoint, RunFolder
    from fedct_flwr.secure_sum.terms import SumTerms

_POLL_SECONDS: Final = 0.2
_SIMULATION_SECONDS: Final = 5.0
_NOT_THERE: Final = "no node at the start of the round"
LONGEST_SECONDS: Final = 60.0
"""Longest wait for a silo's name, which takes no training: a silo reads at most the data set, once."""

_NOTHING: Final = Instruction(0, Query(0, 0), np.zeros(0, dtype=LABEL_DTYPE))


class Roster:
    """The silos of a study and their nodes.

    Where the coordinator has registered nodes under names, a node stands for the silo of that name and for no
    other. Nodes without a name (simulation) stand for the silo that their first reply names.
    """

    def __init__(self, silos: Sequence[SiloName], min_silos: int, deadline: float) -> None:
        self.silos = tuple(silos)
        self._min_silos = min_silos
        self._deadline = deadline
        self._known = frozenset(self.silos)
        self._names: dict[int, SiloName] = {}
        self._nodes: dict[SiloName, int] = {}
        """Nodes by silo: each has one at most."""
        self._present: frozenset[int] = frozenset()

    def wait(self, grid: Grid) -> None:
        """Wait at most ``deadline`` seconds for every silo's node.

        Goes on with those present if they are ``min_silos`` or more. Raises RunError otherwise, and where a simulation
        has fewer SuperNodes than silos.
        """
        # The SuperNodes of a simulation have no names, and all are there at once.
        first = min(self._deadline, _SIMULATION_SECONDS)
        nodes = self.enough(grid, len(self.silos), first)
        if not self._nodes and 0 < len(nodes) < len(self.silos):
            raise RunError(
                f"there are {len(nodes)} SuperNodes for {len(self.silos)} silos: run it again with "
                f'--federation-config "num-supernodes={len(self.silos)}"'
            )
        nodes = self.enough(grid, len(self.silos), self._deadline - first)
        if len(nodes) < self._min_silos:
            raise RunError(
                f"only {len(nodes)} of {len(self.silos)} silos came within {self._deadline:g} s but min-silos is "
                f"{self._min_silos}{self._who_is_missing(nodes)}: start their nodes, or raise roster-deadline"
            )
        if len(nodes) < len(self.silos):
            logger.warning(
                "%s of %s silos are here after %g s%s; the study goes on without the others",
                len(nodes), len(self.silos), self._deadline, self._who_is_missing(nodes),
            )  # fmt: skip

    def enough(self, grid: Grid, number: int, seconds: float) -> list[int]:
        """The nodes that may answer, by id, as soon as there are ``number`` of them or the time is up."""
        end = time.monotonic() + seconds
        nodes = self.nodes(grid)
        while len(nodes) < number and (left := end - time.monotonic()) > 0:
            time.sleep(min(_POLL_SECONDS, left))
            nodes = self.nodes(grid)
        return nodes

    def nodes(self, grid: Grid) -> list[int]:
        """The nodes that may answer, by id; those registered under a name that is on no roster are left out."""
        nodes = [node for node in grid.get_nodes() if not node.name or node.name in self._known]
        self._present = frozenset(int(node.node_id) for node in nodes)
        for node in nodes:
            if node.name:
                self._take(int(node.node_id), node.name)
        return sorted(self._present)

    def introduce(self, node_id: int, silo: SiloName) -> bool:
        """Remember which silo a node says it stands for; False if it cannot be: off the roster, or taken.

        A silo whose node is gone may come back with another one.
        """
        taken = self._nodes.get(silo, node_id) != node_id and self._nodes[silo] in self._present
        if silo not in self._known or taken or self._names.get(node_id, silo) != silo:
            return False
        self._take(node_id, silo)
        return True

    def _take(self, node_id: int, silo: SiloName) -> None:
        # A silo that comes with another node leaves its former one, and a node with another name its former silo.
        if silo in self._nodes:
            del self._names[self._nodes.pop(silo)]
        if node_id in self._names:
            del self._nodes[self._names.pop(node_id)]
        self._names[node_id], self._nodes[silo] = silo, node_id

    def claim(self, node_id: int, silo: SiloName) -> None:
        """Let a node answer for a silo. Raises Refused (SILO) if it may not."""
        if not self.introduce(node_id, silo):
            raise Refused(Refusal.SILO)

    def name(self, node_id: int) -> str:
        """The silo a node stands for, or its node id while the name is unknown."""
        return self._names.get(node_id, f"node {node_id}")

    @property
    def known(self) -> dict[SiloName, int]:
        """The node of each silo whose node is known."""
        return dict(self._nodes)

    def explain_silence(self, silent: Mapping[int, str], heard_of: Collection[str]) -> dict[str, str]:
        """Why silos are absent from a round: their nodes are ``silent`` for a reason, or there is no node.

        ``heard_of`` are the silos that did reply, with votes or with a reason for having none.
        """
        absent = {self.name(node): reason for node, reason in silent.items() if node in self._names}
        nameless = {self.name(node): reason for node, reason in silent.items() if node not in self._names}
        unaccounted = [silo for silo in self.silos if silo not in heard_of and silo not in absent]
        if nameless and len(nameless) <= len(unaccounted):
            # Nodes without a name that never replied are among the silos not heard of: one line for each of these.
            reasons = [*dict.fromkeys(nameless.values()), *[_NOT_THERE] * (len(nameless) < len(unaccounted))]
            return absent | dict.fromkeys(unaccounted, ", or ".join(reasons))
        return absent | nameless | dict.fromkeys(unaccounted, _NOT_THERE)

    def _who_is_missing(self, nodes: Sequence[int]) -> str:
        known = {self._names[node] for node in nodes if node in self._names}
        missing = [silo for silo in self.silos if silo not in known]
        return f" (missing: {', '.join(missing)})" if known else ""


def introduce(grid: Grid, roster: Roster, deadline: float) -> None:
    """Ask each node without a name, as in a simulation, for its silo's, and wait at most ``deadline`` seconds.

    The question is an empty message: all that a silo can do is to refuse it, and a refusal has its name. It costs the
    silo nothing, and tells nothing else. A silo that does not reply stays unknown, and is waited for at most a minute,
    however long a round may take.
    """
    messages = [
        Message(content=RecordDict(), dst_node_id=node, message_type="train", ttl=DEFAULT_TTL, group_id="names")
        for node in roster.nodes(grid)
        if roster.name(node) not in roster.silos
    ]
    seconds = min(deadline, LONGEST_SECONDS)
    for reply in grid.send_and_receive(messages, timeout=seconds) if messages else ():
        if reply.has_error():
            continue
        try:
            silo = decode_reply(from_record(reply.content), NO_TERMS, _NOTHING).silo
        except Refused:
            continue
        roster.introduce(reply.metadata.src_node_id, silo)
    if unknown := sum(roster.name(message.metadata.dst_node_id) not in roster.silos for message in messages):
        logger.warning(
            "%s did not say within %g s which silo it is: until it answers, such a node is asked as one that never has",
            count(unknown, "node"), seconds,
        )  # fmt: skip


class Subject(NamedTuple):
    """The coordinator's view of a study. ``test`` may be empty.

    ``sums`` are the terms of real silos' secure sums, if they have any, and ``joint`` the joint labeler that they may
    train.
    """

    schema: "Schema"
    public: "PublicSet"
    test: Examples
    sums: "SumTerms | None" = None
    joint: Joint | None = None
    folder: "StudyFolder | None" = None
    """Subject of a study with real silos."""

    @classmethod
    def simulated(cls, dataset: "FederatedDataset") -> "Subject":
        """Subject of a simulation."""
        return cls(dataset.schema, dataset.public, dataset.test)

    @classmethod
    def real(cls, study: "StudyFolder") -> "Subject":
        """Subject of a study's folder."""
        return cls(study.schema, study.public, study.test, study.sums, study.joint, study)

    @property
    def approved_joint(self) -> Joint:
        """The joint labeler that real silos have approved. Raises ConfigError where their study has none."""
        if self.joint is None:
            raise ConfigError(
                "the joint labeler needs [joint] in study.toml, with about how many records all silos have: add it and "
                "let the silos approve, or choose another algorithm"
            )
        return self.joint

    @property
    def agreed_scores(self) -> "StudyScores | None":
        """``[scores]`` of real silos' study, if it has any."""
        return self.folder.config.scores if self.folder else None


@dataclass(frozen=True, eq=False)
class Study:
    """One run: its settings, what it is about, what silos must agree to, who they are, and where results go.

    ``dataset`` is the data set of simulated silos; of real ones nothing is here.
    """

    config: "RunConfig"
    dataset: "FederatedDataset | None"
    subject: Subject
    terms: Terms
    roster: Roster
    folder: "RunFolder"
    checkpoint: "Checkpoint | None" = None
