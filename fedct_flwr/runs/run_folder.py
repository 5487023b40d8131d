"""A run's folder. Files are replaced whole or not at all.

- ``config.json``: settings, versions, the public set's fingerprint
- ``rounds.jsonl``: one line per round; a last line cut short by a crash is not read
- ``trust.jsonl``: whom each silo trusts, one line per round (where silos share probabilities or values)
- ``checkpoint.npz``: the consensus after the last round, to resume from
- ``labels.csv``: the final labels of the public set; ``values.csv`` where a quantity is predicted
- ``result.json``: completed or failed, and why
- ``error.txt``: the details of an unexpected error that ended the run
- ``models/``: the silos' models (simulation only); the global one, with its card, where a student is wanted or silos
  share weights, which leaves no checkpoint and no labels
- ``answers/``: each silo's last answer and its network after it, until the run is complete (simulation only, where
  networks are kept)
- ``privacy/``: each silo's ledger and labeler (simulation only, where a protection is set)
- ``errors.jsonl``: what silos' learners raised (simulation only)
- ``mlflow.db``, ``mlflow.json``, ``mlflow/``: the run in MLflow, where it is wanted
- ``scores_of_all.json``: scores of all silos together, opened once from a sum with noise (real silos under a promise)
- ``scores.json``, ``table_one.json``, ``report.html``: how good the models are, the data by site, the run as a page
- ``.lock``: held by the coordinator that writes here
"""

import csv
import io
import itertools
import json
import platform
import re
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np
from filelock import FileLock, Timeout

from fedct_flwr import datasets
from fedct_flwr.files import JsonLines, write_atomically, write_json
from fedct_flwr.types import ABSTAIN, Answers, HardLabels, RunError, SiloName, Values
from fedct_flwr.version import __version__

if TYPE_CHECKING:
    # Loads what reads tables.
    from fedct_flwr.consensus.counting import State, TrustMatrix
    from fedct_flwr.datasets.schema import Outcome

LOCK: Final = ".lock"
"""The file in a run folder that its coordinator holds."""
_ERROR: Final = "error.txt"
_ROUNDS: Final = "rounds.jsonl"
_TRUST: Final = "trust.jsonl"
_ANSWERS: Final = "answers"

RUN_FAILED: Final = "The run failed"
"""Words before the reason in the coordinator's log."""


class Checkpoint(NamedTuple):
    """The consensus after ``round``: targets ``(num_public,)`` and the state of the consensus (arrays by name).

    Targets are labels, or the values of a quantity.
    """

    round: int
    targets: Answers
    state: "State"


