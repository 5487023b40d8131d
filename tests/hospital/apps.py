"""Silos that run a Flower app: their folders, and what a reply of the plain apps is."""

import secrets
from pathlib import Path
from typing import Any, Final

import numpy as np
import tomli_w
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict
from flwr.common.serde import recorddict_from_proto
from flwr.proto.recorddict_pb2 import RecordDict as RecordDictProto

from fedct_flwr.config.silo import AppSilo
from fedct_flwr.hospital.approval import approve_app
from fedct_flwr.hospital.egress_log import EgressLog, kept
from fedct_flwr.hospital.keys import create_egress_key, create_node_key, load_egress_key
from fedct_flwr.hospital.log_entry import Event, LogEntry
from tests.hospital.agents import OnDisk

APPS: Final = Path(__file__).parents[1] / "plain_apps"
"""The folder from which Python imports the plain apps."""
_ONES = {"num-examples": [1, 1000], "accuracy": [0.0, 1.0]}
SKLEARN: Final[dict[str, Any]] = {
    "client": "plain_sklearn.client_app:app",
    "messages-a-run": 4,
    "runs-a-day": 2,
    "replies": {
        "train": {
            "arrays": {"arrays": {"0": {"dtype": "float64", "shape": [1, 3]}, "1": {"dtype": "float64", "shape": [1]}}},
            "metrics": {"metrics": {"num-examples": [1, 1000], "train-loss": [0.0, 100.0]}},
        },
        "evaluate": {"metrics": {"metrics": _ONES}},
    },
}
_SHAPES = {
    "0.weight": [8, 3], "0.bias": [8], "1.weight": [8], "1.bias": [8], "1.running_mean": [8], "1.running_var": [8],
    "1.num_batches_tracked": [], "3.weight": [2, 8], "3.bias": [2],
}  # fmt: skip
TORCH: Final[dict[str, Any]] = {
    **SKLEARN,
    "client": "plain_torch.client_app:app",
    "replies": {
        "train": {
            "arrays": {
                "arrays": {
                    name: {"dtype": "int64" if name.endswith("tracked") else "float32", "shape": shape}
                    for name, shape in _SHAPES.items()
                }
            },
            "metrics": {"metrics": {"train_loss": [0.0, 100.0], "num-examples": [1, 1000]}},
        },
        "evaluate": {"metrics": {"metrics": _ONES}},
    },
}


def good_reply() -> RecordDict:
    """What the scikit-learn app replies to ``train``."""
    arrays = ArrayRecord({"0": Array(np.ones((1, 3))), "1": Array(np.zeros(1))})
    return RecordDict({"arrays": arrays, "metrics": MetricRecord({"num-examples": 60, "train-loss": 0.5})})


class AppOnDisk(OnDisk):
    """A silo's folder with keys, for an app, whose ``data.csv`` has a number of records of its own."""

    def __init__(self, folder: Path, name: str = "oslo", connection: dict[str, Any] | None = None) -> None:
        self.folder, self.name, self.file = folder, name, folder / "silo.toml"
        folder.mkdir(parents=True, exist_ok=True)
        self._connection = {"superlink": "127.0.0.1:8000", **(connection or {})}
        rng = np.random.default_rng(sum(name.encode()))
        X = rng.normal(size=(40 + len(name), 3))
        np.savetxt(folder / "data.csv", np.column_stack([X, X @ [1.0, -2.0, 0.5] > 0]), delimiter=",")
        self.write(SKLEARN)
        create_egress_key(self.config.egress_key)
        (folder / "connection").mkdir(exist_ok=True)
        create_node_key(self.config.connection.node_key)
        self.config.connection.secret.write_text(secrets.token_hex(32))
        self.config.connection.secret.chmod(0o600)

    def write(self, app: dict[str, Any], **more: Any) -> None:
        """Write ``silo.toml`` for this app."""
        given = {"data": {"data": str(self.folder / "data.csv")}, **app}
        settings = {"silo": self.name, "connection": self._connection, "app": given, **more}
        self.file.write_text(tomli_w.dumps(settings), "utf-8")

    @property
    def config(self) -> AppSilo:
        return AppSilo.read_toml(self.file)

    @property
    def node_key(self) -> Path:
        key = self.config.connection.node_key
        return key.with_name(f"{key.name}.pub")

    def log(self) -> EgressLog:
        return EgressLog.open(self.config.state, self.name, load_egress_key(self.config.egress_key))

    def approve(self) -> None:
        with self.log() as log:
            approve_app(log, self.config)

    def released(self, run: int | None = None) -> list[tuple[LogEntry, RecordDict]]:
        """Each line of a reply that left, with the reply as it was kept."""
        found = []
        for line in self.of(Event.RELEASED):
            if run not in (None, line.run):
                continue
            payload = kept(self.config.state, line)
            assert payload
            found.append((line, recorddict_from_proto(RecordDictProto.FromString(payload[0]))))
        return found
