"""The gate in secure sums: what was answered is added once, within the limits, on record."""

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.app import Context, Message, RecordDict

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.gate import Gate
from fedct_flwr.hospital.log_entry import Event, verify_log
from fedct_flwr.hospital.opening import open_gate
from fedct_flwr.privacy.budget import DATA_SET
from fedct_flwr.secure_sum.coordinator import Requests, SecureSum, SumCoordinator, begin_session, sum_securely
from fedct_flwr.secure_sum.messages import Header, Step
from fedct_flwr.secure_sum.terms import Fault, Shape, SumRefused, shape_of_votes
from fedct_flwr.silo.release import account_of
from fedct_flwr.silo.site import FolderState
from fedct_flwr.silo.summing import Ready
from fedct_flwr.types import ConfigError, Refusal
from fedct_flwr.wire.codec import encode_instruction
from fedct_flwr.wire.content import Instruction
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.sums import SUMS, Summed
from tests.hospital.gates import CODE, RUN, Silo, outcome, through
from tests.hospitals import HOSPITALS, write_silo_folder
from tests.secure_sum.silos import fault_of

pytestmark = pytest.mark.usefixtures("in_a_run")

LABELS = SUMS["hard"]
NODE = 3


def line_of(key: Ed25519PrivateKey) -> str:
    return b64encode(key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).decode()


@dataclass
class Hospital:
    """A silo, its key and its gate while it is open."""

    silo: Silo
    key: Ed25519PrivateKey
    gate: Gate

    kind: Summed = LABELS

    @property
    def question(self) -> Instruction:
        return replace(self.silo.instruction(), summed=True)

    def ask(self, question: Instruction, run: int = RUN) -> Refusal | bytes:
        """What the silo answers."""
        payload = encode_instruction(question, self.silo.terms)
        message = Message(to_record(payload), NODE, "train", ttl=100.0, group_id="1")
        silo_file = str(self.silo.config.study.parent / "silo.toml")
        left = through(self.gate, message, Context(run, NODE, {"silo-file": silo_file}, RecordDict(), {}))
        return outcome(from_record(left), self.silo.config.silo)

    @property
    def shape(self) -> Shape:
        asked = encode_instruction(self.question, self.silo.terms)
        return shape_of_votes(self.kind, self.question, self.silo.terms, hashlib.sha256(asked).digest())

    def kept(self, shape: Shape) -> np.ndarray[Any, Any]:
        """The silo's part of a sum, as it keeps it."""
        return Ready(FolderState(self.silo.config.state)).vector(shape)

    def charges(self, account: str = DATA_SET) -> int:
        return account_of(self.silo.config, self.silo.terms.study, account).charges

    def add(self, request: bytes) -> bytes:
        left = self.gate.add(to_record(request), RUN, CODE)
        return b"" if left is None else from_record(left)


@pytest.fixture
def hospitals(tmp_path: Path) -> Iterator[dict[str, Hospital]]:
    with ExitStack() as stack:
        yield opened(tmp_path, stack)


def opened(
    folder: Path,
    stack: ExitStack,
    kind: Summed = LABELS,
    *,
    agreed: str = "",
    tables: Mapping[str, Any] = MappingProxyType({}),
    **policy: Any,
) -> dict[str, Hospital]:
    """Four hospitals; ``agreed`` is what study.toml says besides."""
    keys = {name: Ed25519PrivateKey.generate() for name in HOSPITALS}
    sums = "\n[sums.keys]\n" + "".join(f'{name} = "{line_of(key)}"\n' for name, key in keys.items())
    found = {}
    for name, key in keys.items():
        allowed = {"kinds": [kind.policy], **{k.replace("_", "-"): v for k, v in policy.items()}}
        config = SiloConfig.read_toml(write_silo_folder(folder / name, name, policy=allowed, **tables))
        path = config.study / "study.toml"
        path.write_text(path.read_text() + agreed + sums)
        silo = Silo(config, read_study(config.study), config.state)
        log = stack.enter_context(EgressLog.open(silo.state, name, key))
        approve(log, config, silo.study)
        found[name] = Hospital(silo, key, open_gate(config, silo.study, log, lambda: True), kind)
    return found


def coordinator_of(hospitals: Mapping[str, Hospital]) -> SumCoordinator:
    terms = next(iter(hospitals.values())).silo.study.sums
    assert terms is not None
    return SumCoordinator(terms)


def summed(
    hospitals: Mapping[str, Hospital], shape: Shape | None = None, faults: list[Fault | None] | None = None
) -> SecureSum:
    """The sum of what the silos have ready: of their labels, where no shape is given. ``faults`` gets what they say."""

    def exchange(requests: Requests) -> dict[str, bytes]:
        replies = {name: hospitals[name].add(request) for name, request in requests.items()}
        if faults is not None:
            faults.extend(fault_of(reply) for reply in replies.values() if Header.of(reply).step is Step.REFUSED)
        return replies

    coordinator = coordinator_of(hospitals)
    begin_session(coordinator, exchange)
    return sum_securely(coordinator, exchange, shape or next(iter(hospitals.values())).shape)


def test_ready_answers_are_added_once_and_all_that_leaves_is_on_record(hospitals: dict[str, Hospital]) -> None:
    kept = []
    for hospital in hospitals.values():
        assert isinstance(hospital.ask(hospital.question), bytes)
        kept.append(hospital.kept(hospital.shape))
    total = summed(hospitals).total
    np.testing.assert_array_equal(total, np.sum(kept, axis=0, dtype=np.uint64))
    assert (total.reshape(-1, 2).sum(axis=1) == len(HOSPITALS)).all()
    for name, hospital in hospitals.items():
        spent = hospital.gate.spent()
        assert (spent.rounds, spent.queries) == (1, 10)
        assert verify_log(hospital.silo.state, hospital.key.public_key(), name).intact
        # Another gate on the same log, as after a restart: its part in sums remembers no subject.
        hospital.gate = open_gate(hospital.silo.config, hospital.silo.study, hospital.gate._log, lambda: True)
    faults: list[Fault | None] = []
    with pytest.raises(SumRefused):
        summed(hospitals, faults=faults)
    assert faults == [Fault.REPEATED] * 4


def test_nothing_of_a_sum_leaves_without_policy_approval_and_room(tmp_path: Path) -> None:
    with ExitStack() as stack:
        hospitals = opened(tmp_path / "few", stack, max_bytes=200)
        with pytest.raises(SumRefused) as refused:
            summed(hospitals)
        assert refused.value.fault is Fault.TOO_FEW
        assert all(hospital.gate.spent().bytes <= 200 for hospital in hospitals.values())
    with ExitStack() as stack:
        hospitals = opened(tmp_path / "plain", stack, kinds=["hard"])
        invited = coordinator_of(hospitals).invite()
        assert outcome(hospitals["cleveland"].add(invited["cleveland"])) is Refusal.POLICY
        for hospital in hospitals.values():
            assert hospital.ask(hospital.question) is Refusal.POLICY
            assert all(entry.event is not Event.ADDED for entry in hospital.gate._log.entries())
    with ExitStack() as stack:
        # A number for each class.
        hospital = opened(tmp_path / "less", stack, max_queries=9)["cleveland"]
        assert hospital.ask(hospital.question) is Refusal.LIMIT


@pytest.mark.parametrize("policy", [{"min_summands": 4}, {"may_collude": 2}])
def test_a_study_that_protects_less_than_the_policy_asks_is_refused(tmp_path: Path, policy: dict[str, int]) -> None:
    with ExitStack() as stack, pytest.raises(ConfigError):
        opened(tmp_path, stack, **policy)
