"""Where a message is worked on: a real silo's own settings say all of it, a simulated one's are the run's."""

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, RecordDict
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.state import ContextState, FolderState
from fedct_flwr.silo.workplace import Workplace, open_workplace, run_of_simulation, silo_named
from fedct_flwr.types import ConfigError, DataError
from tests.hospitals import HOSPITALS, STUDY, restart, write_silo_folder

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


def opened(folder: Path, run: dict[str, Any] | None = None, **tables: dict[str, Any]) -> Workplace:
    return open_workplace(context(real(folder, **tables), **(run or {})))


# --- real silos


def test_a_real_silo_keeps_everything_in_its_state_folder(tmp_path: Path) -> None:
    place = opened(tmp_path, {"run_dir": "/elsewhere", "save_models": False})
    assert isinstance(place.state, FolderState)
    assert place.model == tmp_path / "state" / "model-heart-disease.skops"
    place.state.put("a-name", b"x")
    assert (tmp_path / "state" / "a-name").read_bytes() == b"x"


def test_a_real_silo_has_no_run_folder_to_tell_what_it_raised(tmp_path: Path) -> None:
    """Even where one is on its machine: exceptions quote records, and the run config is the coordinator's."""
    run = tmp_path / "run"
    RunFolder.create(run, {}, {}).close()
    (tmp_path / "silo").mkdir()
    assert run_of_simulation(context(real(tmp_path / "silo"), run_dir=str(run))) is None
    simulated = run_of_simulation(context({"partition-id": 0}, run_dir=str(run)))
    assert simulated is not None
    assert simulated.path == run


def test_the_state_folder_is_where_the_silo_says(tmp_path: Path) -> None:
    (tmp_path / "silo").mkdir()
    path = write_silo_folder(tmp_path / "silo")
    path.write_text('state = "../kept"\n' + path.read_text("utf-8"), "utf-8")
    place = open_workplace(context({"silo-file": str(path)}))
    assert place.model is not None
    assert place.model.parent.resolve() == (tmp_path / "kept").resolve()
    assert (tmp_path / "kept").is_dir()


def test_a_network_is_kept_in_a_file_of_its_own_kind(tmp_path: Path) -> None:
    learner = {"name": "tests.federation.learners.network", "packages": ["tests"]}
    assert opened(tmp_path, learner=learner).model == tmp_path / "state" / "model-heart-disease.safetensors"


def test_a_real_silo_hands_out_no_weights(tmp_path: Path) -> None:
    assert opened(tmp_path).hands_out_weights is False


@pytest.mark.parametrize("wanted", [False, True, "true", 1, None])
@pytest.mark.parametrize("allowed", [False, True])
def test_scores_need_the_policy_and_the_run(tmp_path: Path, allowed: bool, wanted: Any) -> None:
    place = opened(tmp_path, {"report_scores": wanted}, policy={"metrics": allowed})
    assert place.sends_scores is (allowed and wanted is True)


@pytest.mark.parametrize(("resume", "resumes"), [(True, True), (False, False), ("yes", False)])
def test_a_network_goes_on_from_its_model_only_in_a_run_that_goes_on(
    tmp_path: Path, resume: Any, resumes: bool
) -> None:
    assert opened(tmp_path, {"resume": resume}).resumes is resumes


def test_a_run_config_changes_nothing_else(tmp_path: Path) -> None:
    node = real(tmp_path)
    place = open_workplace(context(node))
    hostile = {"study": "x", "data": "files", "data_dir": "/", "learner": "os.system", "no_such_key": 1, "seed": 7}
    other = open_workplace(context(node, **hostile))
    assert other.site is place.site
    assert (other.model, other.sends_scores, other.hands_out_weights) == (place.model, False, False)


def test_data_and_learner_are_read_once_and_not_again_when_files_change(tmp_path: Path) -> None:
    node = real(tmp_path)
    site = open_workplace(context(node)).site
    real(tmp_path, learner={"name": "svm"})
    (tmp_path / "data.csv").unlink()
    (tmp_path / "study" / "public.csv").write_text("age\n1\n", "utf-8")
    assert open_workplace(context(node)).site is site


def test_silos_in_one_process_are_kept_apart(tmp_path: Path) -> None:
    nodes = [real(tmp_path / name, name) for name in HOSPITALS]
    places = [open_workplace(context(node)) for node in nodes]
    assert [place.site.silo for place in places] == list(HOSPITALS)
    assert [open_workplace(context(node)).site for node in nodes] == [place.site for place in places]


def test_a_silo_is_named_before_its_data_is_read(tmp_path: Path) -> None:
    node = real(tmp_path, data={"file": "nowhere.csv"})
    assert silo_named(context(node)) == "cleveland"
    with pytest.raises(DataError, match=r"nowhere\.csv"):
        open_workplace(context(node))


def test_a_silo_without_settings_has_no_name(tmp_path: Path, wording: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        silo_named(context({"silo-file": str(tmp_path / "silo.toml")}))
    assert str(caught.value) == wording


# --- simulated silos


def test_a_simulated_silos_place_is_the_runs(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", {}, {}).close()
    run = {"run_dir": str(tmp_path / "run"), "report_scores": True, "resume": True}
    place = open_workplace(context({"partition-id": 1, "num-partitions": 4}, **run))
    assert isinstance(place.state, ContextState)
    assert place.model == tmp_path / "run" / "models" / "budapest.skops"
    assert (place.site.silo, place.resumes, place.sends_scores, place.hands_out_weights) == (
        "budapest",
        True,
        True,
        True,
    )


def test_a_simulated_silo_keeps_no_model_where_no_run_was_begun(tmp_path: Path) -> None:
    assert open_workplace(context({"partition-id": 0}, run_dir=str(tmp_path / "run"))).model is None


def test_a_simulated_silo_keeps_no_model_that_nobody_wants(tmp_path: Path) -> None:
    RunFolder.create(tmp_path / "run", {}, {}).close()
    run = {"run_dir": str(tmp_path / "run"), "save_models": False}
    assert open_workplace(context({"partition-id": 0}, **run)).model is None


def test_a_simulated_silo_is_named_by_its_position() -> None:
    assert [silo_named(context({"partition-id": i})) for i in range(4)] == list(HOSPITALS)
