"""What the page says of numbers; which numbers, tests/cli/test_privacy_sheet.py tells."""

from dataclasses import replace

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config import PrivacySettings
from fedct_flwr.privacy.leaving import Answers
from fedct_flwr.privacy.sheet import promise, sheet, spent_words, together_words
from fedct_flwr.privacy.spending import Spending


def page(*accounts: Spending, **privacy: object) -> str:
    settings = PrivacySettings.read({"protection": "teachers", **privacy}, "a test")
    return sheet("study", settings, 100, accounts, simulated=False, metrics=False)


def test_a_broken_promise_is_said_with_the_silos_name(wording: SnapshotAssertion) -> None:
    good, bad = (
        Spending(whom="north", budget=1.0, delta=1e-5, charges=1, epsilon=1.0, lower=0.9, accountant="pure"),
        Spending(whom="south", budget=1.0, delta=1e-5, charges=1, epsilon=1.01, lower=0.9, accountant="pure"),
    )
    assert page(good) == wording
    assert "broken at south" in page(good, bad)
    assert "No silo has spent more" not in page(good, bad)


def test_the_factor_is_e_to_the_epsilon(wording: SnapshotAssertion) -> None:
    assert "by a factor of 20.1 at most" in page(epsilon=3.0)
    assert page(epsilon=50.0) == wording


def test_floating_point_is_owned_up_to_where_it_is_used() -> None:
    assert "Only labels leave, never the sums" in page(protection="dp-sgd")
    assert "Floating point is not used" in page(protection="dp-linear")


def test_the_lower_bound_is_said_where_it_is_known() -> None:
    assert "could any of the silos promise less than 0.5" in page(
        Spending(whom="north", budget=1.0, delta=1e-5, charges=1, epsilon=0.75, lower=0.5, accountant="pld")
    )
    assert "promise less than" not in page(
        Spending(whom="north", budget=1.0, delta=1e-5, charges=1, epsilon=0.75, lower=None, accountant="rdp")
    )


def test_an_approver_reads_unit_total_and_plan(wording: SnapshotAssertion) -> None:
    said = " ".join(promise(PrivacySettings.read({"protection": "dp-sgd", "rounds": 3}, "a test"), 100))
    assert said == wording
    assert "3 rounds and 300 labels" in said


def test_what_is_left_is_said(wording: SnapshotAssertion) -> None:
    assert spent_words(Spending(whom="north", budget=2.0, delta=1e-5)) == wording
    assert spent_words(Spending(whom="north", budget=2.0, delta=1e-5, charges=3, epsilon=0.5)) == wording
    assert spent_words(Spending(whom="north", budget=2.0, delta=1e-5, charges=3, epsilon=2.5)).endswith("0 left")


def test_other_studies_on_the_same_records_are_said_in_one_line(wording: SnapshotAssertion) -> None:
    alone = Spending(whom="north", budget=1.0, delta=1e-5, charges=1, epsilon=0.5)
    assert together_words(alone) == []
    beside = replace(alone, others=2, together=1.25)
    (said,) = [line for line in page(beside).splitlines() if "other studies have" in line]
    assert said == wording
    assert "another study has spent too" in together_words(replace(alone, others=1))[0]


# --- votes


def of_votes(students: int, *, labels: bool = False, protection: str = "teachers") -> str:
    settings = PrivacySettings.read({"protection": protection, "rounds": 3}, "a test")
    return " ".join(promise(settings, 100, Answers(labels, students)))


def test_of_votes_it_is_said_that_counts_leave_and_how_many_models_saw_a_record(wording: SnapshotAssertion) -> None:
    several = of_votes(3)
    assert several == wording
    assert "each record was seen by one of these models alone" not in several
    assert of_votes(1) == wording


def test_lessons_are_what_is_planned_for_where_there_are_some(wording: SnapshotAssertion) -> None:
    settings = PrivacySettings(protection="teachers", rounds=1)
    said = " ".join(promise(settings, 100, Answers(labels=False, students=1, lessons=20)))
    assert "it learned for each of 20 public examples the class" in said
    assert said == wording


def test_students_are_asked_once_about_the_public_set() -> None:
    assert "Planned for votes on 100 public examples, all runs together" in of_votes(2)
    assert "labels" not in of_votes(2)


def test_labels_and_votes_that_may_both_leave_are_both_said(wording: SnapshotAssertion) -> None:
    both = of_votes(1, labels=True)
    assert both == wording
    assert "3 rounds and 300 labels, or votes on 100 public examples" in both


@pytest.mark.parametrize(
    ("simulated", "advice"), [(True, "`privacy-level` to L1 or L2"), (False, "`protection` to `teachers`")]
)
def test_votes_without_noise_are_not_called_the_models_labels(simulated: bool, advice: str) -> None:
    nothing = PrivacySettings.read({"protection": "none"}, "a test")
    said = sheet("study", nothing, 100, [], simulated=simulated, metrics=False, answers=Answers(False, 2))
    assert "What leaves are the votes of students" in said
    assert "labels of the models themselves" not in said
    assert advice in said


def test_probabilities_are_called_so_and_no_protection_is_said_to_cover_them(wording: SnapshotAssertion) -> None:
    nothing = PrivacySettings.read({"protection": "none"}, "a test")
    answers = Answers(labels=False, probabilities=True)
    said = sheet("study", nothing, 100, [], simulated=True, metrics=False, answers=answers)
    assert said == wording
    assert "labels of the models themselves" not in said
