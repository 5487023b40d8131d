"""Covertype, from the files that scikit-learn keeps when it has fetched it."""

from pathlib import Path

import joblib
import numpy as np
import pytest
import scipy.io

from fedct_flwr.types import DataError
from tests.datasets.loading import small
from tests.sentences import sentence


def test_labels_start_at_zero_and_stay_with_their_records(data_folder: Path) -> None:
    dataset = small("covertype")
    raw = joblib.load(data_folder / "covertype" / "samples_py3")
    kind = {row.tobytes(): i % 7 for i, row in enumerate(raw.astype(np.float32))}
    for part in (dataset.test, *(silo.private for silo in dataset.silos)):
        assert [kind[row.tobytes()] for row in part.X] == part.y.tolist()


def test_what_is_damaged_is_asked_for_again(data_folder: Path) -> None:
    (data_folder / "covertype" / "samples_py3").write_bytes(b"no joblib file")
    with pytest.raises(DataError, match="or damaged: fetch it"):
        small("covertype")


FILES = {"cifar10": "data_batch_3.bin", "svhn": "train_32x32.mat"}

every_images = pytest.mark.parametrize("name", list(FILES))


def test_cifar10_records_are_class_red_green_blue(data_folder: Path) -> None:
    raw = np.fromfile(data_folder / "cifar10" / "test_batch.bin", dtype=np.uint8).reshape(10, 3073)
    test = small("cifar10").test
    np.testing.assert_array_equal(test.y, raw[:, 0])
    mean, deviation = [0.4914, 0.4822, 0.4465], [0.2470, 0.2435, 0.2616]
    for color in range(3):
        pixel = raw[7, 1 + 1024 * color + 32 * 5 + 9] / 255  # row 5, column 9
        np.testing.assert_allclose(test.X[7, color, 5, 9], (pixel - mean[color]) / deviation[color], rtol=1e-5)


def test_svhn_writes_height_width_color_number_and_ten_for_zero(data_folder: Path) -> None:
    raw = scipy.io.loadmat(data_folder / "svhn" / "test_32x32.mat")
    test = small("svhn").test
    assert test.y.tolist() == [*range(1, 10), 0] * 4
    np.testing.assert_allclose(test.X[11, 2, 5, 9], raw["X"][5, 9, 2, 11] / 255, rtol=1e-6)


@every_images
def test_files_that_are_not_there_are_asked_for_in_one_sentence(name: str, data_folder: Path) -> None:
    (data_folder / name / FILES[name]).unlink()
    said = sentence(DataError, small, name)
    for part in (FILES[name], str(data_folder / name), "http", "FEDCT_DATA"):
        assert part in said
