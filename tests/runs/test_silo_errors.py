"""A learner's error in a simulation reaches whoever runs it, and no message."""

import threading
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

import fedct_flwr
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.silo_errors import FILE, all_errors, errors_of, grouped, keep_error, last_errors
from fedct_flwr.types import RunError, TrainingError
from tests.federation.learners import SECRET
from tests.models.test_boosting_libraries import PUBLIC, SILOS

RAISING = "tests.federation.learners.Raising"


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    return RunFolder(tmp_path)


def test_each_round_has_its_own(folder: RunFolder) -> None:
    keep_error(folder, 1, "bonn", TrainingError("no tree: ValueError: no"))
    keep_error(folder, 2, "celle", KeyError("x"))
    assert errors_of(folder, 1) == {"bonn": "no tree: ValueError: no"}
    assert last_errors(folder) == {"celle": "KeyError: 'x'"}
    assert all_errors(folder) == {**errors_of(folder, 1), **errors_of(folder, 2)}
    assert errors_of(folder, 3) == {}


def test_there_are_none_where_there_is_no_file_or_a_damaged_one(folder: RunFolder) -> None:
    assert last_errors(folder) == {}
    keep_error(folder, 1, "bonn", KeyError("x"))
    with (folder.path / FILE).open("a") as file:
        file.write('{"round": 1, "silo"\nnull\n{"round": "x", "silo": 1, "text": 2}\n')
    assert last_errors(folder) == {"bonn": "KeyError: 'x'"}


def test_a_folder_that_is_gone_stops_nobody(folder: RunFolder) -> None:
    keep_error(RunFolder(folder.path / "gone"), 1, "bonn", KeyError("x"))
    assert not (folder.path / "gone").exists()


def test_a_text_is_one_line_of_a_bearable_length_that_hides_nothing(folder: RunFolder) -> None:
    keep_error(folder, 1, "bonn", ValueError("a\n\n  b\x1b[2J" + "x" * 10_000))
    (text,) = last_errors(folder).values()
    assert text.startswith(r"ValueError: a b\x1b[2Jxx")
    assert len(text) < 700


def test_several_silos_at_once_lose_no_line(folder: RunFolder) -> None:
    names = [f"silo-{number}" for number in range(40)]
    threads = [threading.Thread(target=keep_error, args=(folder, 1, name, KeyError("x" * 400))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(errors_of(folder, 1)) == set(names)


def test_many_silos_with_the_same_error_are_one_line() -> None:
    (line,) = grouped({f"silo-{number}": "ValueError: no" for number in range(1000)})
    assert line == "silo-0, silo-1, silo-2 and 997 more: ValueError: no"


def test_a_run_that_fails_raises_type_text_and_silo(tmp_path: Path, wording: SnapshotAssertion) -> None:
    with pytest.raises(RunError) as failed:
        fedct_flwr.simulate(SILOS, PUBLIC, label="label", learner=RAISING, run_dir=tmp_path / "run", progress=False)
    assert str(failed.value) == wording


def test_a_run_that_goes_on_without_a_silo_warns(tmp_path: Path) -> None:
    learners = {"ahlen": "decision-tree", "bonn": RAISING, "celle": "decision-tree"}
    with pytest.warns(UserWarning, match=f"bonn: Raising .*: ValueError: {SECRET}"):
        run = fedct_flwr.simulate(
            SILOS, PUBLIC, label="label", learner=learners, run_dir=tmp_path / "run", rounds=2, progress=False
        )
    assert run.status == "completed"
    assert SECRET not in (run.path / "rounds.jsonl").read_text()
    assert SECRET not in (run.path / "result.json").read_text()
