"""Whom silos trust."""

import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.consensus.counting import Trust
from fedct_flwr.report.figure import Figure, Section
from fedct_flwr.report.silos import silos as about_silos
from fedct_flwr.report.summary import read_runs
from fedct_flwr.report.trust import trust
from tests.report.folders import SILOS, finished


def numbered(number: int) -> list[str]:
    return [f"silo-{n}" for n in range(1, number + 1)]


def run(path: Path, silos: Sequence[str], matrix: np.ndarray) -> Path:
    """One whose coordinator writes silos in the order of their names."""
    folder = finished(path, silos=silos, algorithm="prediction-consensus")
    folder.append_trust(3, Trust(sorted(silos), matrix))
    return folder.path


def own(silos: Sequence[str]) -> np.ndarray:
    """Each trusts itself twice as much as any other, and all trust the last by name but half as much."""
    weights = np.ones((len(silos), len(silos))) + np.eye(len(silos))
    weights[:, -1] /= 2
    return weights / weights.sum(axis=1, keepdims=True)


def section(*paths: Path) -> Section:
    return trust(read_runs(paths))


def figure(*paths: Path) -> Figure:
    (found,) = section(*paths).figures
    return found


def test_silos_stand_in_the_order_that_they_have_everywhere(tmp_path: Path) -> None:
    silos = numbered(12)
    found = figure(run(tmp_path / "run", silos, own(silos)))
    assert found.traces[0]["x"] == found.traces[0]["y"] == silos
    assert found.message.endswith("and silo-9 least.")
    assert [row[0] for row in found.table.rows] == silos
    diagonal = [float(row[1 + place]) for place, row in enumerate(found.table.rows)]
    assert diagonal == [0.16] * 8 + [0.083] + [0.16] * 3


@pytest.mark.parametrize(("number", "named"), [(13, True), (40, True), (41, False)])
def test_names_are_shown_as_long_as_there_is_room_for_each(tmp_path: Path, number: int, named: bool) -> None:
    silos = numbered(number)
    found = figure(run(tmp_path / "run", silos, own(silos)))
    assert found.layout["yaxis"]["showticklabels"] is named
    assert not named or found.height / number >= 24


def test_trust_that_is_the_same_everywhere_is_a_sentence(tmp_path: Path, wording: SnapshotAssertion) -> None:
    silos = numbered(7)
    path = run(tmp_path / "run", silos, np.full((7, 7), 1 / 7))
    found = section(path)
    assert found.figures == []
    assert found.notes == wording
    other = run(tmp_path / "other", silos, own(silos))
    both = section(path, other)
    assert both.notes == wording
    assert [drawn.title for drawn in both.figures] == wording


def test_what_all_give_to_a_silo_is_explained_and_told_only_if_it_differs(
    tmp_path: Path, wording: SnapshotAssertion
) -> None:
    for name, matrix in {"same": np.full((3, 3), 1 / 3), "other": own(SILOS)}.items():
        path = run(tmp_path / name, SILOS, matrix)
        log = path / "rounds.jsonl"
        log.write_text(log.read_text().replace('"quality": null', '"quality": {"trust": 1.0}'))
    assert about_silos(read_runs([tmp_path / "same"])).tables == []
    ((_, table),) = about_silos(read_runs([tmp_path / "other"])).tables
    assert list(table.columns) == wording


def test_numbers_on_the_trust_matrix_have_a_paper_of_their_own(tmp_path: Path) -> None:
    scale = figure(run(tmp_path / "run", SILOS, own(SILOS))).traces[0]["colorscale"]
    assert all(re.fullmatch("#[0-9a-f]{6}", color) for _, color in scale)
