"""How many patients of real silos meet a condition: the two apps on the loopback, with each silo's gate in between."""

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.silo.verify import released
from fedct_flwr.drawing.counts import GRID
from fedct_flwr.drawing.patients import PatientCount
from fedct_flwr.hospital.keys import public_key_path
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.noisy_sum import count_plan
from fedct_flwr.types import Refusal, RunError
from fedct_flwr.wire.content import Histograms, Instruction, Query
from tests.hospital.test_drawing import HEART, Federation

WHERE = "age >= 55 and label == 'diseased'"
QUESTION = PatientCount.of(WHERE, "", HEART.schema, {})
TRUE = sum(int(QUESTION.counts(*silo.private, silo.groups)[0]) for silo in HEART.silos)


class Counting(Federation):
    """Four hospitals that have approved counts of patients."""

    def __init__(self, folder: Path, stack: ExitStack, **tables: Any) -> None:
        self.open(folder, stack, ["count"], {"count": {"epsilon": 0.5}}, tables)

    def count(self, run: str = "run", where: str = WHERE, **settings: Any) -> RunFolder:
        return self.run(run, {"algorithm": "count", "count-where": where, **settings})


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Counting]:
    with ExitStack() as stack:
        yield Counting(tmp_path, stack)


def test_four_hospitals_count_within_the_noise_are_charged_once_and_read_what_they_were_asked(
    federation: Counting, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = federation.count()
    found = folder.read_json("result.json")["count"]
    plan = count_plan(federation.silos["zurich"].silo.study, QUESTION)
    opened = folder.load_checkpoint().state["columns"] / GRID
    # Five standard deviations of four shares of the noise.
    assert abs(opened[0] - TRUE) < 5 * 2 * plan.noise.share_scale / GRID
    assert opened[0] != TRUE
    assert found["silos"] == 4
    assert found["all"].keys() <= {"about", "low", "high", "fewer_than"}
    assert federation.charges() == [1] * 4
    for hospital in federation.silos.values():
        lines = list(hospital.gate._log.entries())
        assert {line.kind for line in lines if line.event in (Event.RELEASED, Event.ADDED)} == {"count"}
    found = federation.count("by", **{"count-by": "label"}).read_json("result.json")["count"]
    assert [*found["cells"]] == ["healthy", "diseased", "missing or another value"]
    hospital = federation.silos["zurich"]
    path = public_key_path(hospital.silo.config.egress_key)
    path.parent.mkdir()
    path.write_bytes(hospital.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    capsys.readouterr()
    released(hospital.silo.config.study.parent)
    asked = capsys.readouterr().out.splitlines()
    assert asked[1].endswith(f",1,,{WHERE},")
    assert asked[2].endswith(f",1,,{WHERE} by label,")


def test_each_other_question_is_charged_until_the_budget_is_used_up(
    federation: Counting, wording: SnapshotAssertion
) -> None:
    # Gaussian noise of epsilon 0.5 composes to 1 with the third, and no more.
    for number in range(3):
        federation.count(f"run-{number}", f"age >= {number}")
    with pytest.raises(RunError) as caught:
        federation.count("another", "age >= 4")
    assert str(caught.value) == wording
    assert federation.charges() == [3] * 4


def test_a_coordinator_that_makes_up_questions_gets_nothing(tmp_path: Path, in_a_run: None) -> None:
    with ExitStack() as stack:
        federation = Counting(tmp_path, stack)
        hospital = federation.silos["zurich"]
        study = hospital.silo.study
        nothing, asked = np.full(len(study.public), -1, dtype=np.int16), Histograms(study.digest, 1, WHERE)
        wrong = [
            asked._replace(study=bytes(32)), asked._replace(numbers=2), asked._replace(where="age >="),
            asked._replace(where="age\n>= 55"),
            asked._replace(where="surname == 'Meier'"), asked._replace(by="age"), asked._replace(where=""),
        ]  # fmt: skip
        answers = [
            hospital.ask(Instruction(1, Query(0, 1), nothing, histograms=one), run)
            for run, one in enumerate([*wrong, asked], 100)
        ]
        malformed = [Refusal.MALFORMED] * 5
        assert answers[:-1] == [Refusal.NOT_APPROVED, *malformed, Refusal.POLICY]
        assert isinstance(answers[-1], bytes)
        assert federation.charges() == [0, 0, 1, 0]
