"""What a silo works with: a real one's is the simulated one's to the last bit, and its own settings decide."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.silo.own import real_site
from fedct_flwr.silo.personal import score
from fedct_flwr.silo.simulated import simulated_site
from fedct_flwr.silo.site import Site
from fedct_flwr.types import ConfigError, DataError
from fedct_flwr.wire.kinds import HARD
from tests.hospitals import STUDY, write_silo_folder

RUN = RunConfig.from_flower({"study": STUDY, "data": STUDY})


def open_real(folder: Path, silo: str = "cleveland", **tables: dict[str, Any]) -> Site:
    config = SiloConfig.read_toml(write_silo_folder(folder, silo, **tables))
    return real_site(config, read_study(config.study))


def test_without_test_records_a_silo_trains_on_all_and_has_no_own_scores(tmp_path: Path) -> None:
    site = open_real(tmp_path, data={"test-file": ""})
    assert site.private.size == simulated_site(RUN, 0).private.size
    assert site.own_test.size == 0
    site.learner.fit(*site.private)
    scores = score(HARD, site.learner, site.own_test, site.pooled_test)
    assert np.isnan([scores.own_accuracy, scores.own_balanced_accuracy]).all()
    assert 0 < scores.pooled_accuracy <= 1


def test_a_share_is_held_out_of_the_file_and_never_trained_on(tmp_path: Path) -> None:
    whole = simulated_site(RUN, 0).private
    site = open_real(tmp_path, data={"test-file": "", "test-fraction": 0.25})
    assert site.own_test.size == whole.size // 4
    assert site.private.size == whole.size - whole.size // 4
    rows = sorted(row.tobytes() for part in (site.private, site.own_test) for row in np.column_stack(part))
    assert rows == sorted(row.tobytes() for row in np.column_stack(whole))


def test_a_test_file_is_read_with_the_silos_own_mapping(tmp_path: Path) -> None:
    write_silo_folder(tmp_path)
    codes = {"no": "healthy", "yes": "diseased"}
    path = write_silo_folder(tmp_path, data={"mapping": codes})
    for name in ("data.csv", "test.csv"):
        text = (tmp_path / name).read_text("utf-8")
        for code, meant in codes.items():
            text = text.replace(meant, code)
        (tmp_path / name).write_text(text, "utf-8")
    config = SiloConfig.read_toml(path)
    site, simulated = real_site(config, read_study(config.study)), simulated_site(RUN, 0)
    np.testing.assert_array_equal(site.private.y, simulated.private.y)
    np.testing.assert_array_equal(site.own_test.y, simulated.own_test.y)


def test_a_wrong_label_column_is_the_silos_to_correct(tmp_path: Path) -> None:
    said = (
        r"data\.csv: the label column 'age' holds .* numbers .*: name the column with the study's classes as label in"
    )
    with pytest.raises(DataError, match=said):
        open_real(tmp_path, data={"label": "age"})


Change = Callable[[pd.DataFrame, pd.DataFrame], pd.DataFrame]


def open_tested(folder: Path, change: Change) -> Site:
    """A silo with patients of three records each, whose test file is changed: ``change(records, tests)``."""
    path = write_silo_folder(folder, data={"tables": {"group": "patient"}}, policy={"metrics": True})
    own, tests = (pd.read_csv(folder / name) for name in ("data.csv", "test.csv"))
    own["patient"], tests["patient"] = np.arange(len(own)) // 3, 1000 + np.arange(len(tests)) // 3
    own.to_csv(folder / "data.csv", index=False)
    change(own, tests).to_csv(folder / "test.csv", index=False)
    config = SiloConfig.read_toml(path)
    return real_site(config, read_study(config.study))


TEST_FILES: dict[str, tuple[Change, list[str]]] = {
    "all good": (lambda own, tests: tests, []),
    "the file of the records": (lambda own, tests: own, ["about 170 records of the test part", "about 60 groups"]),
    "two of its patients": (lambda own, tests: tests.assign(patient=[0, 0, 1, *tests.patient[3:]]), ["than 5 groups"]),
    "ages in months": (
        lambda own, tests: tests.assign(age=tests.age * 12),
        ["'age' at silo cleveland.test lies apart"],
    ),
    "seven records": (lambda own, tests: tests.head(7), ["fewer than 10 test records"]),
}


@pytest.mark.parametrize("name", TEST_FILES)
def test_a_test_file_is_inspected_like_the_records(tmp_path: Path, name: str) -> None:
    change, said = TEST_FILES[name]
    found = [each.message for each in open_tested(tmp_path, change).findings]
    assert len(found) == len(said), found
    assert all(any(part in each for each in found) for part in said), found


def test_a_test_file_in_another_spelling_is_refused_by_its_name(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"test\.csv: two classes .* spelling at silo cleveland\.test"):
        open_tested(tmp_path, lambda own, tests: tests.assign(**{"class": tests["class"].str.upper()}))


@pytest.mark.parametrize("name", ["sklearn.svm.SVC", "tests.federation.learners.network", "os.system"])
def test_a_learner_by_import_path_needs_its_package(tmp_path: Path, name: str) -> None:
    package = name.partition(".")[0]
    with pytest.raises(ConfigError, match=f"not allowed at this silo: .* add '{package}' to packages"):
        open_real(tmp_path, learner={"name": name, "packages": ["another"]})
