"""Covertype, from the files that scikit-learn keeps when it has fetched it."""

from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import FederatedDataset, named
from fedct_flwr.types import DataError


def load(**settings: Any) -> FederatedDataset:
    raw = {"study": "s", "data": "covertype"} | {key.replace("_", "-"): value for key, value in settings.items()}
    return named.covertype(RunConfig.from_flower(raw))


def test_labels_start_at_zero_and_stay_with_their_records(data_folder: Path) -> None:
    dataset = load(private_size=20, public_size=15)
    raw = joblib.load(data_folder / "covertype" / "samples_py3")
    kind = {row.tobytes(): i % 7 for i, row in enumerate(raw.astype(np.float32))}
    for part in (dataset.test, *(silo.private for silo in dataset.silos)):
        assert [kind[row.tobytes()] for row in part.X] == part.y.tolist()


def test_what_is_not_fetched_is_asked_for_in_one_sentence(data_folder: Path) -> None:
    (data_folder / "covertype" / "targets_py3").unlink()
    with pytest.raises(DataError) as caught:
        load()
    said = str(caught.value)
    assert "\n" not in said
    assert f"fetch_covtype(data_home='{data_folder}')" in said


def test_what_is_damaged_is_asked_for_again(data_folder: Path) -> None:
    (data_folder / "covertype" / "samples_py3").write_bytes(b"no joblib file")
    with pytest.raises(DataError, match="or damaged: fetch it"):
        load()
