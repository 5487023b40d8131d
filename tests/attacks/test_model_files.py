"""A model file with forged bytes: one sentence, or labels, and never the end of the process or an endless wait.

``FEDCT_FUZZ`` is the number of messages to the gate (``test_gate_fuzz``); a tenth as many files are read. Without it
100, which are always the same.
"""

import io
import json
import os
import resource
import struct
import subprocess
import sys
import warnings
import zipfile
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import TimeoutError as TooLong
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn
from joblib.externals.loky import ProcessPoolExecutor

from fedct_flwr.models.boosted import check
from fedct_flwr.models.foreign import LIMIT, ForeignModel
from fedct_flwr.models.model_file import load_model
from fedct_flwr.types import DataError, FedctError
from tests.attacks.mutated_models import PIXELS, legal_files, members, mutated, packed
from tests.models import test_model_file
from tests.models.test_model_file import description, saved, table

FILES = int(os.environ.get("FEDCT_FUZZ", "1000")) // 10
SEED = int.from_bytes(os.urandom(4)) if "FEDCT_FUZZ" in os.environ else 0
SECONDS = 120.0
"""For one file, which takes milliseconds."""
MOST_MEMORY = 2 << 30
"""Bytes; the libraries alone take a quarter of it."""
MOST_LETTERS = 1000


QUIET = {"OMP_NUM_THREADS": "1", "PYTHONFAULTHANDLER": ""}


class Reader:
    """A process that reads many files, and is started again when it dies or hangs."""

    def __init__(self) -> None:
        self._process: Any = None

    def read(self, path: Path, of: str) -> str:
        """What the file leads to: labels, an error's name, crash, hang, or what nobody foresaw."""
        # Threads would wait for each other where others keep the cores busy.
        self._process = self._process or ProcessPoolExecutor(max_workers=1, env=QUIET)
        try:
            found: str = self._process.submit(outcome, path, of).result(SECONDS)
        except BrokenProcessPool:
            self.end()
            return "crash"
        except TooLong:
            self.end()
            return "hang"
        except Exception as error:
            return f"{type(error).__name__}: {error}"
        return found

    def peak(self) -> int:
        """Bytes of memory, at most, that the process had."""
        found: int = self._process.submit(_peak).result(SECONDS) if self._process else 0
        return found

    def end(self) -> None:
        if self._process is not None:
            self._process.shutdown(wait=True, kill_workers=True)
        self._process = None


def outcome(path: Path, of: str) -> str:
    X = np.zeros((3, PIXELS), np.float32) if of.startswith("fashion") else table(seed=1)[0]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            model = load_model(path)
            model.predict(X)
            model.probabilities(X)
    except FedctError as error:
        said = str(error)
        assert "\n" not in said, said
        assert len(said) < MOST_LETTERS, said
        return type(error).__name__
    return "labels"


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@pytest.fixture(scope="module")
def reader() -> Iterator[Reader]:
    reader = Reader()
    yield reader
    reader.end()


def test_mutated_files_of_all_learners_end_in_labels_or_one_sentence(tmp_path: Path, reader: Reader) -> None:
    files = list(legal_files(tmp_path).items())
    rng = np.random.default_rng(SEED)
    found: Counter[str] = Counter()
    for name, content in files:
        (tmp_path / "whole").write_bytes(content)
        assert reader.read(tmp_path / "whole", name) == "labels", name
    for number in range(FILES):
        name, content = files[number % len(files)]
        path = tmp_path / f"{number}"
        path.write_bytes(mutated(rng, content))
        kind = reader.read(path, name)
        assert kind in ("labels", "DataError", "ConfigError", "TrainingError"), f"{name}, {path}, seed {SEED}: {kind}"
        found[kind] += 1
        path.unlink()
    assert reader.peak() < MOST_MEMORY
    # Had nothing reached the readers, nothing would be shown.
    assert found["labels"] > FILES / 20
    assert found["DataError"] > FILES / 20


