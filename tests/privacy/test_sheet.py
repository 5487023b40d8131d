"""What the page says of numbers; which numbers, tests/cli/test_privacy_sheet.py tells."""

from dataclasses import replace
from typing import get_args

import pytest

from fedct_flwr.config import PrivacySettings
from fedct_flwr.config.privacy import Protection
from fedct_flwr.privacy.sheet import MECHANISMS, Account, promise, sheet, spent_words, together_words


def page(*accounts: Account, **privacy: object) -> str:
    settings = PrivacySettings.read({"protection": "teachers", **privacy}, "a test")
    return sheet("study", settings, 100, accounts, simulated=False, metrics=False)


@pytest.mark.parametrize("protection", get_args(Protection))
def test_every_protection_says_in_a_sentence_of_its_own_what_leaves(protection: str) -> None:
    assert MECHANISMS[protection]
    assert len(set(MECHANISMS.values())) == len(get_args(Protection))


def test_a_broken_promise_is_said_with_the_silos_name() -> None:
    good, bad = Account("north", 1.0, 1e-5, 1, 1.0, 0.9, "pure"), Account("south", 1.0, 1e-5, 1, 1.01, 0.9, "pure")
    assert "No silo has spent more than its budget" in page(good)
    assert "broken at south" in page(good, bad)
    assert "No silo has spent more" not in page(good, bad)


def test_the_factor_is_e_to_the_epsilon() -> None:
    assert "by a factor of 20.1 at most" in page(epsilon=3.0)
    assert "more than a hundred million" in page(epsilon=50.0)


def test_floating_point_is_owned_up_to_where_it_is_used() -> None:
    assert "Only labels leave, never the sums" in page(protection="dp-sgd")
    assert "Floating point is not used" in page(protection="dp-linear")


def test_the_lower_bound_is_said_where_it_is_known() -> None:
    assert "could any of the silos promise less than 0.5" in page(Account("north", 1.0, 1e-5, 1, 0.75, 0.5, "pld"))
    assert "promise less than" not in page(Account("north", 1.0, 1e-5, 1, 0.75, None, "rdp"))


def test_an_approver_reads_unit_total_and_plan() -> None:
    said = " ".join(promise(PrivacySettings.read({"protection": "dp-sgd", "rounds": 3}, "a test"), 100))
    assert "one record of a silo, added or removed" in said
    assert "Epsilon 1, delta 1e-05, in total over the whole study" in said
    assert "3 rounds and 300 labels" in said


def test_what_is_left_is_said() -> None:
    assert spent_words(Account("north", 2.0, 1e-5)) == "Spent so far: nothing of epsilon 2"
    assert spent_words(Account("north", 2.0, 1e-5, 3, 0.5)) == "Spent so far: epsilon 0.5 of 2, 1.5 left"
    assert spent_words(Account("north", 2.0, 1e-5, 3, 2.5)).endswith("0 left")


def test_other_studies_on_the_same_records_are_said_in_one_line() -> None:
    alone = Account("north", 1.0, 1e-5, 1, 0.5)
    assert together_words(alone) == []
    beside = replace(alone, others=2, together=1.25)
    (said,) = [line for line in page(beside).splitlines() if "other studies have" in line]
    assert said.startswith("**north:** On the same records 2 other studies have spent too: all together epsilon 1.25")
    assert "another study has spent too" in together_words(replace(alone, others=1))[0]
