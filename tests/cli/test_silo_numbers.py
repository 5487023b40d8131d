"""A number to predict at real silos: in the study's range and on its grid, through approval, gate and log."""

import csv
import re
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from hypothesis import given
from hypothesis import strategies as st

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.study import StudyConfig
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.hospital.keys import create_egress_key, load_egress_key
from fedct_flwr.hospital.log_entry import Event, read_entries
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.types import ConfigError, Refusal, Refused
from fedct_flwr.wire.content import Grid
from fedct_flwr.wire.messages import ACTION
from fedct_flwr.wire.numbers import pack_values, unpack_values
from server_app.main import app as server_app
from tests.cli.silos import YES, Fedct, Kit, words
from tests.golden.hospital import answering

NUMBER = {"name": "progression", "low": 0.0, "high": 400.0, "step": 0.5}
LABEL = "in a year"


def write_rows(path: Path, names: list[str], X: np.ndarray, y: np.ndarray | None = None) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow([*names, LABEL] if y is not None else names)
        writer.writerows([*row, y[number]] if y is not None else row for number, row in enumerate(X.tolist()))


@pytest.fixture
def silos(tmp_path: Path) -> list[Path]:
    """The folders of a study of a number and of its silos, each with records and ``silo.toml``."""
    dataset = datasets.load(RunConfig.from_flower({"study": "diabetes", "data": "diabetes"}))
    columns = [column.name for column in dataset.schema.columns]
    for name in ("study", *(silo.name for silo in dataset.silos)):
        (tmp_path / name).mkdir()
    write_rows(tmp_path / "study" / "public.csv", columns, dataset.public.X)
    write_rows(tmp_path / "study" / "test.csv", columns, *dataset.test)
    study = {"study": "diabetes", "public": "public.csv", "test-file": "test.csv", "test-label": LABEL}
    (tmp_path / "study" / "study.toml").write_text(tomli_w.dumps({**study, "number": NUMBER}), "utf-8")
    for silo in dataset.silos:
        write_rows(tmp_path / silo.name / "data.csv", columns, *silo.private)
        settings = {
            "silo": silo.name,
            "study": "../study",
            "data": {"file": "data.csv", "label": LABEL, "test-fraction": 0.2},
            "learner": {"name": "ridge", "pseudo-weight": "auto"},
            "policy": {"kinds": ["soft"], "metrics": True},
            "connection": {"superlink": "127.0.0.1:8000"},
        }
        (tmp_path / silo.name / "silo.toml").write_text(tomli_w.dumps(settings), "utf-8")
    return [tmp_path / silo.name for silo in dataset.silos]


def run_of(silos: list[Path]) -> RunFolder:
    """Ask all of them, each behind its gate."""
    folder = silos[0].parent
    with ExitStack() as stack:
        for silo in silos:
            create_egress_key(silo / "keys" / "egress.key")
        gates = [answering(silo / "silo.toml", stack, load_egress_key(silo / "keys" / "egress.key")) for silo in silos]
        app = ClientApp()

        @app.query(ACTION)
        @app.train()
        def answer(message: Message, context: Context) -> Message:
            return gates[int(context.node_config["partition-id"])](message, context)

        config = {
            "study": "diabetes", "data": "study", "data-dir": str(folder / "study"), "algorithm": "dd",
            "roster": ",".join(silo.name for silo in silos), "num-server-rounds": 3, "run-dir": str(folder / "run"),
            "report-scores": True,
        }  # fmt: skip
        run_loopback(server_app, app, config, simulated_nodes(len(gates)), workers=1)
    return RunFolder(folder / "run")


def test_silos_answer_through_their_gates_and_gain(fedct: Fedct, silos: list[Path]) -> None:
    run = run_of(silos)
    with (run.path / "values.csv").open(newline="") as file:
        values = np.array([float(row["progression"]) for row in csv.DictReader(file)])
    assert len(values) == 180
    assert ((values >= NUMBER["low"]) & (values <= NUMBER["high"])).all()
    for silo in silos:
        released = [entry for entry in read_entries(silo / "state") if entry.event is Event.RELEASED]
        assert [(entry.kind, entry.queries) for entry in released] == [("soft", 180)] * 3
        # Two bytes each, and what is around them.
        assert all(360 < entry.bytes < 560 for entry in released)
    # R² on the pooled test set.
    first, *_, last = (
        np.mean([silo["scores"]["pooled_r_squared"] for silo in line["silos"].values()]) for line in run.rounds()
    )
    assert last > first + 0.1
    # What a silo says of it.
    lines = fedct("silo", "released", silos[0]).out.splitlines()
    assert lines[0] == "line,run,round,example,label,number"
    numbers = np.array([float(line.split(",")[5]) for line in lines[1:] if line.split(",")[3]])
    assert len(numbers) == 3 * 180
    assert (numbers * 2 == np.rint(numbers * 2)).all()
    assert "may leave  probabilities or values, each counted as a label" in fedct("silo", "status", silos[0]).out
    assert "What leaves are the values that the models themselves predict" in fedct("privacy-sheet", silos[0]).out
    predicted = fedct("silo", "predict", silos[0].parent / "study" / "public.csv", silos[0])
    assert predicted.code == 0, predicted.err
    assert predicted.out.splitlines()[0] == "record,progression"


