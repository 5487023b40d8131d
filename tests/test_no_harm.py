"""The benchmark of the promise: what counts as a loss, and that both kinds of trust start from the same."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from benchmarks import default_run, no_harm
from benchmarks.federation import Runs
from benchmarks.no_harm import GUARDED, LEARNERS, PLAIN, Row, Silos
from benchmarks.no_harm_held import ROWS as HELD
from benchmarks.no_harm_tables import ROWS as TABLES
from fedct_flwr.config import RunConfig
from fedct_flwr.verdict import Verdict


def verdicts(lost: int, others: int) -> list[Verdict]:
    return [Verdict(-0.5, 0, 20, 0.001)] * lost + [Verdict(-0.1, 4, 5, 0.9)] * others


def test_a_row_has_the_mean_over_silos_its_error_and_who_lost() -> None:
    row = Row([0.1, 0.3], [0.2], verdicts(1, 3))
    assert (row.gain, row.error, row.lost) == pytest.approx((0.2, 0.1, 0.25))


def test_criteria_count_rows_below_alone_and_the_gain_that_is_kept() -> None:
    rows = {
        ("data", learner, trust): Row([gain, gain - 0.002], [0.1], verdicts(*lost))
        for learner in LEARNERS
        for trust, gain, lost in ((PLAIN, 0.1, (1, 1)), (GUARDED, 0.05 if learner != "auto" else -0.1, (0, 2)))
    }
    first, *_, auto, overall = no_harm._criteria(["data"], rows).splitlines()[2:]
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in (first, auto, overall)]
    assert [line[1:5] for line in cells] == [
        ["0 of 1", "50.0% of 2", "0 of 1", "0.0% of 2"],
        ["0 of 1", "50.0% of 2", "1 of 1", "0.0% of 2"],
        ["0 of 4", "50.0% of 8", "1 of 4", "0.0% of 8"],
    ]
    assert cells[0][5].endswith("(49%)")


def test_silos_alone_are_the_same_whatever_they_trust_then() -> None:
    silos, runs = Silos("heart-disease", "logistic-regression", 0), {trust: Runs() for trust in (PLAIN, GUARDED)}
    rows = {trust: Row() for trust in runs}
    for trust, values in runs.items():
        silos.measure(trust, rows[trust], values)
    plain, guarded = runs[PLAIN], runs[GUARDED]
    assert plain.mean("alone_own") == guarded.mean("alone_own")
    assert rows[PLAIN].gain == pytest.approx(plain.mean("together_own") - plain.mean("alone_own"))
    assert len(rows[GUARDED].pooled) == len(rows[GUARDED].verdicts) == 4
    assert guarded.mean("together_pooled") > guarded.mean("alone_pooled")


def test_sites_to_confirm_on_are_as_large_and_as_mixed_as_hospitals() -> None:
    config = RunConfig.from_flower({"study": "s", "data": "heart-disease"})
    dataset = HELD["held-labs"](config)
    assert [silo.private.size for silo in dataset.silos] == [49, 110, 260, 600, 1200]
    shares = [silo.private.y.mean() for silo in dataset.silos]
    assert 0.1 < min(shares) < 0.2 < 0.4 < max(shares) < 0.5
    missing = np.isnan(dataset.silos[4].private.X).mean(axis=0)
    assert missing.min() > 0.05
    assert missing.max() > 0.6


def test_the_default_run_sets_nothing_but_its_data() -> None:
    config = RunConfig.from_flower({"study": "s", **default_run.defaults()})
    assert config == RunConfig.from_flower({"study": "s", "data": "heart-disease"})


def test_sites_of_a_table_have_enough_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [4, *(20 + n for n in range(20))]
    rows = [f"s{site},{n % 5},{n},{n % 20}" for site, size in enumerate(sizes) for n in range(size)]
    (tmp_path / "r-tables").mkdir()
    text = "\n".join(["school,ses,cses,mAch", *rows, ""])
    (tmp_path / "r-tables" / "hsb82.csv.gz").write_bytes(gzip.compress(text.encode()))
    monkeypatch.setenv("FEDCT_DATA", str(tmp_path))
    dataset = TABLES["table-hsb82"](RunConfig.from_flower({"study": "s", "data": "heart-disease"}))
    assert len(dataset.silos) == 12
    assert "school-s0" not in {silo.name for silo in dataset.silos}
    assert [column.name for column in dataset.schema.columns] == ["ses"]
    assert min(silo.private.size for silo in dataset.silos) >= 8
    assert len(dataset.public) == max(60, sum(silo.private.size for silo in dataset.silos) // 3)
    assert 0.2 < np.mean(dataset.test.y) < 0.5
