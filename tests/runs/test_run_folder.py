"""What a run leaves behind is whole, and a run that was killed goes on where its checkpoint stands."""

import io
import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.runs.records import errors_of, keep_error
from fedct_flwr.runs.run_folder import Checkpoint, RunFolder
from fedct_flwr.types import ABSTAIN, RunError, TrainingError
from tests.sentences import sentence

SETTINGS = {"seed": 0, "quorum": 0.9, "learner": "svm"}
FACTS = {"num_public": 3, "classes": ("no", "yes")}
NOTHING_MAY_CHANGE: frozenset[str] = frozenset()
TARGETS = np.int16([0, 1, ABSTAIN])

ON_A_FULL_DISK = """
import resource, signal, sys
from pathlib import Path
import numpy as np
from fedct_flwr.runs.run_folder import Checkpoint, RunFolder
from fedct_flwr.types import RunError

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limit = int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    {action}
except RunError as error:
    print(error)
"""


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder.create(tmp_path / "run", SETTINGS, FACTS)
    # As when its coordinator has ended.
    folder.close()
    return folder


def record(number: int, **changes: Any) -> dict[str, Any]:
    return {"round": number, "changed": 1, "silos": {"oslo": {"bytes_sent": 90, "agreement": 0.75}}, **changes}


def run_rounds(folder: RunFolder, last: int, targets: np.ndarray = TARGETS) -> None:
    for number in range(1, last + 1):
        folder.append_round(record(number))
        folder.save_checkpoint(Checkpoint(number, targets, {}))


def on_a_full_disk(folder: RunFolder, action: str, limit: int) -> str:
    command = [sys.executable, "-c", ON_A_FULL_DISK.format(action=action), str(folder.path), str(limit)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def names(folder: RunFolder) -> set[str]:
    return {path.name for path in folder.path.iterdir()} - {".lock"}


class TestCreate:
    def test_writes_settings_facts_and_versions(self, folder: RunFolder):
        config = folder.read_json("config.json")
        assert config["settings"] == SETTINGS
        assert config["num_public"] == 3
        assert {"fedct-flwr", "python", "flwr", "numpy", "scikit-learn"} <= set(config["versions"])

    def test_refuses_to_overwrite_a_run(self, folder: RunFolder):
        before = (folder.path / "config.json").read_bytes()
        with pytest.raises(RunError, match="exists: choose another one, or resume"):
            RunFolder.create(folder.path, {"seed": 1}, {})
        assert (folder.path / "config.json").read_bytes() == before


class TestVersion:
    @pytest.mark.parametrize("version", ["99.0.0", "0.999", "9" * 5000])
    def test_a_newer_one_is_refused(self, folder: RunFolder, version: str):
        config = folder.read_json("config.json")
        (folder.path / "config.json").write_text(json.dumps(config | {"versions": {"fedct-flwr": version}}))
        with pytest.raises(RunError, match=f"of fedct-flwr {version[:40]} and this is .*: update fedct-flwr"):
            folder.settings()
        with pytest.raises(RunError, match="update fedct-flwr"):
            RunFolder.resume(folder.path, SETTINGS, FACTS, NOTHING_MAY_CHANGE)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"round": Infinity}\n'], ids=["nested without end", "infinite"])
def test_files_that_no_run_wrote_are_damaged(folder: RunFolder, text: str):
    (folder.path / "result.json").write_text(text)
    (folder.path / "rounds.jsonl").write_text(f"{text}\n")
    with pytest.raises(RunError, match="is damaged"):
        folder.rounds()
    if "round" not in text:
        with pytest.raises(RunError, match=r"cannot read result\.json"):
            folder.read_json("result.json")


class TestCheckpoint:
    def test_round_trip(self, folder: RunFolder):
        trust = np.float64([0.25, 0.75])
        folder.save_checkpoint(Checkpoint(7, TARGETS, {"trust": trust, "targets": np.int16([5])}))
        stored = folder.load_checkpoint()
        assert stored.round == 7
        assert stored.targets.dtype == np.int16
        assert stored.targets.tolist() == TARGETS.tolist()
        assert stored.state.keys() == {"trust", "targets"}
        assert (stored.state["trust"] == trust).all()

    def test_state_that_would_need_pickle_is_not_written(self, folder: RunFolder):
        with pytest.raises(ValueError, match="Object arrays"):
            folder.save_checkpoint(Checkpoint(1, TARGETS, {"names": np.array(["a", None], dtype=object)}))
        assert names(folder) == {"config.json"}


