"""A data set of the library as the files of a study and of its silos: for the demonstration and for tests."""

import csv
import math
from pathlib import Path

import numpy as np
import tomli_w

from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.study_folder import STUDY_FILE
from fedct_flwr.types import DataError, Examples, Features, HardLabels

LABEL = "class"


def write_study(folder: Path, study: str, dataset: FederatedDataset) -> None:
    """``study.toml``, ``public.csv``, and ``test.csv`` with the pooled test set, if there is one."""
    folder.mkdir(parents=True, exist_ok=True)
    settings = {"study": study, "classes": list(dataset.schema.classes), "public": "public.csv"}
    _write(folder / "public.csv", dataset.schema, dataset.public.X)
    if dataset.test.size:
        settings |= {"test-file": "test.csv", "test-label": LABEL}
        write_records(folder / "test.csv", dataset.schema, dataset.test)
    (folder / STUDY_FILE).write_text(tomli_w.dumps(settings), encoding="utf-8")


def write_records(path: Path, schema: Schema, records: Examples) -> None:
    """A CSV file with the label column ``LABEL``. Numbers are read back as they are."""
    _write(path, schema, records.X, records.y)


def _write(path: Path, schema: Schema, X: Features, y: HardLabels | None = None) -> None:
    if not schema.columns or schema.categorical:
        raise DataError("only tables of numbers can be written as a study")
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([column.name for column in schema.columns] + ([LABEL] if y is not None else []))
        for number, row in enumerate(np.asarray(X, dtype=np.float64).tolist()):
            fields = ["" if math.isnan(value) else repr(value) for value in row]
            writer.writerow(fields + ([schema.classes[y[number]]] if y is not None else []))
