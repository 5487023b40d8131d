"""Columns that tell most of the label: proxies are said, honest signs of shipped clinical data are not."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_breast_cancer
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import load as load_shipped
from fedct_flwr.datasets.inspection import Finding, Words, inspect_tables
from tests.messy.families import drawn
from tests.messy.patients import LABEL, PUBLIC, SILOS, Patients, load, patients


def _is_ill(p: Patients, name: str, row: int, errors: float) -> bool:
    """The label, but for a share of errors; in public, where none is, by chance."""
    rng = drawn(name, row, 11)
    if name == PUBLIC:
        return bool(rng.random() < 0.5)
    return (p.tables[name][LABEL][row] == "yes") != (rng.random() < errors)


def _number(p: Patients, name: str, row: int, errors: float) -> float:
    """A number that is larger where a record is ill, with errors."""
    return drawn(name, row, 12).uniform(0, 1) + _is_ill(p, name, row, errors)


PROXIES: dict[str, Callable[[Patients, str, int, float], str]] = {
    "a treatment": lambda p, name, row, errors: ("none", "heparin")[_is_ill(p, name, row, errors)],
    "zeros and ones": lambda p, name, row, errors: str(int(_is_ill(p, name, row, errors))),
    "codes": lambda p, name, row, errors: f"{'ZI'[_is_ill(p, name, row, errors)]}{drawn(name, row).integers(20, 29)}",
    "a threshold": lambda p, name, row, errors: f"{_number(p, name, row, errors):.3f}",
    "a day": lambda p, name, row, errors: str(19_000 + int(400 * _number(p, name, row, errors))),
}


def findings(p: Patients, folder: Path, **settings: object) -> list[Finding]:
    return [each for each in load(p.write(folder), **settings).findings if each.code == "tells-the-label"]


@pytest.mark.parametrize("errors", [0.02, 0.03, 0.045])
@pytest.mark.parametrize("what", PROXIES)
def test_a_proxy_is_said_with_its_share_and_accepted_by_name(
    tmp_path: Path, what: str, errors: float, wording: SnapshotAssertion
) -> None:
    p = patients()
    p.add("proxy", lambda name, row: PROXIES[what](p, name, row, errors))
    (found,) = findings(p, tmp_path / "wards")
    assert found.column == "proxy"
    share = float(found.said.rpartition("(")[2].rstrip("%)"))
    assert abs(share - 100 * (1 - errors)) < 1.5
    if errors > 0.02:
        assert found.fix == wording
    assert not findings(p, tmp_path / "again", accept="tells-the-label:proxy")


@pytest.mark.parametrize("what", PROXIES)
def test_nothing_is_said_of_a_strong_sign(tmp_path: Path, what: str) -> None:
    p = patients()
    p.add("sign", lambda name, row: PROXIES[what](p, name, row, 0.09))
    assert not findings(p, tmp_path)


def test_a_rare_class_is_not_told_by_whatever_is_rare(tmp_path: Path) -> None:
    p = patients()
    p.relabel(lambda silo, row: "yes" if drawn(silo, row, 4).random() < 0.05 else "no")
    p.add("rare", lambda name, row: str(int(drawn(name, row, 5).random() < 0.02)))
    assert not findings(p, tmp_path)


def test_a_proxy_at_one_silo_is_said_of_that(tmp_path: Path) -> None:
    p = patients()
    p.add("proxy", lambda name, row: str(int(_is_ill(p, name if name == "essen" else PUBLIC, row, 0.04))))
    assert [(each.column, each.silo) for each in findings(p, tmp_path)] == [("proxy", "essen")]


def test_words_that_tell_the_label_at_one_silo_are_said_of_that(tmp_path: Path) -> None:
    p = patients()
    p.add("proxy", lambda name, row: "ab"[_is_ill(p, name if name == "essen" else PUBLIC, row, 0.0)])
    assert [(each.column, each.silo) for each in findings(p, tmp_path)] == [("proxy", "essen")]


def test_a_real_silo_is_told_without_a_share(wording: SnapshotAssertion) -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 400)
    proxy = np.where(np.arange(400) % 25 == 0, 1 - y, y)
    table = pa.table({"proxy": proxy, "x": rng.normal(size=400), LABEL: pa.array([str(each) for each in y])})
    public = pa.table({"proxy": rng.integers(0, 2, 200), "x": rng.normal(size=200)})
    found = inspect_tables(public, {"essen": table}, LABEL, words=Words(private=True)).findings
    (said,) = [each.said for each in found if each.code == "tells-the-label"]
    assert said == wording


def _told(X: np.ndarray, y: np.ndarray) -> list[str]:
    names = [f"x{at}" for at in range(X.shape[1])]
    parts = np.array_split(np.random.default_rng(0).permutation(len(X)), 3)
    tables = [
        pa.table({**dict(zip(names, X[part].T, strict=True)), LABEL: [f"c{c}" for c in y[part]]}) for part in parts
    ]
    public = tables[0].drop_columns([LABEL])
    found = inspect_tables(public, dict(zip(SILOS, tables, strict=True)), LABEL).findings
    return [each.sentence for each in found if each.code == "tells-the-label"]


def test_nothing_is_said_of_breast_cancer() -> None:
    data = load_breast_cancer()
    assert not _told(data.data, data.target)


def test_nothing_is_said_of_heart_disease() -> None:
    dataset = load_shipped(RunConfig.from_flower({"study": "s", "data": "heart-disease"}))
    own = [silo.private for silo in dataset.silos]
    assert not _told(np.concatenate([each.X for each in own]), np.concatenate([each.y for each in own]))
