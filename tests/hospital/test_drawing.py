"""What real silos count, for a public set and of patients: two apps on the loopback, with each silo's gate between."""

import shutil
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest
import tomli_w
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.app import Context, Message, RecordDict
from flwr.clientapp import ClientApp
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.silo.verify import released
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.drawing.counts import GRID
from fedct_flwr.drawing.patients import PatientCount
from fedct_flwr.drawing.simulated import derived, placed, with_drawn
from fedct_flwr.flower.loopback import run_loopback
from fedct_flwr.hospital.keys import public_key_path
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.privacy.budget import DATA_SET
from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.privacy.noise_shares import NoiseShares
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.noisy_sum import count_plan, plan_of
from fedct_flwr.types import Refusal, RunError
from fedct_flwr.wire.content import Histograms, Instruction, Query
from fedct_flwr.wire.messages import ACTION
from server_app.main import app as server_app
from tests.hospital.gates import through
from tests.hospital.test_adding import opened
from tests.hospitals import HOSPITALS, STUDY, dataset, restart
from tests.silo.real import TERMS, answered

HEART = dataset()
COLUMNS = {name: form.model_dump(mode="json", exclude_defaults=True) for name, form in derived(HEART).columns.items()}
RECORDS = sum(silo.units for silo in HEART.silos)
DRAWN: dict[str, Any] = {"records": RECORDS}


class Federation:
    """Four hospitals that have approved to count; ``away`` get no message, ``silent`` none of sums."""

    def __init__(
        self, folder: Path, stack: ExitStack, columns: dict[str, Any], tables: Any = MappingProxyType({}), **draw: Any
    ) -> None:
        agreed = {"draw": {**DRAWN, **draw}, "columns": columns}
        self.open(folder, stack, ["draw"], agreed, tables)

    def open(self, folder: Path, stack: ExitStack, kinds: list[str], agreed: dict[str, Any], tables: Any) -> None:
        self.folder = folder
        self.silos = opened(folder, stack, agreed="\n" + tomli_w.dumps(agreed), tables=tables, kinds=kinds)
        self.study = Path(shutil.copytree(folder / "zurich" / "study", folder / "study"))
        self.away: set[str] = set()
        self.silent: set[str] = set()
        self.app = ClientApp()
        self.app.train()(self._answer)
        self.app.query(ACTION)(self._answer)

    def _answer(self, message: Message, context: Context) -> Message:
        name = Path(str(context.node_config["silo-file"])).parent.name
        if name in (self.away if message.metadata.message_type == "train" else self.silent):
            raise RuntimeError
        return Message(through(self.silos[name].gate, message, context), reply_to=message)

    def draw(self, run: str = "run", **settings: Any) -> RunFolder:
        return self.run(run, {"algorithm": "draw", "draw-rows": 300, **settings})

    def run(self, run: str, settings: dict[str, Any]) -> RunFolder:
        config = {
            "study": STUDY, "data": "study", "data-dir": str(self.study), "roster": ",".join(HOSPITALS),
            "roster-deadline": 0.5, "run-dir": str(self.folder / run), **settings,
        }  # fmt: skip
        nodes = [{"silo-file": self.folder / name / "silo.toml"} for name in HOSPITALS]
        run_loopback(server_app, self.app, config, nodes)
        return RunFolder(self.folder / run)

    def charges(self, most: float = 1.0) -> list[int]:
        found = []
        for hospital in self.silos.values():
            with Ledger(hospital.silo.config.state) as ledger:
                spent = ledger.spent(STUDY, DATA_SET)
            assert spent is None or spent.epsilon.upper <= most
            found.append(spent.charges if spent else 0)
        return found


@pytest.fixture
def federation(tmp_path: Path) -> Iterator[Federation]:
    with ExitStack() as stack:
        yield Federation(tmp_path, stack, COLUMNS)


def drawn(folder: RunFolder) -> str:
    return (folder.path / "public.csv").read_text("utf-8")


def test_four_hospitals_draw_a_set_that_is_charged_once_and_on_record(federation: Federation) -> None:
    folder = federation.draw()
    rows = drawn(folder).splitlines()
    assert len(rows) == 301
    assert rows[0].replace('"', "").split(",") == [column.name for column in HEART.schema.columns]
    assert folder.read_json("result.json")["drawn"]["honest"] == 2
    plan = plan_of(federation.silos["zurich"].silo.study)
    cells, y, _ = placed(plan.form, HEART.silos)
    opened = folder.load_checkpoint().state["columns"] - plan.counts(cells, y)
    # Four shares of the noise, and nothing else: 100 numbers or more fail less than once in a million.
    assert 0.65 < opened.std() / (2 * plan.noise.share_scale) < 1.4
    assert federation.charges() == [1] * 4
    for hospital in federation.silos.values():
        lines = list(hospital.gate._log.entries())
        assert {line.kind for line in lines if line.event in (Event.RELEASED, Event.ADDED)} == {"draw"}
        assert len([line for line in lines if line.event is Event.ADDED and line.request]) == 1
    # Drawn again it is the same; in another run the silos would have to add once more.
    assert drawn(federation.draw(resume=True)).splitlines() == rows
    with pytest.raises(RunError, match=r"zurich: the silo has already added .*; an earlier run has asked for this sum"):
        federation.draw("another")
    assert federation.charges() == [1] * 4


