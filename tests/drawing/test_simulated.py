"""``simulate(public=Drawn())``: tables, folders and data sets by name need no public set."""

import json
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from fedct_flwr import ConfigError, DataError, Drawn, Run, simulate
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import load
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.drawing.simulated import with_drawn
from fedct_flwr.types import Examples

DICTIONARY: dict[str, Any] = {
    "age": {"kind": "integer", "range": [18, 100]},
    "ward": {"kind": "category", "categories": ["east", "north", "west"]},
}


def patients(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    age = rng.integers(18, 101, n)
    return pd.DataFrame({"age": age, "ward": rng.choice(["east", "north"], n), "ill": age > 60})


SILOS = {"a": patients(80, 1), "b": patients(80, 2)}


def run(public: Drawn, silos: Any = SILOS, label: str = "ill", **settings: Any) -> Run:
    return simulate(silos, public, label=label, learner="decision-tree", progress=False, **settings)


def said(public: Drawn, **settings: Any) -> list[str]:
    """The warnings of a run."""
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        run(public, **settings)
    return [f"{each.category.__name__}: {each.message}" for each in found]


def quietly(public: Drawn, **settings: Any) -> Run:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return run(public, **settings)


@pytest.mark.parametrize("epsilon", [0, 1])
def test_tables_alone_are_enough(epsilon: float) -> None:
    found = quietly(Drawn(epsilon, dictionary=DICTIONARY, rows=300))
    assert found.status == "completed"
    assert len(found.consensus) == 300
    assert found.scores["pooled_federated"].mean() > 0.9


def test_the_same_seed_draws_the_same_set_and_another_one_another() -> None:
    settings = {"data": "heart-disease", "study": "s", "public": "drawn"}
    prints = []
    for seed in (0, 0, 1):
        load.cache_clear()
        prints.append(load(RunConfig.from_flower({**settings, "seed": seed})).public.fingerprint)
    assert prints[0] == prints[1] != prints[2]


def test_test_records_have_no_part_in_it() -> None:
    config = RunConfig.from_flower({"data": "heart-disease", "study": "s", "public": "drawn", "draw-rows": 700})
    found = load(config)
    assert len(found.public) == 700
    assert found.truth is None
    assert found.public.X.shape[1] == len(found.schema.columns)


def test_a_folder_needs_no_public_file(tmp_path: Path) -> None:
    for name, table in SILOS.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    assert quietly(Drawn(1, rows=200), silos=tmp_path).status == "completed"


def test_a_dictionary_in_a_file_is_found_by_the_runs_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dictionary.json").write_text(json.dumps({"columns": DICTIONARY}))
    monkeypatch.chdir(tmp_path)
    found = quietly(Drawn(1, dictionary="dictionary.json", rows=200))
    assert found.config.draw_dictionary == str(tmp_path / "dictionary.json")


def test_without_a_dictionary_a_warning_says_what_no_epsilon_covers() -> None:
    sentence = "PrivacyWarning: the drawn public set takes ranges and categories from the silos' tables"
    assert any(each.startswith(sentence) for each in said(Drawn(1, rows=200)))
    assert not any(each.startswith(sentence) for each in said(Drawn(1, dictionary=DICTIONARY, rows=200)))


def test_few_records_are_said() -> None:
    few = {name: table.iloc[:6] for name, table in SILOS.items()}
    found = said(Drawn(0.1, dictionary=DICTIONARY, rows=100), silos=few)
    assert any("follows the data dictionary rather than the records" in each for each in found)


def test_settings_without_effect_are_refused() -> None:
    with pytest.raises(ConfigError, match="draw-rows has no effect without public = 'drawn'"):
        simulate("heart-disease", draw_rows=10, progress=False)
    with pytest.raises(ConfigError, match="draw-delta has no effect without draw-epsilon above 0"):
        simulate("heart-disease", Drawn(0), draw_delta=1e-6, progress=False)


def test_images_are_one_sentence() -> None:
    config = RunConfig.from_flower({"data": "heart-disease", "study": "s", "public": "drawn"})
    heart = load(config)
    images = replace(heart, schema=Schema(heart.schema.classes))
    with pytest.raises(DataError, match="has images or free text"):
        with_drawn(images, config)


def test_a_patient_counts_by_one_record_however_many_there_are() -> None:
    once = load(RunConfig.from_flower({"study": "drawn", "data": "heart-disease"}))
    config = RunConfig.from_flower({"study": "drawn", "data": "heart-disease", "public": "drawn"})
    silos = []
    for silo in once.silos:
        rows = np.repeat(np.arange(silo.private.size), 5)
        first = np.tile(np.arange(5) == 0, silo.private.size)[:, np.newaxis]
        X = np.where(first, silo.private.X[rows], silo.private.X[::-1][rows])
        silos.append(replace(silo, private=Examples(X, silo.private.y[rows]), groups=rows))
    drawn = [with_drawn(one, config).public.X for one in (once, replace(once, silos=tuple(silos)))]
    np.testing.assert_array_equal(*drawn)
