"""Columns that a study allows to be missing are missing cells at a silo without them; others are left out, and said."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.inspections import inspect_records
from fedct_flwr.datasets.silo_records import differing, read_each, read_grouped, table_of
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.silo.own import real_site
from fedct_flwr.types import ConfigError, DataError
from tests.hospitals import write_silo_folder


class Clinic:
    def __init__(self, folder: Path) -> None:
        self.file, self.folder = write_silo_folder(folder), folder

    def allow(self, *names: str) -> None:
        path = self.folder / "study" / "study.toml"
        listed = ", ".join(f'"{name}"' for name in names)
        path.write_text(f"{path.read_text('utf-8')}\n[columns]\nmay-be-missing = [{listed}]\n", "utf-8")

    def change(self, **columns: object) -> None:
        """Rename columns, or drop those that are None; "new" is one more."""
        for name in ("data.csv", "test.csv"):
            table = pd.read_csv(self.folder / name)
            table = table.drop(columns=[old for old, new in columns.items() if new is None])
            if "new" in columns:
                table["new"] = range(len(table))
            renamed = {old: new for old, new in columns.items() if isinstance(new, str)}
            table.rename(columns=renamed).to_csv(self.folder / name, index=False)

    @property
    def config(self) -> SiloConfig:
        return SiloConfig.read_toml(self.file)

    @property
    def study(self) -> StudyFolder:
        return read_study(self.folder / "study")


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(tmp_path)


def test_a_silo_without_an_allowed_column_takes_part(clinic: Clinic) -> None:
    before, digest = read_grouped(clinic.config.data, clinic.study)[0], clinic.study.digest
    clinic.allow("chol", "sex")
    assert clinic.study.digest != digest
    clinic.change(chol=None, sex=None, new=1)
    data, study = clinic.config.data, clinic.study
    names = [column.name for column in study.schema.columns]
    gone = [names.index("chol"), names.index("sex")]
    for read in (read_grouped, read_each):
        X = read(data, study)[0].X
        assert np.isnan(X[:, gone].astype(float)).all()
        np.testing.assert_array_equal(np.delete(X, gone, 1), np.delete(before.X, gone, 1))
    table = table_of(data, study)
    assert table is not None
    assert differing(table) == (["sex", "chol"], ["new"])
    said = {found.name: found.message for found in inspect_records(data, study, "a").findings}
    assert {"column-missing:chol", "column-missing:sex"} <= {*said}
    assert said["column-left-out:a"] == "1 column not of the study left out"
    site = real_site(clinic.config, study)
    answers = site.learner.fit(site.private.X, site.private.y).predict(study.public.X)  # type: ignore[attr-defined]
    assert len(answers) == len(study.public)


@pytest.mark.parametrize("changed", [{"chol": "Chol"}, {"age": None}, {"chol": None, "thalach": None}])
def test_others_are_refused_as_before_and_how_to_allow_them_is_said(
    clinic: Clinic, changed: dict[str, str | None]
) -> None:
    clinic.allow("chol")
    clinic.change(**changed)
    with pytest.raises(DataError, match="disagree with the public set") as error:
        read_grouped(clinic.config.data, clinic.study)
    hint = "rename 'Chol' to 'chol'" if "Chol" in changed.values() else "may-be-missing under"
    assert hint in str(error.value)


@pytest.mark.parametrize("name", ["cholesterol", "diagnosis"])
def test_only_columns_of_the_public_set_may_be_missing(clinic: Clinic, name: str) -> None:
    clinic.allow(name)
    with pytest.raises(ConfigError, match="name columns of the public set"):
        _ = clinic.study


def test_a_dictionary_may_stand_next_to_the_list(clinic: Clinic) -> None:
    clinic.allow("chol")
    path = clinic.folder / "study" / "study.toml"
    path.write_text(path.read_text("utf-8") + '[columns.chol]\nkind = "number"\nrange = [0, 900]\n', "utf-8")
    assert [*clinic.study.config.columns] == ["chol"]
    assert clinic.study.config.may_be_missing == ("chol",)