def test_without_noise_it_is_the_set_of_a_simulation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoiseShares, "share", lambda shares, noise: np.zeros(shares.numbers, dtype=np.int64))
    simulated = RunConfig.from_flower({"study": STUDY, "data": STUDY, "public": "drawn", "draw-rows": 300})
    expected = with_drawn(HEART, simulated)
    with ExitStack() as stack:
        federation = Federation(tmp_path, stack, COLUMNS)
        folder = federation.draw()
    # As a study reads it.
    text = (federation.study / "study.toml").read_text("utf-8").replace('"public.csv"', '"drawn.csv"')
    (federation.study / "study.toml").write_text(text)
    (federation.study / "drawn.csv").write_bytes((folder.path / "public.csv").read_bytes())
    found = read_study(federation.study).public.X
    np.testing.assert_allclose(found, expected.public.X, rtol=0, atol=0.1)
    whole = expected.public.X % 1 == 0
    np.testing.assert_array_equal(found[whole], expected.public.X[whole])


def test_too_few_silos_are_one_sentence_and_asked_again_at_no_cost(
    federation: Federation, wording: SnapshotAssertion
) -> None:
    federation.away = {"budapest", "zurich"}
    with pytest.raises(RunError) as caught:
        federation.draw()
    assert str(caught.value) == wording
    assert sorted(federation.charges()) == [0, 0, 1, 1]
    federation.away = set()
    assert drawn(federation.draw(resume=True))
    assert federation.charges() == [1] * 4


def test_a_sum_that_is_lost_is_said_to_be_paid_for(federation: Federation, wording: SnapshotAssertion) -> None:
    federation.silent = {"budapest", "zurich"}
    with pytest.raises(RunError) as caught:
        federation.draw()
    assert str(caught.value) == wording
    federation.silent = set()
    with pytest.raises(RunError, match="privacy budget does not cover another answer"):
        federation.draw(resume=True)
    assert federation.charges() == [1] * 4


@pytest.mark.parametrize(("drawn", "answers"), [(0.3, True), (1.0, False)])
def test_labels_get_what_a_drawn_set_leaves_of_the_budget(
    tmp_path: Path,
    drawn: float,
    answers: bool,
    request: pytest.FixtureRequest,
    without_gate: None,
    caplog: pytest.LogCaptureFixture,
) -> None:
    with ExitStack() as stack:
        federation = Federation(tmp_path, stack, COLUMNS, tables={"privacy": {"epsilon": 1.0}}, epsilon=drawn)
        federation.draw()
        path = tmp_path / "zurich" / "silo.toml"
        text = (
            path.read_text("utf-8").replace('"draw"', '"hard"').replace("epsilon", 'protection = "dp-linear"\nepsilon')
        )
        path.write_text(text)
        restart()
        request.getfixturevalue("in_a_run")
        nothing = np.full(TERMS.num_public, -1, dtype=np.int16)
        context = Context(7, 7, {"silo-file": str(path)}, RecordDict(), {})
        labels = answered(Instruction(1, Query(0, TERMS.num_public), nothing), context)[1]
        assert (labels is not Refusal.CONFIG) is answers
        assert federation.charges() == [1, 1, 1 + answers, 1]
    assert ("so nothing is left for labels: raise that" in caplog.text) is not answers


# --- counts of patients who meet a condition


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
def counting(tmp_path: Path) -> Iterator[Counting]:
    with ExitStack() as stack:
        yield Counting(tmp_path, stack)


def test_four_hospitals_count_within_the_noise_are_charged_once_and_read_what_they_were_asked(
    counting: Counting, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = counting.count()
    found = folder.read_json("result.json")["count"]
    plan = count_plan(counting.silos["zurich"].silo.study, QUESTION)
    opened = folder.load_checkpoint().state["columns"] / GRID
    # Five standard deviations of four shares of the noise.
    assert abs(opened[0] - TRUE) < 5 * 2 * plan.noise.share_scale / GRID
    assert opened[0] != TRUE
    assert found["silos"] == 4
    assert found["all"].keys() <= {"about", "low", "high", "fewer_than"}
    assert counting.charges() == [1] * 4
    for hospital in counting.silos.values():
        lines = list(hospital.gate._log.entries())
        assert {line.kind for line in lines if line.event in (Event.RELEASED, Event.ADDED)} == {"count"}
    found = counting.count("by", **{"count-by": "label"}).read_json("result.json")["count"]
    assert [*found["cells"]] == ["healthy", "diseased", "missing or another value"]
    hospital = counting.silos["zurich"]
    path = public_key_path(hospital.silo.config.egress_key)
    path.parent.mkdir()
    path.write_bytes(hospital.key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    capsys.readouterr()
    released(hospital.silo.config.study.parent)
    asked = capsys.readouterr().out.splitlines()
    assert asked[1].endswith(f",1,,{WHERE},")
    assert asked[2].endswith(f",1,,{WHERE} by label,")


def test_each_other_question_is_charged_until_the_budget_is_used_up(
    counting: Counting, wording: SnapshotAssertion
) -> None:
    # Gaussian noise of epsilon 0.5 composes to 1 with the third, and no more.
    for number in range(3):
        counting.count(f"run-{number}", f"age >= {number}")
    with pytest.raises(RunError) as caught:
        counting.count("another", "age >= 4")
    assert str(caught.value) == wording
    assert counting.charges() == [3] * 4


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
