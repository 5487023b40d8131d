"""Where a message is worked on: a real silo's own settings say all of it, a simulated one's are the run's."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict

from fedct_flwr.silo.opening import open_silo_context
from fedct_flwr.silo.site import SiloContext
from tests.hospitals import STUDY, restart, write_silo_folder

pytestmark = pytest.mark.usefixtures("without_gate")

RUN: dict[str, Any] = {"study": STUDY, "data": STUDY}


@pytest.fixture(autouse=True)
def _fresh() -> None:
    """As in a process that has just begun."""
    restart()


def context(node: dict[str, Any], **run: Any) -> Context:
    settings = {**RUN, **{key.replace("_", "-"): value for key, value in run.items()}}
    return Context(1, 7, node, RecordDict(), settings)


def real(folder: Path, silo: str = "cleveland", **tables: dict[str, Any]) -> dict[str, Any]:
    return {"silo-file": str(write_silo_folder(folder, silo, **tables))}


def opened(folder: Path, run: dict[str, Any] | None = None, **tables: dict[str, Any]) -> SiloContext:
    return open_silo_context(context(real(folder, **tables), **(run or {})))


@pytest.mark.parametrize("wanted", [False, True, "true", 1, None])
@pytest.mark.parametrize("allowed", [False, True])
def test_scores_need_the_policy_and_the_run(tmp_path: Path, allowed: bool, wanted: Any) -> None:
    place = opened(tmp_path, {"report_scores": wanted}, policy={"metrics": allowed})
    assert place.sends_scores is (allowed and wanted is True)


def test_data_and_learner_are_read_once_and_not_again_when_files_change(tmp_path: Path) -> None:
    node = real(tmp_path)
    site = open_silo_context(context(node)).site
    real(tmp_path, learner={"name": "svm"})
    (tmp_path / "data.csv").unlink()
    (tmp_path / "study" / "public.csv").write_text("age\n1\n", "utf-8")
    assert open_silo_context(context(node)).site is site
