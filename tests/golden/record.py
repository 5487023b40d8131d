"""Run a golden run on the loopback, and tell all of it that others can see, as plain JSON."""

import csv
import hashlib
import json
import sqlite3
from base64 import b64encode
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final
from unittest import mock

import numpy as np
from flwr.app import ArrayRecord, Context, Message, RecordDict
from flwr.clientapp import ClientApp

from client_app.main import app as client_app
from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.types import LABEL_DTYPE, Examples, RunError
from server_app.main import app as server_app
from tests import hospitals
from tests.golden.hospital import answering
from tests.golden.runs import COMMON, WARDS, Golden, plain_trust
from tests.hospitals import STUDY, write_silo_folder, write_study_folder

Record = dict[str, Any]
Silo = Callable[[Message, Context], Message]

_OF_LEARNERS: Final = ("learner", "learner-params", "save-models")
"""Settings that real silos have themselves."""


def record(golden: Golden, folder: Path) -> Record:
    """What others see of this run: each message, what the run folder says of it, and what silos wrote down.

    ``folder`` is empty, and keeps the run.
    """
    run = _Run(golden, folder)
    data_sets = mock.patch.dict(datasets.LOADERS, {"zurich-flipped": _flipped})
    with data_sets, ExitStack() as stack:
        for name in golden.silos:
            of_file = golden.hospital is not None and write_silo_folder(folder / name, name, **golden.hospital)
            run.silos.append(answering(of_file, stack) if of_file else client_app)
        if golden.interrupted:
            with suppress(RunError):  # too few silos
                run.go(away_in=golden.interrupted)
            run.resume()
        elif golden.then:
            run.go()
            run.resume(golden.then)
        else:
            with suppress(RunError):  # result.json says so
                run.go()
    return {"messages": run.messages, **_files(folder / "run", noisy=golden.noisy), **_logs(folder, golden)}


class _Run:
    """A run and its messages: contents by round and by who was asked or replied, silos in the order of the run."""

    def __init__(self, golden: Golden, folder: Path) -> None:
        self._golden = golden
        self._config = _settings(golden, folder)
        self._prefix = ""
        self.silos: list[Silo] = []
        self._asked: defaultdict[str, dict[str, Record]] = defaultdict(dict)
        self._replied: defaultdict[str, dict[str, Record]] = defaultdict(dict)

    @property
    def messages(self) -> Record:
        """All messages, those of a round to silos before those from them."""
        return {
            f"{when}, {way} {silo}": content
            for when in self._asked
            for way, said in (("to", self._asked), ("from", self._replied))
            for silo, content in said[when].items()
        }

    def go(self, away_in: int = 0) -> None:
        """Run. In the round ``away_in``, the last two silos are away."""
        app, names = ClientApp(), self._golden.silos

        @app.train()
        def train(message: Message, context: Context) -> Message:
            position, number = context.node_config["partition-id"], message.metadata.group_id
            if number == str(away_in) and position >= len(names) - 2:
                raise ConnectionError
            when = self._prefix + (f"round {number}" if number.isdigit() else number)
            self._asked[when][names[position]] = self._content(message.content)
            reply = self.silos[position](message, context)
            self._replied[when][names[position]] = self._content(reply.content)
            return reply

        # One after the other: messages have an order then.
        run_loopback(server_app, app, self._config, simulated_nodes(len(names)), workers=1)

    def resume(self, changes: Mapping[str, Any] | None = None) -> None:
        """Go on with the run."""
        self._config |= {"resume": True, **_kebab(changes or {})}
        self._prefix = "resumed, "
        self.go()

    def _content(self, content: RecordDict) -> Record:
        """All fields of all records, each under ``record/field``."""
        said: Record = {}
        for name, fields in content.items():
            for key, value in fields.items():
                if isinstance(fields, ArrayRecord):
                    value = _array(value.numpy(), value.data)
                elif isinstance(value, bytes):
                    value = f"{len(value)} bytes" if self._golden.noisy else _bytes(value, whole=self._golden.whole)
                said[f"{name}/{key}"] = value
        return said


