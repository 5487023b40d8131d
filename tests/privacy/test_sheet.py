"""What the page says of numbers; which numbers, tests/cli/test_privacy_sheet.py tells."""

from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config import PrivacySettings
from fedct_flwr.privacy.leaving import Answers
from fedct_flwr.privacy.sheet import promise, sheet
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


def test_floating_point_is_owned_up_to_where_it_is_used() -> None:
    assert "Only labels leave, never the sums" in page(protection="dp-sgd")
    assert "Floating point is not used" in page(protection="dp-linear")


def test_an_approver_reads_unit_total_and_plan(wording: SnapshotAssertion) -> None:
    said = " ".join(promise(PrivacySettings.read({"protection": "dp-sgd", "rounds": 3}, "a test"), 100))
    assert said == wording
    assert "3 rounds and 300 labels" in said


# --- votes


def of_votes(students: int, *, labels: bool = False, protection: str = "teachers") -> str:
    settings = PrivacySettings.read({"protection": protection, "rounds": 3}, "a test")
    return " ".join(promise(settings, 100, Answers(labels, students)))


def test_labels_and_votes_that_may_both_leave_are_both_said(wording: SnapshotAssertion) -> None:
    both = of_votes(1, labels=True)
    assert both == wording
    assert "3 rounds and 300 labels, or votes on 100 public examples" in both


def test_probabilities_are_called_so_and_no_protection_is_said_to_cover_them(wording: SnapshotAssertion) -> None:
    nothing = PrivacySettings.read({"protection": "none"}, "a test")
    answers = Answers(labels=False, probabilities=True)
    said = sheet("study", nothing, 100, [], simulated=True, metrics=False, answers=answers)
    assert said == wording
    assert "labels of the models themselves" not in said
