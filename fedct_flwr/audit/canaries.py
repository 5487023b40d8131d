"""Canaries from a table: records that somebody made up to be attacked."""

from pathlib import Path

import numpy as np

from fedct_flwr.audit.members import Candidates, canaries_of
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.labels import class_names
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import encode
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples


def read_canaries(path: Path, dataset: FederatedDataset, label: str) -> Candidates:
    """The table's records, dealt to the silos in turn; ``label`` names its label column (empty: ``label``).

    Raises DataError for a table that does not fit the study's columns and classes, or is too short.
    """
    schema, label = dataset.schema, label or "label"
    if not schema.columns:
        raise DataError(f"the study's records are images, and {path} is a table: audit records of the silos instead")
    if not path.is_file():
        raise DataError(f"there is no table {path}: name a file with canaries")
    table = read_table(path)
    if label not in table.column_names:
        raise DataError(f"{path} has no label column {quoted(label)}: add it, with one of the study's classes")
    names = class_names(table.column(label), label, path)
    if strange := sorted(set(names) - set(schema.classes)):
        raise DataError(f"{path} has classes that the study does not have: {listed(strange)}; use its own")
    X = encode(table.drop_columns([label]), schema.columns, path)
    y = np.array([schema.classes.index(name) for name in names], dtype=LABEL_DTYPE)
    return canaries_of(dataset.silos, Examples(X, y))
