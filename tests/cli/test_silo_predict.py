"""The silo's own model on new records."""

import csv
from pathlib import Path

import pandas as pd
import pytest

from fedct_flwr.learners.base import Saveable
from fedct_flwr.silo.own import model_of, real_site
from tests.cli.silos import Fedct, Kit


@pytest.mark.parametrize("with_label", [True, False])
def test_records_are_numbered_and_given_a_class(fedct: Fedct, kit: Kit, tmp_path: Path, with_label: bool) -> None:
    site = real_site(kit.config, kit.study)
    path = model_of(kit.config, site)
    assert path is not None
    assert isinstance(site.learner, Saveable)
    site.learner.fit(*site.private).save(path)
    labels = site.learner.load(path).predict(kit.study.test.X)
    with (kit.folder / "study" / "test.csv").open(newline="") as file:
        rows = [row if with_label else row[:-1] for row in csv.reader(file)]
    with (tmp_path / "new.csv").open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    outcome = fedct("silo", "predict", tmp_path / "new.csv", kit.folder)
    assert (outcome.code, outcome.err.count("\n")) == (0, 1)
    assert "ranks, not chances" in outcome.err
    said = list(csv.reader(outcome.out.splitlines()))
    classes = (kit.study.schema.classes[label] for label in labels)
    assert said[0][:2] == ["record", "class"]
    assert [row[:2] for row in said[1:]] == [[str(number), name] for number, name in enumerate(classes, start=1)]
    assert all(float(row[2]) + float(row[3]) == pytest.approx(1, abs=1e-5) for row in said[1:])
    # In the silo's own form, as its records are.
    own = pd.read_csv(tmp_path / "new.csv").astype(str)
    own.loc[0, "age"] = "?"
    own.to_csv(tmp_path / "own.csv", index=False)
    assert 'set missing = ["?"] in silo.toml' in fedct("silo", "predict", tmp_path / "own.csv", kit.folder).sentence
    with (kit.folder / "silo.toml").open("a") as file:
        file.write('\n[data.tables]\nmissing = ["?"]\n')
    outcome = fedct("silo", "predict", tmp_path / "own.csv", kit.folder)
    assert (outcome.code, outcome.out.count("\n")) == (0, len(said))
    months = pd.read_csv(tmp_path / "new.csv").assign(age=lambda table: 12 * table.age)
    months.to_csv(tmp_path / "months.csv", index=False)
    outcome = fedct("silo", "predict", tmp_path / "months.csv", kit.folder)
    assert outcome.code == 0
    assert "column 'age' in the new records lies apart from what the model has learned from" in outcome.err