def npz(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


class Trap:
    """Writes a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple:
        return Path.touch, (self.path,)


class TestDamagedCheckpoint:
    @pytest.fixture
    def damaged(self, folder: RunFolder):
        def load(content: bytes) -> Checkpoint:
            (folder.path / "checkpoint.npz").write_bytes(content)
            return folder.load_checkpoint()

        return load

    @pytest.mark.parametrize(
        "content", [b"", b"PK\x03\x04 only begins like one", npz(round=1), npz(round="one", targets=TARGETS)]
    )
    def test_garbage_is_refused(self, content: bytes, damaged):
        with pytest.raises(RunError, match="is damaged: start a new run"):
            damaged(content)

    @pytest.mark.parametrize("name", ["round", "targets", "state_trust"])
    def test_a_pickled_array_is_refused_and_not_unpickled(self, name: str, tmp_path: Path, damaged):
        arrays = {"round": 1, "targets": TARGETS, name: np.array([Trap(tmp_path / "sprung")], dtype=object)}
        with pytest.raises(RunError, match="damaged"):
            damaged(npz(**arrays))
        assert not (tmp_path / "sprung").exists()


class TestResume:
    def test_names_the_settings_that_changed(self, folder: RunFolder):
        run_rounds(folder, 1)
        with pytest.raises(RunError, match=r"other settings: set back learner, seed$"):
            RunFolder.resume(folder.path, SETTINGS | {"seed": 1, "learner": "tree"}, FACTS, NOTHING_MAY_CHANGE)

    def test_other_data_cannot_continue_a_run(self, folder: RunFolder):
        run_rounds(folder, 1)
        with pytest.raises(RunError, match="other data: num_public changed"):
            RunFolder.resume(folder.path, SETTINGS, FACTS | {"num_public": 4}, NOTHING_MAY_CHANGE)

    def test_forgets_rounds_after_the_checkpoint(self, folder: RunFolder):
        run_rounds(folder, 2)
        folder.append_round(record(3))
        resumed, _ = RunFolder.resume(folder.path, SETTINGS, FACTS, NOTHING_MAY_CHANGE)
        resumed.append_round(record(3, changed=0))
        assert [(line["round"], line["changed"]) for line in resumed.rounds()] == [(1, 1), (2, 1), (3, 0)]

    def test_without_a_finished_round_there_is_nothing_to_resume(self, folder: RunFolder):
        folder.append_round(record(1))
        with pytest.raises(RunError, match="no round was finished"):
            RunFolder.resume(folder.path, SETTINGS, FACTS, NOTHING_MAY_CHANGE)

    def test_a_refused_resume_leaves_the_folder_as_it_was(self, folder: RunFolder):
        run_rounds(folder, 1)
        folder.append_round(record(2))
        before = {path: path.read_bytes() for path in folder.path.iterdir()}
        with pytest.raises(RunError):
            RunFolder.resume(folder.path, {}, FACTS, NOTHING_MAY_CHANGE)
        assert {path: path.read_bytes() for path in folder.path.iterdir()} == before

    @pytest.mark.parametrize("content", ["", "{", "{}", "[]", "null", '{"settings": null}', '{"settings": []}'])
    def test_a_damaged_config_is_refused(self, content: str, folder: RunFolder):
        run_rounds(folder, 1)
        (folder.path / "config.json").write_text(content)
        with pytest.raises(RunError, match="is no complete run folder"):
            RunFolder.resume(folder.path, SETTINGS, FACTS, NOTHING_MAY_CHANGE)


class TestLock:
    def test_a_run_that_has_a_coordinator_cannot_be_resumed_by_another(
        self, tmp_path: Path, wording: SnapshotAssertion
    ):
        folder = RunFolder.create(tmp_path / "run", SETTINGS, FACTS)
        run_rounds(folder, 1)
        assert sentence(RunError, RunFolder.resume, folder.path, SETTINGS, FACTS, NOTHING_MAY_CHANGE) == wording
        folder.close()
        resumed, _ = RunFolder.resume(folder.path, SETTINGS, FACTS, NOTHING_MAY_CHANGE)
        assert sentence(RunError, RunFolder.resume, folder.path, SETTINGS, FACTS, NOTHING_MAY_CHANGE) == wording
        resumed.close()

    def test_a_coordinator_that_was_killed_holds_no_lock(self, tmp_path: Path):
        code = (
            "import os, sys; from pathlib import Path; from fedct_flwr.runs.run_folder import *; import numpy as np\n"
            f"folder = RunFolder.create(Path(sys.argv[1]), {SETTINGS!r}, {FACTS!r})\n"
            "folder.save_checkpoint(Checkpoint(1, np.int16([0]), {}))\n"
            "os.kill(os.getpid(), 9)"
        )
        ended = subprocess.run([sys.executable, "-c", code, str(tmp_path / "run")], check=False)
        assert ended.returncode == -9
        _, checkpoint = RunFolder.resume(tmp_path / "run", SETTINGS, FACTS, NOTHING_MAY_CHANGE)
        assert checkpoint.round == 1


class TestFullDisk:
    @pytest.fixture(autouse=True)
    def two_rounds(self, folder: RunFolder):
        run_rounds(folder, 2)

    def test_the_checkpoint_before_stays(self, folder: RunFolder, wording: SnapshotAssertion):
        before = names(folder)
        said = on_a_full_disk(
            folder,
            "targets = np.random.default_rng(0).integers(0, 9999, 5000).astype(np.int16);"
            "RunFolder(Path(sys.argv[1])).save_checkpoint(Checkpoint(3, targets, {}))",
            limit=2048,
        )
        assert said == wording
        assert names(folder) == before
        assert folder.load_checkpoint().round == 2

    def test_a_round_that_could_not_be_written_is_not_there_and_the_run_goes_on_with_room(self, folder: RunFolder):
        """Only 20 bytes of the third round fit."""
        said = on_a_full_disk(
            folder,
            "RunFolder(Path(sys.argv[1])).append_round({'round': 3, 'silos': {}})",
            limit=(folder.path / "rounds.jsonl").stat().st_size + 20,
        )
        assert said.startswith(f"cannot write round 3 to {folder.path}: File too large; fix that")
        assert [line["round"] for line in folder.rounds()] == [1, 2]
        resumed, checkpoint = RunFolder.resume(folder.path, SETTINGS, FACTS, NOTHING_MAY_CHANGE)
        resumed.append_round(record(3))
        assert checkpoint.round == 2
        assert [line["round"] for line in resumed.rounds()] == [1, 2, 3]


class TestResult:
    def test_labels_are_empty_where_silos_abstain(self, folder: RunFolder):
        folder.save_labels(np.int16([1, ABSTAIN, 0]), ("no", "yes"))
        assert (folder.path / "labels.csv").read_bytes() == b"example,label\n0,yes\n1,\n2,no\n"

    def test_values_are_empty_where_none_was_asked_for(self, folder: RunFolder):
        folder.save_values(np.float32([1.5, np.nan, -0.1]), "length, days")
        assert (folder.path / "values.csv").read_bytes() == b'example,"length, days"\n0,1.5\n1,\n2,-0.1\n'


# --- what a silo's learner raised


def test_each_round_has_its_own(folder: RunFolder) -> None:
    keep_error(folder, 1, "bonn", TrainingError("no tree: ValueError: no"))
    keep_error(folder, 2, "celle", KeyError("x"))
    assert errors_of(folder, 1) == {"bonn": "no tree: ValueError: no"}
    assert errors_of(folder) == {**errors_of(folder, 1), **errors_of(folder, 2)}
    assert errors_of(folder, 3) == {}


def test_several_silos_at_once_lose_no_line(folder: RunFolder) -> None:
    names = [f"silo-{number}" for number in range(40)]
    threads = [threading.Thread(target=keep_error, args=(folder, 1, name, KeyError("x" * 400))) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(errors_of(folder, 1)) == set(names)
