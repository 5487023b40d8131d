"""Real silos grade public examples by risk: files, an approval and a gate each."""

import json
import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import tomli_w
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from typer.testing import CliRunner

from fedct_flwr.cli.main import app
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.inspections import inspect_records
from fedct_flwr.datasets.silo_records import read_each
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.flower.loopback import run_loopback
from fedct_flwr.hospital.egress_log import read_entries
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.judgment import Judgment
from fedct_flwr.silo.own import real_site
from fedct_flwr.survival.measures import EVENTS, Times, concordance
from fedct_flwr.types import ConfigError, DataError
from server_app.main import app as server_app
from tests.golden.hospital import answering
from tests.survival.made import federation, frame

STUDY: dict[str, Any] = {"study": "made", "survival": {"time": "days", "event": "died", "horizons": [50.0, 100.0]}}


def _silo(folder: Path, name: str, table: pd.DataFrame, public: pd.DataFrame, **tables: Any) -> Path:
    """A silo's folder with study, records and ``silo.toml``."""
    study = folder / name / "study"
    study.mkdir(parents=True)
    public.to_csv(study / "public.csv", index=False)
    (study / "study.toml").write_text(tomli_w.dumps(STUDY))
    table.to_csv(folder / name / "data.csv", index=False)
    settings = {"silo": name, "data": {"file": "data.csv", "label": "days"}, "learner": {"name": "auto"}}
    settings |= {"policy": {}, "connection": {"superlink": "127.0.0.1:8000"}, **tables}
    path = folder / name / "silo.toml"
    path.write_text(tomli_w.dumps(settings))
    return path


def _run(folder: Path, silos: dict[str, Path], **settings: Any) -> RunFolder:
    with ExitStack() as stack:
        answers = {name: answering(path, stack) for name, path in silos.items()}
        client = ClientApp()

        @client.train()
        def train(message: Message, context: Context) -> Message:
            return answers[Path(str(context.node_config["silo-file"])).parent.name](message, context)

        study = Path(shutil.copytree(next(iter(silos.values())).parent / "study", folder / "agreed"))
        config = {
            "study": "made", "data": "study", "data-dir": str(study), "roster": ",".join(silos),
            "algorithm": "fedct-grades", "roster-deadline": 0.5, "run-dir": str(folder / "run"), **settings,
        }  # fmt: skip
        run_loopback(server_app, client, config, [{"silo-file": path} for path in silos.values()])
    return RunFolder(folder / "run")


def test_silos_send_grades_as_labels_through_their_gates_and_keep_better_models(tmp_path: Path) -> None:
    tables, public = federation(size=24)
    silos = {name: _silo(tmp_path, name, table, public) for name, table in tables.items()}
    run = _run(tmp_path, silos)
    assert run.read_json("result.json") == {"status": "completed", "fixed_point": 2}
    labels = pd.read_csv(run.path / "labels.csv")["label"]
    assert set(labels) == {1, 2, 3, 4, 5}
    fresh = frame(np.random.default_rng(9), 1000)
    after = Times(fresh["days"].to_numpy(), fresh["died"].to_numpy() == 1)
    gains = []
    for path in silos.values():
        config = SiloConfig.read_toml(path)
        released = [entry for entry in read_entries(config.state) if entry.event is Event.RELEASED]
        assert [entry.queries for entry in released] == [len(public)] * 2
        site = real_site(config, read_study(config.study))
        X = fresh[["a", "b", "c", "d"]].to_numpy()
        together = site.learner.load(config.state / f"model-made{site.learner.suffix}").predict(X)
        alone = site.learner.fit(*site.private).predict(X)
        gains.append(concordance(after, together).value - concordance(after, alone).value)
        judgment = Judgment.read(config.state / "judgment-made.json")
        assert judgment is not None
        assert judgment.records == 24
        assert judgment.weight
    assert np.mean(gains) > 0.01
    done = CliRunner().invoke(app, ["silo", "predict", str(tmp_path / "silo-1" / "data.csv"), str(tmp_path / "silo-1")])
    lines = done.output.splitlines()
    assert lines[0] == "record,risk"
    assert len(lines) == 25


def test_noise_covers_grades_and_no_record_decides_whether_there_is_an_answer(tmp_path: Path) -> None:
    tables, public = federation(size=50)
    privacy = {"protection": "randomized-response", "epsilon": 8.0, "rounds": 1, "queries": 50}
    silos = {name: _silo(tmp_path, name, table, public, privacy=privacy) for name, table in tables.items()}
    censored = silos["silo-0"].parent / "data.csv"
    pd.read_csv(censored).assign(died=0).to_csv(censored, index=False)
    worse = pd.read_csv(silos["silo-1"].parent / "data.csv")
    worse.loc[0, "days"] = -1
    worse.to_csv(silos["silo-1"].parent / "data.csv", index=False)
    run = _run(tmp_path, silos, **{"query-size": 50, "num-server-rounds": 1})
    assert sorted(run.rounds()[0]["silos"]) == sorted(tables)
    config = SiloConfig.read_toml(silos["silo-1"])
    assert read_each(config.data, read_study(config.study))[0].size == 49


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"died": 2}, "'died' of .* is neither 0 nor 1 in 50 records"),
        ({"died": 0}, "has no event"),
        ({"died": "yes"}, "'died' of .* holds 'string'"),
        ({"days": "soon"}, "must hold numbers"),
        ({"days": np.nan}, "without a finite 'days'"),
    ],
)
def test_records_that_rank_nobody_are_named_before_anything_is_sent(
    tmp_path: Path, change: dict[str, Any], said: str
) -> None:
    tables, public = federation(size=50)
    path = _silo(tmp_path, "silo-0", tables["silo-0"].assign(**change), public)
    config = SiloConfig.read_toml(path)
    with pytest.raises(DataError, match=said):
        real_site(config, read_study(config.study))
    checked = CliRunner().invoke(app, ["silo", "check", str(path.parent), "--offline", "--json"])
    (found,) = [
        each for each in json.loads(checked.output)["findings"] if each["said"].startswith(("labels", "follow"))
    ]
    assert found["fix"].endswith(EVENTS)
    assert "class" not in found["said"]


@pytest.mark.parametrize(("unit", "said"), [(1.0, False), (30.4, True)])
def test_a_silo_that_follows_no_record_up_to_a_horizon_is_told_to_check_the_unit(
    tmp_path: Path, unit: float, said: bool
) -> None:
    tables, public = federation(size=50)
    path = _silo(tmp_path, "silo-0", tables["silo-0"].assign(days=tables["silo-0"]["days"] / unit), public)
    config = SiloConfig.read_toml(path)
    found = inspect_records(config.data, read_study(config.study), "silo-0").findings
    (about,) = [each for each in found if each.code == "other-scale"] or [None]
    assert (about is not None) == said
    assert about is None or "'days' at silo silo-0 follows no record up to 50" in about.sentence


def test_a_missing_column_of_events_and_classes_next_to_survival_are_refused(tmp_path: Path) -> None:
    tables, public = federation(size=50)
    path = _silo(tmp_path, "silo-0", tables["silo-0"].drop(columns="died"), public)
    with pytest.raises(DataError, match="no event column 'died'"):
        real_site(SiloConfig.read_toml(path), read_study(path.parent / "study"))
    (path.parent / "study" / "study.toml").write_text(tomli_w.dumps({**STUDY, "classes": ["a", "b"]}))
    with pytest.raises(ConfigError, match="without classes"):
        read_study(path.parent / "study")