# --- one silo's commands


@pytest.fixture
def kit(fedct: Fedct, silos: list[Path]) -> Kit:
    """One of them, made by the command."""
    first, folder = silos[0], silos[0].parent
    made = fedct(
        "silo", "init", folder / "made", "--silo", first.name, "--study", folder / "study", "--data",
        first / "data.csv", "--label", LABEL,
    )  # fmt: skip
    assert made.code == 0, made.err
    return Kit(folder / "made", folder)


def test_what_is_approved_says_range_and_grid(fedct: Fedct, kit: Kit) -> None:
    assert kit.config.policy.kinds == ("soft",)
    checked = fedct("silo", "check", kit.folder, "--offline")
    assert checked.code == 0, checked.out
    page = words(checked.out)
    assert "study diabetes: 'progression' from 0 to 400 in steps of 0.5, 10 columns" in page
    assert "labels: each of them is in the range of the study" in page
    outcome = fedct("silo", "approve", kit.folder, *YES)
    assert outcome.code == 0, outcome.err
    page = words(outcome.out)
    assert "trains auto to predict 'progression', from 0 to 400 in steps of 0.5" in page
    assert "values: one number for each public example asked about, rounded to the study's grid" in page
    assert "A value tells more than a class does" in page
    # Another grid is another study.
    study = kit.folder / "study" / "study.toml"
    study.write_text(study.read_text("utf-8").replace("step = 0.5", "step = 0.25"), "utf-8")
    assert not kit.is_approved


def test_a_record_outside_of_the_range_is_refused(fedct: Fedct, kit: Kit) -> None:
    data = kit.config.data.source
    lines = data.read_text("utf-8").splitlines()
    data.write_text("\n".join([*lines[:-1], lines[-1].rpartition(",")[0] + ",12345.5"]) + "\n", "utf-8")
    sentence = fedct("silo", "approve", kit.folder, *YES).sentence
    assert "has 1 record whose 'in a year' lies outside of the study's range, 0 to 400: check the unit" in sentence
    assert "12345" not in sentence
    checked = fedct("silo", "check", kit.folder, "--offline")
    assert checked.code == 3
    assert "no class of the study, or outside of its range" in words(checked.out)
    assert "12345" not in checked.out
    assert not kit.events


def test_a_mapping_of_classes_is_refused(fedct: Fedct, kit: Kit) -> None:
    kit.file.write_text(kit.file.read_text("utf-8") + '\n[data.mapping]\n"1" = "one"\n', "utf-8")
    assert "[data.mapping] in silo.toml is for classes" in fedct("silo", "approve", kit.folder, *YES).sentence


# --- the study


@pytest.mark.parametrize(
    ("number", "said"),
    [
        ({"low": 1.0, "high": 1.0}, "a whole number of steps"),
        ({"low": 2.0, "high": 1.0}, "a whole number of steps"),
        ({"step": 0.3}, "a whole number of steps"),
        ({"step": 0.001}, "a whole number of steps, 1 to 65,535 of them"),
        ({"step": -1.0}, "greater than 0"),
        ({"high": float("inf")}, "finite"),
        ({"low": 1e9, "high": 1e9 + 10, "step": 1.0}, "single precision cannot tell the steps apart"),
    ],
)
def test_a_wrong_grid_is_refused(number: dict[str, float], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        StudyConfig.read({"study": "one", "number": {**NUMBER, **number}}, "study.toml")


@pytest.mark.parametrize("more", [{}, {"classes": ["a"]}, {"classes": ["a", "b"], "number": NUMBER}])
def test_a_study_predicts_classes_or_a_number(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"name two classes or more; or \[number\]"):
        StudyConfig.read({"study": "one", **more}, "study.toml")


@given(st.integers(1, 65535), st.integers(-1000, 1000), st.sampled_from([0.125, 0.1, 1.0, 3.0]), st.data())
def test_a_grid_has_one_encoding_of_each_value(last: int, start: int, step: float, data: st.DataObject) -> None:
    grid = Grid(start * step, (start + last) * step, step)
    code = data.draw(st.integers(0, 65535))
    packed = code.to_bytes(2, "little")
    if code > grid.last:
        with pytest.raises(Refused) as caught:
            unpack_values(packed, 1, grid)
        assert caught.value.reason is Refusal.VALUES
    else:
        values = unpack_values(packed, 1, grid)
        assert values.dtype == np.float32
        assert pack_values(values, grid) == packed
    with pytest.raises(Refused):
        pack_values(np.float32([[np.nan]]), grid)
    assert pack_values(np.float32([[1e20], [-1e20]]), grid) == grid.last.to_bytes(2, "little") + bytes(2)