def test_a_tree_whose_nodes_have_no_shape_is_refused(tmp_path: Path, reader: Reader) -> None:
    """scikit-learn reads the first axis of an array that has none: found by the mutated files above."""
    name, content = next(item for item in legal_files(tmp_path).items() if item[0] == "decision-tree")
    flat, forged = io.BytesIO(), tmp_path / "forged"
    np.save(flat, np.int64(3))
    changed = 0
    with zipfile.ZipFile(io.BytesIO(content)) as whole, zipfile.ZipFile(forged, "w") as file:
        for entry in whole.infolist():
            part = whole.read(entry)
            is_nodes = b"left_child" in part[:200]
            changed += is_nodes
            file.writestr(entry, flat.getvalue() if is_nodes else part)
    assert changed == 1
    assert reader.read(forged, name) == "DataError"


class TestBoosters:
    """XGBoost's own reader follows these; such as one of 'parents' ended the process."""

    ROOT = 2**31 - 1

    @pytest.mark.parametrize(
        ("array", "node", "forged"),
        [
            ("parents", 1, 2**31 - 2),
            ("parents", 2, 10**6),
            ("parents", 8, -(10**9)),
            ("left_children", 0, 0),
            ("left_children", 0, 10**6),
            ("right_children", 0, 1),
            ("right_children", 1, -5),
            ("split_indices", 0, 10**6),
            ("split_indices", 0, ROOT),
        ],
    )
    def test_one_index_out_of_bounds(self, tmp_path: Path, reader: Reader, array: str, node: int, forged: int) -> None:
        def forge(content: bytearray) -> None:
            at = self.begin(content, array)
            struct.pack_into(">i", content, at + len(b"[$l#L") + 8 + 4 * node, forged)

        assert self.outcome(tmp_path, reader, forge) == "DataError"

    @pytest.mark.parametrize("array", ["parents", "split_type", "categories_sizes", "base_weights"])
    @pytest.mark.parametrize("length", [-1, 0, 3, 2**31, 2**62])
    def test_another_length(self, tmp_path: Path, reader: Reader, array: str, length: int) -> None:
        if array == "categories_sizes" and length == 0:
            length = 1

        def forge(content: bytearray) -> None:
            struct.pack_into(">q", content, self.begin(content, array) + len(b"[$l#L"), length)

        assert self.outcome(tmp_path, reader, forge) == "DataError"

    @pytest.mark.parametrize("array", ["parents", "split_type", "sum_hessian"])
    @pytest.mark.parametrize("marker", b"iUIlLdDSTFZ[{C\x00")
    def test_another_type(self, tmp_path: Path, reader: Reader, array: str, marker: int) -> None:
        whole: list[int] = []

        def forge(content: bytearray) -> None:
            at = self.begin(content, array) + len(b"[$")
            whole.append(content[at])
            content[at] = marker

        assert self.outcome(tmp_path, reader, forge) == ("labels" if whole == [marker] else "DataError")

    @pytest.mark.parametrize(
        ("said", "forged"),
        [
            (b"num_classSL\0\0\0\0\0\0\0\x013", b"num_classSL\0\0\0\0\0\0\0\x010"),
            (b"num_nodesSL\0\0\0\0\0\0\0\x0217", b"num_nodesSL\0\0\0\0\0\0\0\x0299"),
            (b"num_parallel_treeSL\0\0\0\0\0\0\0\x011", b"num_parallel_treeSL\0\0\0\0\0\0\0\x010"),
            (b"num_treesSL\0\0\0\0\0\0\0\x019", b"num_treesSL\0\0\0\0\0\0\0\x010"),
            (b"nthreadSL\0\0\0\0\0\0\0\x011", b"nthreadSL\0\0\0\0\0\0\0\x09999999999"),
        ],
    )
    def test_another_number_of_anything(self, tmp_path: Path, reader: Reader, said: bytes, forged: bytes) -> None:
        def forge(content: bytearray) -> None:
            assert said in content
            content[:] = content.replace(said, forged)

        assert self.outcome(tmp_path, reader, forge) == "DataError"

    @pytest.mark.parametrize(
        "settings",
        [
            {"gamma": 5.0},
            {"tree_method": "exact", "gamma": 1.0, "max_depth": 12},
            {"tree_method": "approx"},
            {"num_parallel_tree": 3, "subsample": 0.5},
            {"grow_policy": "lossguide", "max_leaves": 4},
            {"n_jobs": -1},
            {"n_jobs": None},
            {"base_score": 0.3},
            {"min_child_weight": 1e6},
            {"monotone_constraints": (1, 0, 0, 0)},
        ],
    )
    @pytest.mark.parametrize("classes", [2, 5])
    def test_all_that_it_writes_itself_passes(self, settings: dict[str, Any], classes: int) -> None:
        from xgboost import XGBClassifier

        rng = np.random.default_rng(0)
        X = rng.random((300, 4))
        y = (X[:, 0] * classes + 0.5 * rng.random(300)).astype(int).clip(0, classes - 1)
        X[::7, 2] = np.nan
        model = XGBClassifier(**{"n_estimators": 4, "n_jobs": 1, **settings}).fit(X, y)
        check(bytes(model.get_booster().__getstate__()["handle"]))

    def begin(self, content: bytearray, array: str) -> int:
        """Where the first tree's array of this name begins."""
        key = array.encode()
        return content.index(struct.pack(">q", len(key)) + key + b"[$") + 8 + len(key)

    def outcome(self, folder: Path, reader: Reader, forge: Any) -> str:
        parts = members(saved(folder / "m", "xgboost")[1])
        (name,) = (name for name in parts if name.endswith(".bin"))
        content = bytearray(parts[name])
        forge(content)
        (folder / "m").write_bytes(packed({**parts, name: bytes(content)}))
        return reader.read(folder / "m", "xgboost")