class RunFolder:
    """A run folder that exists. Where writing fails, RunError says what to do.

    The process that has created or resumed a run holds the folder's lock until ``close``; to read needs no lock.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        # Held by the process, not by whichever of its threads asked for it.
        self._lock = FileLock(path / LOCK, thread_local=False)
        self._listeners: list[Callable[[Mapping[str, Any]], None]] = []

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy, also in another process, reads: the lock stays with the process that writes.
        return RunFolder, (self.path,)

    @classmethod
    def create(cls, path: Path, settings: Mapping[str, Any], facts: Mapping[str, Any]) -> "RunFolder":
        """Start a new run. Raises RunError if the folder exists: no run overwrites another."""
        check_new(path)
        folder = cls(path)
        with _saying_what(path, "the run folder"):
            path.mkdir(parents=True, exist_ok=True)
            folder._take_lock()
            write_json(folder.path / "config.json", {"settings": dict(settings), **facts, "versions": versions()})
        return folder

    @classmethod
    def resume(
        cls, path: Path, settings: Mapping[str, Any], facts: Mapping[str, Any], may_change: frozenset[str]
    ) -> tuple["RunFolder", Checkpoint]:
        """Continue a run: forgets rounds after its checkpoint.

        Raises RunError if it cannot go on: other settings (but those that ``may_change``), other data, or another
        coordinator at work on it.
        """
        folder = cls(path)
        stored, before = folder.read_json("config.json"), folder.settings()
        with folder._writing("the run folder"):
            folder._take_lock()
        try:
            changed = sorted(k for k in {*settings, *before} - may_change if settings.get(k) != before.get(k))
            if changed:
                raise RunError(f"cannot resume {path} with other settings: set back {', '.join(changed)}")
            moved = [name for name, fact in json.loads(json.dumps(dict(facts))).items() if stored.get(name) != fact]
            if moved:
                raise RunError(f"cannot resume {path} with other data: {', '.join(moved)} changed; start a new run")
            return folder, folder._back_at_checkpoint()
        except RunError:
            folder.close()
            raise

    def close(self) -> None:
        """Let another coordinator go on with the run."""
        self._lock.release()

    def _back_at_checkpoint(self) -> Checkpoint:
        checkpoint = self.load_checkpoint()
        with self._writing("the round log"):
            for log in (self.round_log(), self.trust_log()):
                if not log.path.exists():
                    continue
                kept = [record for record in log.records() if record["round"] <= checkpoint.round]
                write_atomically(log.path, "".join(json.dumps(record) + "\n" for record in kept).encode())
            for name in ("result.json", _ERROR):
                (self.path / name).unlink(missing_ok=True)
        return checkpoint

    def _take_lock(self) -> None:
        try:
            self._lock.acquire(blocking=False)
        except Timeout:
            raise RunError(f"another coordinator is at work on {self.path}: stop it, or wait for its end") from None

    def exists(self) -> bool:
        """Whether a run was begun here."""
        return (self.path / "config.json").is_file()

    def was_interrupted(self) -> bool:
        """Whether a run was begun here that has not ended, and at which no process is at work."""
        if not self.exists() or self.ended_at():
            return False
        try:
            with self._lock.acquire(blocking=False):
                return True
        except (Timeout, OSError):
            return False

    def ended_at(self) -> int | None:
        """When the run ended, in nanoseconds since the epoch; None as long as it has not."""
        try:
            return (self.path / "result.json").stat().st_mtime_ns
        except OSError:
            return None

    @property
    def silos(self) -> tuple[SiloName, ...]:
        """The silos' names. Raises RunError if this is no run folder."""
        return tuple(map(str, self._fact("silos", list, "names no silos")))

    @property
    def num_public(self) -> int:
        """The number of public examples. Raises RunError if this is no run folder."""
        number: int = self._fact("num_public", int, "counts no public examples")
        return number

    def _fact(self, name: str, kind: type, lack: str) -> Any:
        found = self.read_json("config.json").get(name)
        if not isinstance(found, kind):
            raise RunError(f"{self.path} is no complete run folder: config.json {lack}")
        return found

    @property
    def outcome(self) -> "Outcome":
        """The predicted outcome. Raises RunError if this is no run folder."""
        facts = self.read_json("config.json")
        times = facts.get("follow_up")
        follow_up = datasets.FollowUp(times["time"], times["event"], tuple(times["horizons"])) if times else None
        classes, given = (tuple(facts.get(name, ())) for name in ("classes", "given"))
        return datasets.Outcome(classes, str(facts.get("quantity", "")), follow_up, given)

    @property
    def models(self) -> Path:
        """Where simulated silos keep their models."""
        return self.path / "models"

    def silo_model(self, silo: SiloName, suffix: str) -> Path:
        """Where a simulated silo keeps its model."""
        return self.models / f"{silo}{suffix}"

    def silo_judgment(self, silo: SiloName) -> Path:
        """Where a simulated silo keeps what it makes of the consensus."""
        return self.path / "judgments" / f"{silo}.json"

    def silo_answers(self, silo: SiloName) -> Path:
        """Where a simulated silo keeps its last answer, with its network as it was after it."""
        return self.path / _ANSWERS / silo

    def silo_privacy(self, silo: SiloName) -> Path:
        """Where a simulated silo keeps its privacy ledger and its labeler."""
        return self.path / "privacy" / silo

    def global_model(self, suffix: str) -> Path:
        """Where the coordinator keeps the global model, if there is one."""
        return self.models / f"global{suffix}"

    def listen(self, listener: Callable[[Mapping[str, Any]], None]) -> None:
        """From now on, tell each round's record to ``listener`` as soon as it is written."""
        self._listeners.append(listener)

    def append_round(self, record: Mapping[str, Any]) -> None:
        """Add a line to ``rounds.jsonl``.

        Payload bytes, without Flower's envelope: ``instruction_bytes`` to each silo, ``bytes_sent`` from all together.
        ``silos`` has for each that counted its ``bytes_sent``, ``seconds`` until its reply, its test ``scores`` and its
        ``quality`` by the votes; ``absent`` says why another did not. Other columns are those of the kind of answer
        (``coordinator/questions.py``), in counts of public examples, or the ``scores`` of a global model.
        """
        self._append(_ROUNDS, record)
        for listener in self._listeners:
            listener(record)

    def append_trust(self, server_round: int, trust: "TrustMatrix") -> None:
        """Add a line to ``trust.jsonl``, with 4 significant digits."""
        matrix = [[float(f"{value:.4g}") for value in row] for row in trust.matrix]
        self._append(_TRUST, {"round": server_round, "silos": list(trust.silos), "matrix": matrix})

    def _append(self, name: str, record: Mapping[str, Any]) -> None:
        with self._writing(f"round {record['round']}"), (self.path / name).open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def save_checkpoint(self, checkpoint: Checkpoint) -> None:
        """Replace the checkpoint."""
        buffer = io.BytesIO()
        state = {f"state_{name}": value for name, value in checkpoint.state.items()}
        names = np.array(sorted(checkpoint.state), dtype=np.str_)
        if any(np.asarray(value).dtype.hasobject for value in state.values()):
            raise ValueError("Object arrays in the consensus's state cannot be stored")
        np.savez_compressed(buffer, round=checkpoint.round, targets=checkpoint.targets, names=names, **state)
        with self._writing(f"the checkpoint of round {checkpoint.round}"):
            write_atomically(self.path / "checkpoint.npz", buffer.getvalue())

    def load_checkpoint(self) -> Checkpoint:
        """The last checkpoint. Raises RunError if there is none or it is damaged."""
        path = self.path / "checkpoint.npz"
        try:
            content = path.read_bytes()
        except FileNotFoundError:
            raise RunError(f"{self.path} has no checkpoint: no round was finished; start a new run") from None
        try:
            with np.load(io.BytesIO(content), allow_pickle=False) as stored:
                state = {name: stored[f"state_{name}"] for name in stored["names"].tolist()}
                return Checkpoint(int(stored["round"]), stored["targets"], state)
        except Exception as error:  # zipfile, zlib and NumPy raise many types on damaged files
            raise RunError(f"{path} is damaged: start a new run in another folder") from error

    def save_labels(self, targets: HardLabels, classes: tuple[str, ...]) -> None:
        """Write the final label of each public example to ``labels.csv``, empty where the silos abstain."""
        self._save_table("labels", "label", ["" if c == ABSTAIN else classes[c] for c in targets])

    def save_values(self, values: Values, quantity: str) -> None:
        """Write the final value of each public example to ``values.csv``, empty where none was asked for."""
        self._save_table("values", quantity, ["" if np.isnan(value) else str(value) for value in values])

    def _save_table(self, name: str, head: str, cells: Sequence[str]) -> None:
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows([("example", head), *enumerate(cells)])
        with self._writing(f"the final {name}"):
            write_atomically(self.path / f"{name}.csv", text.getvalue().encode())

    def note_error(self, details: str) -> None:
        """Keep the details of an unexpected error."""
        with self._writing("the error"):
            write_atomically(self.path / _ERROR, details.encode())

    def finish(self, status: str, **facts: Any) -> None:
        """Say how the run ended: ``completed`` or ``failed``. Of a completed one no question is asked again."""
        with self._writing("the result"):
            write_json(self.path / "result.json", {"status": status, **facts})
        if status == "completed":
            shutil.rmtree(self.path / _ANSWERS, ignore_errors=True)

    def rounds(self) -> list[dict[str, Any]]:
        """All whole lines of ``rounds.jsonl``; a half-written last one is left out."""
        return self.round_log().records()

    def trust(self) -> list[dict[str, Any]]:
        """All whole lines of ``trust.jsonl``: ``round``, ``silos``, ``matrix``; none where silos share no soft labels.

        Row ``i`` of a matrix is whom silo ``i`` trusted with its targets for the next round; rows sum to 1.
        """
        return self.trust_log().records()

    def round_log(self) -> JsonLines:
        """Reads ``rounds.jsonl`` as it grows."""
        return JsonLines(self.path / _ROUNDS)

    def trust_log(self) -> JsonLines:
        """Reads ``trust.jsonl`` as it grows."""
        return JsonLines(self.path / _TRUST, "take it away, as only a report needs it")

    def settings(self) -> dict[str, Any]:
        """The run config of the run. Raises RunError if the folder has none, or if the run is of a newer version."""
        written = self.read_json("config.json").get("versions")
        check_version(self.path, str(written.get("fedct-flwr", "")) if isinstance(written, dict) else "")
        settings: dict[str, Any] = self._fact("settings", dict, "holds no settings")
        return settings

    def read_json(self, name: str) -> dict[str, Any]:
        """One of the folder's JSON files. Raises RunError if it is missing or damaged."""
        try:
            content: dict[str, Any] = json.loads((self.path / name).read_text("utf-8"))
            if not isinstance(content, dict):
                raise ValueError
        except (OSError, ValueError, RecursionError):
            raise RunError(f"{self.path} is no complete run folder: cannot read {name}") from None
        return content

    @contextmanager
    def _writing(self, what: str) -> Iterator[None]:
        with _saying_what(self.path, what):
            # A silo that keeps its model makes a folder that was moved away again: half a run would be written there.
            (self.path / "config.json").stat()
            yield


