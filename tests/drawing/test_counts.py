"""Counts of patients: their noise, what people may read, and ``count()`` in a simulation."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm

from fedct_flwr import count
from fedct_flwr.drawing.counts import FEWEST_SHOWN, GRID, CountPlan, noisy_number
from fedct_flwr.privacy.noise_shares import fitting, least_multiplier
from fedct_flwr.types import ConfigError, DataError, DataWarning
from tests.sentences import sentence


@pytest.mark.parametrize("numbers", [1, 40])
def test_a_patient_changes_one_count_by_one_however_many_there_are(numbers: int) -> None:
    noise = CountPlan(numbers, 0.5, 1e-5, honest=2).noise
    assert (noise.sensitivity, noise.numbers, noise.sums) == (GRID, numbers, 1)
    assert noise.multiplier == least_multiplier(0.5, 1e-5)
    # The Gaussian mechanism's delta at this epsilon: Balle and Wang, ICML 2018, Theorem 8.
    change = 1 / noise.multiplier
    delta = norm.cdf(change / 2 - 0.5 / change) - np.exp(0.5) * norm.cdf(-change / 2 - 0.5 / change)
    assert delta <= 1e-5


def test_a_budget_pays_for_as_many_questions_as_composition_says() -> None:
    multiplier = CountPlan(1, 0.5, 1e-5).noise.multiplier
    questions = fitting(multiplier, 1.0, 1e-5)
    assert multiplier / np.sqrt(questions) >= least_multiplier(1.0, 1e-5) * (1 - 1e-5)
    assert multiplier / np.sqrt(questions + 1) < least_multiplier(1.0, 1e-5)


@pytest.mark.parametrize("deviation", [0.01, 1.0, 20.0])
def test_small_numbers_are_never_shown(deviation: float) -> None:
    half = 1.96 * deviation
    for value in np.r_[np.linspace(-3 * half, 3 * half, 50), 0.0, 3.0, FEWEST_SHOWN - 0.1]:
        facts = noisy_number(value, deviation)
        if value < max(half, FEWEST_SHOWN):
            # The same for all of them.
            assert facts == noisy_number(-1.0, deviation)
            assert facts["fewer_than"] > value + half - 1e-9
        else:
            assert facts["low"] <= facts["about"] <= facts["high"]


def silos(patients: int, records: int = 1) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(0)
    return {
        name: pd.DataFrame(
            {
                "patient": np.arange(patients).repeat(records),
                "age": rng.integers(20, 90, patients).repeat(records),
                "ward": np.array(["east", "west"])[rng.integers(0, 2, patients)].repeat(records),
            }
        )
        for name in ("essen", "oslo", "porto")
    }


def test_a_simulation_counts_within_the_noise_of_real_silos_and_patients_once() -> None:
    tables = silos(200, records=3)
    true = sum(table.drop_duplicates("patient").eval("age >= 65").sum() for table in tables.values())
    found = [count(tables, "age >= 65", group="patient", epsilon=0.5, seed=seed).all for seed in range(100)]
    inside = sum(each["low"] <= true <= each["high"] for each in found)
    # Binomial of 100 and at least 0.95: below 88 less than once in 1,000.
    assert inside >= 88
    deviation = np.std([each["about"] for each in found])
    expected = least_multiplier(0.5, 1e-5) * np.sqrt(3 / 2)
    assert 0.75 < deviation / expected < 1.3


def test_a_count_by_a_column_has_its_categories() -> None:
    tables = silos(500)
    found = count(tables, "age >= 20", by="ward", epsilon=2)
    for ward in ("east", "west"):
        true = sum((table["ward"] == ward).sum() for table in tables.values())
        assert abs(found.cells[ward]["about"] - true) < 20
    assert "fewer than" in str(found).splitlines()[-1]


def test_a_column_of_two_types_is_named_and_no_silo_is_said() -> None:
    tables = silos(20)
    tables["oslo"] = tables["oslo"].assign(age=tables["oslo"]["age"].astype(str))
    with pytest.raises(DataError, match="column 'age' holds 'int64', 'large_string' in the silos' tables"):
        count(tables, "age >= 65")
    with pytest.raises(DataError, match="silos is empty"):
        count({}, "age >= 65")


def test_a_silo_that_lacks_a_column_is_named() -> None:
    tables = silos(20)
    tables["porto"] = tables["porto"].rename(columns={"age": "Age"})
    assert "silo 'porto' has other columns" in sentence(DataError, count, tables, "age > 3")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"ward": "East"}, r"'ward' at silo oslo lies apart from all other silos \(East 100%, elsewhere 0%\)"),
        ({"age": 3}, "'age' at silo oslo lies apart"),
        ({"age": lambda own: own["age"].where(own["patient"] > 60, 999)}, "'age' at silo oslo has 999 where a value"),
    ],
    ids=["spelling", "unit", "placeholder"],
)
def test_a_silo_with_other_values_is_warned_of(change: dict[str, Any], said: str) -> None:
    tables = silos(300)
    count(tables, "age >= 65 and ward == 'east'")
    tables["oslo"] = tables["oslo"].assign(**change)
    with pytest.warns(DataWarning, match=said):
        count(tables, "age >= 65 and ward == 'east'")
    count(tables, "patient > 5")


def test_a_folder_and_pairs_of_arrays_are_counted_too(tmp_path: Any) -> None:
    for name, table in silos(300, records=2).items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    of_files = count(tmp_path, "ward == 'east'", group="patient")
    assert of_files.all == count(silos(300), "ward == 'east'", group="patient").all
    (tmp_path / "data.toml").write_text("group = 'patient'\n")
    assert count(tmp_path, "ward == 'east'").all == of_files.all
    pairs = {name: (table[["age"]], table["ward"] == "east") for name, table in silos(300).items()}
    assert abs(count(pairs, "label == 1").all["about"] - of_files.all["about"]) < 60


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"where": "agee > 3"}, "did you mean 'age'"),
        ({"where": "age > 3", "by": "age"}, "no categories to count by"),
        ({"where": "age > 3", "by": "wards"}, "did you mean 'ward'"),
        ({"where": "age > 3", "silos": "heart-disease", "group": "id"}, "leave group = 'id' out"),
        ({"where": "age > 3", "epsilon": 0.0}, "epsilon is 0.0"),
        ({"where": "age > 3", "epsilon": 1000.0}, "too large"),
    ],
)
def test_a_mistake_is_one_sentence(settings: dict[str, Any], said: str) -> None:
    assert said in sentence(ConfigError, count, **{"silos": silos(20), **settings})
    two = dict(list(silos(20).items())[:2])
    assert "3 silos or more, and there are 2 silos" in sentence(ConfigError, count, two, "age > 3")
