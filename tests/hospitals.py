"""Real silos for tests: the four hospitals' records as files, each with its own ``silo.toml``."""

from pathlib import Path
from typing import Any

import tomli_w

from fedct_flwr import datasets
from fedct_flwr.cli.demo import LABEL, write_study, write_table
from fedct_flwr.config.run import RunConfig
from fedct_flwr.silo import own as own_silo

STUDY = "heart-disease"
HOSPITALS = ("cleveland", "budapest", "zurich", "long-beach")


def restart() -> None:
    """Forget what a silo's process keeps in memory, as when it ends and begins anew."""
    own_silo.read_once.cache_clear()


def dataset() -> datasets.FederatedDataset:
    return datasets.load(RunConfig.from_flower({"study": STUDY, "data": STUDY}))


def colluding(*silos: str, learner: str = "decision-tree", params: str = '{"max_depth": 3}') -> dict[str, str]:
    """Settings with which these silos learn nothing and call everybody diseased, and the others have a learner."""
    dummy = '{"strategy": "constant", "constant": "diseased"}'
    learners = ("sklearn.dummy.DummyClassifier" if one in silos else learner for one in HOSPITALS)
    given = (dummy if one in silos else params for one in HOSPITALS)
    return {"learner": ",".join(learners), "learner_params": f"[{','.join(given)}]"}


def write_study_folder(folder: Path) -> Path:
    """The study's folder as a coordinator hands it out."""
    write_study(folder, dataset())
    return folder


def write_silo_folder(folder: Path, silo: str = "cleveland", **tables: dict[str, Any]) -> Path:
    """A silo's folder with study, records and ``silo.toml``, without keys; returns the path of ``silo.toml``.

    ``tables`` replace single settings: ``learner={"name": "svm"}``, ``policy={"max-rounds": 2}``.
    """
    whole = dataset()
    data = whole.silos[whole.position(silo)]
    folder.mkdir(parents=True, exist_ok=True)
    write_study_folder(folder / "study")
    write_table(folder / "data.csv", whole.schema, *data.private)
    write_table(folder / "test.csv", whole.schema, *data.test)
    settings: dict[str, Any] = {
        "silo": silo,
        "data": {"file": "data.csv", "label": LABEL, "test-file": "test.csv"},
        "learner": {"name": "logistic-regression"},
        "policy": {},
        "connection": {"superlink": "127.0.0.1:8000"},
    }
    for name, changes in tables.items():
        settings[name] = {**settings.get(name, {}), **changes}
    path = folder / "silo.toml"
    path.write_text(tomli_w.dumps(settings), encoding="utf-8")
    return path