def _kebab(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {key.replace("_", "-"): value for key, value in settings.items()}


def _settings(golden: Golden, folder: Path) -> dict[str, Any]:
    config = {**COMMON, **plain_trust(golden), **_kebab(golden.settings), "run-dir": str(folder / "run")}
    if golden.hospital is not None:
        study = write_study_folder(folder / "study")
        roster = ",".join(golden.silos)
        of_study = {"study": STUDY, "data": "study", "data-dir": str(study), "roster": roster}
        return {key: value for key, value in config.items() if key not in _OF_LEARNERS} | of_study
    if config["data"] == "files":
        config["data-dir"] = str(_wards(folder / "wards", times="event-column" in config))
    return config


def _wards(folder: Path, *, times: bool) -> Path:
    """Wards with different shares of three classes, or times of follow-up, made without a random number."""
    folder.mkdir()
    for number, ward in enumerate((*WARDS, "public")):
        with (folder / f"{ward}.csv").open("w", newline="") as file:
            writer = csv.writer(file)
            writer.writerow(["age", "dose", "site", *(("days", "died") if times else ("colour",))])
            for patient in range(40 + 7 * number):
                age, dose = (37 * patient + 11 * number) % 60 + 20, (53 * patient + 5 * number * number) % 17
                colour = ("red", "green", "blue")[(age // 20 + dose // 6 + (patient % (4 + number) == 0)) % 3]
                follow_up = (150 - age - 2 * dose + (29 * patient) % 31, int(patient % 3 > 0))
                side = "left" if (patient * patient + number) % 5 < 2 else "right"
                writer.writerow([age, dose, side, *(follow_up if times else (colour,))])
    return folder


def _bytes(value: bytes, *, whole: bool) -> str:
    if whole:
        return f"{len(value)} bytes, base64 {b64encode(value).decode()}"
    return f"{len(value)} bytes, sha256 {_sha256(value)}"


def _array(value: Any, data: bytes) -> str:
    """Type, shape, of numbers with a fraction the norm, which is what another CPU is held to, and the bytes."""
    said = f"{value.dtype} {'x'.join(map(str, value.shape))}"
    if value.dtype.kind == "f":
        said += f", norm {np.sqrt(np.nansum(np.square(value, dtype=np.float64))):.7g}"
    return f"{said}, sha256 {_sha256(data)}"


def _sha256(data: bytes) -> str:
    """The first 96 bits: nobody attacks these files."""
    return hashlib.sha256(data).hexdigest()[:24]


def _files(run: Path, *, noisy: bool) -> Record:
    """What is in a run folder, without times."""
    files: Record = {"result": json.loads((run / "result.json").read_text())}
    for name in ("rounds", "trust"):
        if (path := run / f"{name}.jsonl").exists():
            files[name] = [_timeless(json.loads(line)) for line in path.read_text().splitlines()]
    if noisy:
        # Of labels with noise that is drawn anew.
        files["result"].pop("certificate", None)
        return files | {"rounds": [_but_noise(line) for line in files["rounds"]]}
    for name in ("labels", "values"):
        if (path := run / f"{name}.csv").exists():
            files[name] = _table(path)
    if (path := run / "checkpoint.npz").exists():
        with np.load(path) as stored:
            files["checkpoint"] = {name: _array(stored[name], stored[name].tobytes()) for name in stored.files}
            files["checkpoint"]["round"] = int(stored["round"])
            del files["checkpoint"]["names"]  # of the arrays
    return files


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items() if key != "seconds"}
    return value


def _but_noise(line: Record) -> Record:
    """Of a round, what no noise changes."""
    silos = {silo: {"bytes_sent": sent["bytes_sent"]} for silo, sent in line["silos"].items()}
    return {**{key: line[key] for key in ("round", "queried", "instruction_bytes", "absent")}, "silos": silos}


def _table(path: Path) -> Record:
    """A file of labels or values: its bytes, and what it says in short."""
    with path.open(newline="") as file:
        _, *rows = csv.reader(file)
    found = [value for _, value in rows]
    said: Record = {"sha256": _sha256(path.read_bytes())}
    if path.stem == "labels":
        classes = sorted(set(found))
        return said | {"classes": classes, "codes": "".join(str(classes.index(label)) for label in found)}
    return said | {"values": [float(f"{float(value):.5g}") if value else None for value in found]}


def _logs(folder: Path, golden: Golden) -> Record:
    """What silos wrote down: what was charged for which question, and what left."""
    logs: Record = {}
    for path in sorted(folder.glob("**/ledger.sqlite")):
        silo = next(silo for silo in golden.silos if silo in path.parts)
        logs.setdefault("charges", {})[silo] = list(_charges(path, noisy=golden.noisy))
    for path in sorted(folder.glob("*/state/egress.jsonl")):
        logs.setdefault("egress", {})[path.parent.parent.name] = list(_egress(path))
    return logs


def _charges(path: Path, *, noisy: bool) -> Iterator[Record]:
    ledger = sqlite3.connect(path)
    try:
        charges = "SELECT study, data_set, event, hex(question) FROM charges ORDER BY number"
        for study, data_set, event, question in ledger.execute(charges).fetchall():
            # Depends on the consensus, and that on the noise.
            asked = {} if noisy else {"question": question[:24]}
            yield {"study": study, "data_set": data_set, "event": json.loads(event), **asked}
    finally:
        ledger.close()


def _egress(path: Path) -> Iterator[str]:
    """Lines in short: their digests are those of the messages."""
    for line in path.read_text().splitlines():
        entry = json.loads(line)
        said = [f"{key} {entry[key]}" for key in ("round", "kind", "queries", "bytes", "reason") if entry[key]]
        yield ", ".join([entry["event"], *said])


def _flipped(config: RunConfig) -> datasets.FederatedDataset:
    """The four hospitals, where Zurich calls the ill healthy and the healthy ill."""
    whole = hospitals.dataset()
    zurich = next(silo for silo in whole.silos if silo.name == "zurich")
    y = (1 - zurich.private.y).astype(LABEL_DTYPE)
    flipped = replace(zurich, private=Examples(zurich.private.X, y))
    return replace(whole, silos=tuple(flipped if silo is zurich else silo for silo in whole.silos))
