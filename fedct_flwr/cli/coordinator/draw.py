"""``fedct coordinator draw``: a public set where none exists, from a data dictionary."""

import io
from pathlib import Path
from typing import Annotated, Final

import pyarrow.csv
import typer

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.predictions import check_new
from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.drawing.cells import Form, columns_of
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.seeding import generator
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import from_here, listed

_ENDINGS: Final = (".toml", ".json", ".csv")


def draw(
    from_: Annotated[
        Path,
        typer.Option(
            "--from",
            help="The data dictionary: study.toml or another file with [columns], a frictionless Table Schema (JSON), "
            "or REDCap's (CSV). Its ending may be left out.",
        ),
    ],
    rows: Annotated[int, typer.Option(help="Examples to draw.", min=1, max=100_000)] = 2000,
    output: Annotated[Path, typer.Option(help="New file for the public set.")] = Path("public.csv"),
    leave_out: Annotated[
        list[str] | None, typer.Option(help="A column that is no feature, such as the label; repeat it for more.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the values.")] = 0,
) -> None:
    """Draw a public set where none exists: values of a data dictionary, evenly spread. No silo has a part in it."""
    check_new(output)
    named = [from_, *(from_.with_name(from_.name + ending) for ending in _ENDINGS)]
    path = next((path for path in named if path.is_file()), from_)
    dictionary = Dictionary.of_file(path).without(leave_out or ())
    form = Form(dictionary, columns_of(dictionary))
    table = form.table(form.uniform(rows, generator(seed, "drawn set")))
    written = io.BytesIO()
    pyarrow.csv.write_csv(table, written)
    write_atomically(output, written.getvalue())
    out = Output()
    out.say(f"{count(rows, 'example')} of {count(len(dictionary.columns), 'column')} in {from_here(output)}")
    if dictionary.left_out:
        out.say(f"left out, as free text, files, calculated or identifiers: {listed(dictionary.left_out)}")
    if any(column.kind == "date" for column in dictionary.columns.values()):
        out.say("dates are as 2024-12-31: write dates = '%Y-%m-%d' under [tables] in study.toml")
