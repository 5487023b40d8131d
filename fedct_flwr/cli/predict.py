"""``fedct predict``: a global model on new records."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import pyarrow as pa
import typer

from fedct_flwr.cli.output import Json
from fedct_flwr.cli.predictions import (
    Accept,
    check_new,
    in_chunks,
    say_findings,
    say_unknown,
    shown_classes,
    write_table,
)
from fedct_flwr.datasets.table_files import as_written
from fedct_flwr.datasets.unlabeled import Unlabeled, read_unlabeled
from fedct_flwr.models.foreign import ForeignModel
from fedct_flwr.types import DataError

PREDICTED: Final = "predicted"
_PROBABILITY: Final = "probability "


def predict(
    data: Annotated[
        Path, typer.Argument(help="New records: a table (CSV, TSV, Excel, Parquet), or a folder of images.")
    ],
    model: Annotated[Path, typer.Option(help="A global model, such as RUN/models/global.skops.")],
    output: Annotated[Path | None, typer.Option(help="Write there, as CSV.", show_default="standard output")] = None,
    package: Annotated[
        list[str] | None,
        typer.Option(help="A package whose code the model needs and may run. Only for models of those you trust."),
    ] = None,
    accept: Accept = None,
    json_: Json = False,
) -> None:
    """Say the class of each new record, as a study's global model sees it.

    All columns of the file come out as they went in; 'predicted' and the classes' probabilities, if the model knows
    any, come after them. Columns beside the study's are not looked at.
    """
    check_new(output)
    with ForeignModel(model, package or ()) as found:
        said = found.description
        records = read_unlabeled(found.schema, said.image_size, said.image_mode, data, accept=accept or ())
        say_findings(records)
        said_of = [found.predict(X) for X in in_chunks(records.X)]
    labels = np.concatenate([labels for labels, _ in said_of])
    known = [chances for _, chances in said_of if chances is not None]
    probabilities = np.concatenate(known) if known else None
    say_unknown(records)
    classes = shown_classes(found.schema)
    header = [PREDICTED, *([] if probabilities is None else [_PROBABILITY + name for name in classes])]
    before = records.table if json_ else _as_read(data, records)
    if twice := [name for name in header if name in before.column_names]:
        raise DataError(f"{data} has a column {twice[0]!r} already: rename it")
    added: Sequence[Sequence[Any]] = [[]] * len(labels)
    if probabilities is not None:
        numbers = probabilities.tolist()
        added = numbers if json_ else [[f"{value:.6g}" for value in row] for row in numbers]
    kept = zip(*(column.to_pylist() for column in before.columns), strict=True)
    rows = ([*own, classes[label], *more] for own, label, more in zip(kept, labels, added, strict=True))
    write_table([*before.column_names, *header], rows, output, records.unknown if json_ else None)


def _as_read(path: Path, records: Unlabeled) -> pa.Table:
    """What the file holds, in a CSV file to the letter."""
    return records.table if path.is_dir() else as_written(path)