class Monitor:
    """Hands each round's record to ``on_round`` as soon as the run folder has it. Called repeatedly."""

    def __init__(self, folder: RunFolder, on_round: Callable[[Mapping[str, Any]], None]) -> None:
        self._folder, self._on_round = folder, on_round
        self._log = folder.round_log()
        self.seen = max((entry["round"] for entry in self._log.records()), default=0)
        """The last round that was told, or had ended before."""
        # A resumed run forgets rounds after its checkpoint, and repeats them.
        with suppress(RunError):
            self.seen = min(self.seen, folder.load_checkpoint().round)
        # That of an earlier end, until the coordinator that resumes the run takes it away.
        self._old_end = folder.ended_at()

    @property
    def is_over(self) -> bool:
        """Whether the coordinator has said how the run ended."""
        return self._folder.ended_at() not in (None, self._old_end)

    def __call__(self) -> bool:
        """Tell the rounds that are new; returns whether the run is over."""
        if not self._folder.exists():
            return False
        for entry in self._log.records():
            if entry["round"] > self.seen:
                self.seen = entry["round"]
                self._on_round(entry)
        return self.is_over


@contextmanager
def _saying_what(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write {what} to {path}: {error.strerror}; fix that, then resume the run or begin another"
        ) from error


def check_new(path: Path) -> None:
    """Raise RunError if a run would overwrite something."""
    # A lock alone is what a run leaves that could not begin.
    if path.is_dir() and {entry.name for entry in path.iterdir()} <= {LOCK}:
        return
    if path.exists():
        raise RunError(f"the run folder {path} exists: choose another one, or resume the run in it")
    above = next(parent for parent in path.absolute().parents if parent.exists())
    if not above.is_dir():
        raise RunError(f"cannot write the run folder {path}: {above} is no folder")