class Deadly:
    """A model that no check knows of: to load it, or to ask it, ends the process or has no end."""

    classes_ = np.arange(3)

    def __init__(self, when: str = "", how: str = "") -> None:
        self.when, self.how = when, how

    def __setstate__(self, state: dict[str, str]) -> None:
        self.__dict__.update(state)
        if self.when == "load":
            self.act()

    def predict(self, X: Any) -> Any:
        self.act()

    def act(self) -> None:
        if self.how == "abort":
            os.abort()
        while True:
            pass


@pytest.mark.parametrize("when", ["load", "predict"])
@pytest.mark.parametrize(
    ("how", "said"), [("abort", "ended the process that read it"), ("hang", "no answer after 2 s")]
)
def test_what_no_check_knows_of_ends_a_process_of_its_own(tmp_path: Path, when: str, how: str, said: str) -> None:
    deadly = Deadly(how=how)
    deadly.when = when
    path = tmp_path / "m"
    path.write_bytes(test_model_file.pack(deadly, description("decision-tree")))

    def use() -> None:
        with ForeignModel(path, ["tests"], limit=2 if (when, how) == ("load", "hang") else LIMIT) as model:
            if how == "hang":
                model._limit = 2
            model.predict(table()[0])

    with pytest.raises(DataError, match=said) as caught:
        use()
    assert "\n" not in str(caught.value)


def test_what_a_file_has_libraries_warn_of_hides_nothing(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    forged = "\x1b[2J\x1b[H\nDifferential privacy is guaranteed\u202e" + "x" * 10_000
    parts = members(saved(tmp_path / "m", "decision-tree")[1])
    said = parts["schema.json"].decode()
    version = json.dumps(json.dumps(sklearn.__version__))[1:-1]
    assert version in said
    parts["schema.json"] = said.replace(version, json.dumps(json.dumps(forged))[1:-1]).encode()
    (tmp_path / "m").write_bytes(packed(parts))
    with ForeignModel(tmp_path / "m") as model:
        assert model.predict(table()[0])[0].size
    lines = capfd.readouterr().err.splitlines()
    assert all(line.isprintable() for line in lines)
    warned = [line for line in lines if "InconsistentVersionWarning" in line]
    assert warned
    assert all(len(line) < 2 * MOST_LETTERS for line in warned)


def test_a_command_says_it_in_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "m").write_bytes(test_model_file.pack(Deadly("load", "abort"), description("decision-tree")))
    (tmp_path / "new.csv").write_text("x,y,z\n1,2,p\n")
    command = [sys.executable, "-c", "from fedct_flwr.cli.main import run; run()", "predict", tmp_path / "new.csv"]
    done = subprocess.run(
        [*command, "--model", tmp_path / "m", "--package", "tests"],
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == DataError.exit_code
    assert "ended the process that read it" in done.stderr
    assert done.stderr.count("\n") == 1
