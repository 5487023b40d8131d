"""How the consensus came about, where silos share labels and where they share probabilities."""

import re
from pathlib import Path

from syrupy.assertion import SnapshotAssertion

from fedct_flwr.report.consensus import consensus
from fedct_flwr.report.figure import Section
from fedct_flwr.report.summary import read_runs
from tests.report.folders import CLASSES, add_round, begin, finished


def section(*paths: Path) -> Section:
    return consensus(read_runs(paths))


def words(found: Section) -> str:
    drawn = [f"{figure.title} {figure.message} {figure.note}" for figure in found.figures]
    return " ".join([*drawn, *found.notes])


def test_where_silos_share_probabilities_nothing_is_called_a_label(tmp_path: Path, wording: SnapshotAssertion) -> None:
    said = words(section(*(finished(tmp_path / name, algorithm=name).path for name in ("dd", "fedmd"))))
    assert not re.search(r"label|vote|abstention", said, re.IGNORECASE)
    alone = words(section(tmp_path / "dd"))
    assert not re.search(r"label|vote|abstention", alone, re.IGNORECASE)
    assert "Silos agree on 80.0% of the likeliest classes in round 3" in alone
    assert alone == wording


def test_beside_labels_it_is_said_what_a_label_is_where_there_are_probabilities(tmp_path: Path) -> None:
    soft, hard = (finished(tmp_path / name, algorithm=name).path for name in ("prediction-consensus", "fedct"))
    assert "the label is the class that the mean of all silos' targets finds likeliest" in words(section(soft, hard))
    assert "likeliest" not in words(section(hard))
    assert "No abstentions" in words(section(hard))


def test_classes_that_no_example_has_are_left_out_of_the_sentence(tmp_path: Path, wording: SnapshotAssertion) -> None:
    folder = begin(tmp_path / "run")
    add_round(folder, 1, class_counts=dict(zip(CLASSES, (0, 40), strict=True)))
    assert words(section(folder.path)) == wording