def dated(parent: Path, study: str) -> Path:
    """Path of a new run below ``parent``, named after study and time.

    Runs that begin in the same second get a number each.
    """
    first = path = parent / f"{study}-{time.strftime('%Y%m%d-%H%M%S')}"
    numbers = itertools.count(2)
    while path.exists():
        path = first.with_name(f"{first.name}-{next(numbers)}")
    return path


def default_path(study: str, run_id: int) -> Path:
    """Where a run goes that was given no folder."""
    return Path.home() / ".fedct" / "runs" / f"{study}-{run_id}"


def versions() -> dict[str, str]:
    """Versions of the packages that compute a run."""
    # Flower runs this code from its bundle, where the package itself need not be installed.
    ours = {"fedct-flwr": __version__, "python": platform.python_version()}
    # A run with a network has loaded torch; others need not have it.
    packages = ["flwr", "numpy", "scikit-learn"] + ["torch"] * ("torch" in sys.modules)
    return ours | {name: version(name) for name in packages}


def check_version(path: Path, version: str) -> None:
    """Raise RunError for a run of a newer version: what its files say may mean something else."""
    if _release(version) > _release(__version__):
        raise RunError(f"the run in {path} is of fedct-flwr {version:.40} and this is {__version__}: update fedct-flwr")


def _release(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d{1,9}", version)[:3])
