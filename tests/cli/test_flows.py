"""How many files of the package three flows pass: what a reader who follows them has to open."""

import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.tree import DecisionTreeClassifier

import client_app.main as client_app
import fedct_flwr
from fedct_flwr.coordinator.cotraining import CoTraining
from tests.cli.runner import Outcome
from tests.cli.silos import YES, Kit
from tests.readme import ROOT

FILES = {"three CSVs": 57, "a label": 32, "an approval": 35}
"""Only ever lowered. Wanted: 50, 20 and 20."""
_PACKAGE = str(Path(fedct_flwr.__file__).parent)


class Flow:
    """Files whose functions are called; with ``rounds`` from a silo's first question to the consensus of round 2."""

    def __init__(self, *, of_label: bool = False) -> None:
        self.files: set[str] = set()
        self._of_label, self._rounds, self._on = of_label, 0, not of_label

    def __call__(self, frame: Any, event: str, argument: object) -> None:
        code = frame.f_code
        if self._of_label and code.co_filename == client_app.__file__ and event == "call":
            self._on = self._rounds == 1
        if self._on and event == "call" and code.co_name != "<module>" and code.co_filename.startswith(_PACKAGE):
            self.files.add(code.co_filename.removeprefix(_PACKAGE))
        if code is CoTraining.note.__code__ and event == "return":
            self._rounds, self._on = self._rounds + 1, not self._of_label


@contextmanager
def followed(flow: Flow) -> Iterator[None]:
    before, threads = sys.getprofile(), threading.getprofile()
    threading.setprofile(flow)
    sys.setprofile(flow)
    try:
        yield
    finally:
        sys.setprofile(before)
        threading.setprofile(threads)


def simulate() -> None:
    tables = {name: ROOT / "examples" / "own_files" / f"{name}.csv" for name in ("east", "north", "south", "public")}
    frames = {name: pd.read_csv(path) for name, path in tables.items()}
    public = frames.pop("public")
    fedct_flwr.simulate(frames, public, label="cultivar", learner=DecisionTreeClassifier(), rounds=3, progress=False)


def test_a_simulation_of_three_csvs() -> None:
    simulate()  # what is imported or made once does not count
    with followed(flow := Flow()):
        simulate()
    assert len(flow.files) <= FILES["three CSVs"], sorted(flow.files)


def test_a_labels_way_through_one_round() -> None:
    with followed(flow := Flow(of_label=True)):
        simulate()
    assert 0 < len(flow.files) <= FILES["a label"], sorted(flow.files)


def test_an_approval(kit: Kit, fedct: Callable[..., Outcome]) -> None:
    fedct("silo", "approve", kit.folder)  # refused without a reason; what is imported once does not count
    with followed(flow := Flow()):
        outcome = fedct("silo", "approve", kit.folder, *YES)
    assert outcome.code == 0, outcome.err
    assert len(flow.files) <= FILES["an approval"], sorted(flow.files)
