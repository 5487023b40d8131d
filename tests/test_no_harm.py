"""The benchmark of the promise: what counts as a loss, and that both kinds of trust start from the same."""

import numpy as np
import pytest

from benchmarks import no_harm
from benchmarks.no_harm import GUARDED, LEARNERS, PLAIN, Row
from benchmarks.no_harm_held import ROWS as HELD
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


def test_sites_to_confirm_on_are_as_large_and_as_mixed_as_hospitals() -> None:
    config = RunConfig.from_flower({"study": "s", "data": "heart-disease"})
    dataset = HELD["held-labs"](config)
    assert [silo.private.size for silo in dataset.silos] == [49, 110, 260, 600, 1200]
    shares = [silo.private.y.mean() for silo in dataset.silos]
    assert 0.1 < min(shares) < 0.2 < 0.4 < max(shares) < 0.5
    missing = np.isnan(dataset.silos[4].private.X).mean(axis=0)
    assert missing.min() > 0.05
    assert missing.max() > 0.6
