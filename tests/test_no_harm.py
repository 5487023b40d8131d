"""The benchmark of the promise: what counts as a loss, and that both kinds of trust start from the same."""

import pytest

from benchmarks import no_harm
from benchmarks.federation import Runs
from benchmarks.no_harm import GUARDED, LEARNERS, PLAIN, Row, Silos
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
