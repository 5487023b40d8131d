"""A key that is taken changes what a run leaves behind."""

import hashlib
import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from client_app.main import app as client_app
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.loopback import run_loopback, simulated_nodes
from fedct_flwr.runs.run_folder import RunFolder
from server_app.main import app as server_app
from tests.config import probes
from tests.config.probes import NETWORK, probed

initial_model = probes.initial_model


def observed(settings: dict[str, Any], path: Path) -> str:
    """A digest of all that a run leaves behind, without times and without the settings themselves."""
    least = {"study": "s", "data": "heart-disease", "num-server-rounds": 2, "run-dir": str(path)}
    config = {**least, **settings}
    silos = len(datasets.load(RunConfig.from_flower(config)).silos)
    run_loopback(server_app, client_app, config, simulated_nodes(silos), workers=1)
    folder, parts = RunFolder(path), []
    for entry in folder.rounds():
        told = {silo: {k: v for k, v in sent.items() if k != "seconds"} for silo, sent in entry["silos"].items()}
        parts.append(json.dumps({**entry, "seconds": 0, "silos": told}, sort_keys=True).encode())
    result = {key: value for key, value in folder.read_json("result.json").items() if key not in ("seconds", "ended")}
    parts.append(json.dumps(result, sort_keys=True).encode())
    for file in sorted(path.rglob("*")):
        if file.is_file() and (file.suffix == ".csv" or "models" in file.parts):
            parts += [file.name.encode(), b"" if file.suffix in (".md", ".json", ".skops") else file.read_bytes()]
    return hashlib.sha256(b"".join(parts)).hexdigest()


@cache
def _observed(path: Path, **settings: Any) -> str:
    return observed({key.replace("_", "-"): value for key, value in settings.items()}, path)


TREE = {"learner": "decision-tree", "learner_params": '{"max_depth": 3}'}
NET = {"learner": NETWORK, "local_steps": 3}


@pytest.mark.parametrize(
    ("base", "key"),
    [
        *(({**TREE, "algorithm": "fedct"}, key) for key in ("pseudo-weight", "query-size", "report-scores", "student")),
        *(({**TREE, "algorithm": "fedct"}, key) for key in ("class-weight", "test-fraction", "save-models", "seed")),
        ({**TREE, "algorithm": "fedct-qualified"}, "quorum"),
        ({**TREE, "algorithm": "fedct-agreement"}, "trust"),
        *(({**TREE, "algorithm": "prediction-consensus"}, key) for key in ("trust", "consensus-weight")),
        *(({**NET, "algorithm": "dd"}, key) for key in ("warm-up-rounds", "consensus-weight", "batch-size")),
        *(({**NET, "algorithm": "fedct"}, key) for key in ("batch-size", "learning-rate", "decay-steps")),
        *(({**NET, "algorithm": "fedct"}, key) for key in ("weight-decay", "optimizer")),
        *(({**TREE, "algorithm": "fedkt", "num_server_rounds": 1}, key) for key in ("teachers", "partitions")),
        ({"learner": NETWORK, "algorithm": "fedkt", "num_server_rounds": 1}, "epochs"),
        *(({**TREE, "algorithm": "dp-pate", "num_server_rounds": 1}, key) for key in ("epsilon", "mechanism", "gamma")),
        *(({**NET, "algorithm": "fedprox"}, key) for key in ("proximal-mu", "initial-model")),
        ({**NET, "algorithm": "feddyn"}, "feddyn-alpha"),
        ({**NET, "algorithm": "feddf"}, "distillation-steps"),
        *(({**NET, "algorithm": "pfnm", "num_server_rounds": 1}, f"pfnm-{key}") for key in ("silo-variance", "gamma")),
        *(({**NET, "algorithm": "dp-fedavg", "epsilon": 50.0}, key) for key in ("delta", "clipping-norm")),
    ],
)
def test_a_key_that_is_taken_changes_the_run(
    base: dict[str, Any], key: str, initial_model: str, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    settings = {name.replace("_", "-"): value for name, value in base.items()}
    changed = dict(probed(settings, initial_model))[key]
    before = _observed(tmp_path_factory.getbasetemp() / hashlib.sha256(str(base).encode()).hexdigest()[:12], **base)
    assert observed(changed, tmp_path / "changed") != before
