"""``fedct evaluate`` and ``fedct calibrate``: a model on labeled records, by group, and chances made of its ranks."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import numpy as np
import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from fedct_flwr.cli.output import Json, Output, check_new
from fedct_flwr.cli.predict import Accept, Model, Silo, chances_of, chosen_model, run_and_data, say_findings
from fedct_flwr.cli.run_options import Package
from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.new_records import read_unlabeled
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import as_names, class_names, map_labels, no_column, numbers
from fedct_flwr.files import write_atomically
from fedct_flwr.models.loading import ForeignModel, recalibrated
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.scoring.assessment import FEW, FEWEST, FLATTEST, METRICS, Labels, Predicted, Recalibration, brier
from fedct_flwr.scoring.intervals import Estimate
from fedct_flwr.scoring.subgroups import OTHERS, subgroups
from fedct_flwr.text.printable import count, listed, plain, quoted
from fedct_flwr.types import ConfigError, DataError, Examples

Paths: TypeAlias = Annotated[
    list[Path],
    typer.Argument(
        metavar="[RUN] TABLE",
        help="Labeled records: a table (CSV, TSV, Excel, Parquet); before it the folder of a run, unless --model names "
        "a model.",
    ),
]
Label: TypeAlias = Annotated[
    str, typer.Option(help="The column of the labels.", show_default="that of the run, else label")
]


def evaluate(
    paths: Paths,
    label: Label = "",
    by: Annotated[str, typer.Option(help="A column of the table: each measure by its values, too.")] = "",
    positive: Annotated[
        str, typer.Option(help="Of two classes: that of sensitivity and calibration.", show_default="the last")
    ] = "",
    model: Model = None,
    silo: Silo = "",
    package: Package = None,
    accept: Accept = None,
    json_: Json = False,
) -> None:
    """Score a model on labeled records, with 95% intervals; with --by each group against all others.

    Groups with fewer than ten records of the rarer class are together in 'others'.
    """
    run, path = run_and_data(paths)
    with ForeignModel(chosen_model(run, model, silo), package or ()) as found:
        test, table = _labeled(found, path, label or _label_of(run or model), accept)
        answers, probabilities = found.predict(test.X)
        schema, chances = found.schema, chances_of(found.description)
    if by and by not in table.column_names:
        raise no_column(path, by, table.column_names)
    of = ["missing" if name is None else name for name in _names(path, by)] if by else []
    labels = Labels(len(schema.classes), schema.positive(positive))
    scored = subgroups(test, Predicted(answers, probabilities), of, labels)
    shown = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    # A long name of a group wraps, so that no interval is cut.
    shown.add_column("measure", max_width=26)
    for title in ("value", *(["to all others"] if by else [])):
        shown.add_column(title, no_wrap=True)
    for group in scored.groups:
        name = f"{by} = {group.group}" if group.group else "all"
        shown.add_section()
        had = "" if group.events is None else f", {count(group.events, 'event')}"
        shown.add_row(f"[bold]{escape(name)}: n = {group.n:,}{had}[/]")
        for key in filter(group.metrics.__contains__, METRICS):
            gap = [_shown(group.gaps[key], "+")] if key in group.gaps else []
            shown.add_row(METRICS[key], _shown(group.metrics[key]), *gap)
    out, groups = Output(as_json=json_), [plain(asdict(group)) for group in scored.groups]
    rarer = " of the rarer class" if labels.num_classes else ""
    together = f"groups with fewer than {FEW} records{rarer} are together in {OTHERS!r}"
    notes = [f"{together}: {listed(scored.small, 3)}"] if scored.small else []
    for name, lacks in scored.lacking.items():
        names = listed([schema.classes[index] for index in lacks])
        notes.append(f"{quoted(name)} has no record of {names}: balanced accuracy and AUC are not compared")
    note = "; ".join(notes)
    known = chances if schema.classes else None
    out.show({"chances": known, "by": by or None, "groups": groups, "note": note}, shown)
    if labels.positive is not None:
        out.say(f"positive class: {schema.classes[labels.positive]}")
    if probabilities is not None:
        out.say(f"probabilities: {chances}")
    if note:
        out.warn(note)


def calibrate(
    paths: Paths,
    output: Annotated[Path, typer.Option(help="The model's new file, of the same kind.")],
    label: Label = "",
    model: Model = None,
    silo: Silo = "",
    package: Package = None,
    accept: Accept = None,
) -> None:
    """Make chances of a model's probabilities, by labeled records that it has not learned from.

    The new file decides as before. Its chances are for records like these: give it those of the place that uses it.
    """
    check_new(output)
    run, path = run_and_data(paths)
    file = chosen_model(run, model, silo)
    if output.suffix != file.suffix:
        raise ConfigError(f"{output} is another kind of file than the model {file}: let it end in {file.suffix}")
    with ForeignModel(file, package or ()) as found:
        test, _ = _labeled(found, path, label or _label_of(run or model), accept)
        raw, stated = (found.predict(test.X, raw=raw)[1] if found.schema.classes else None for raw in (True, False))
    if raw is None or stated is None:
        raise DataError(f"the model {file} knows no probabilities, so there is nothing to calibrate")
    how = Recalibration.learned(test.y, raw)
    if how is None:
        raise DataError(f"{path} has fewer than {FEWEST} records of a class: give more labeled records")
    if how.slope <= FLATTEST:
        raise DataError(f"the model {file} does not rank the records of {path}: check the column of labels, and units")
    write_atomically(output, recalibrated(file, how))
    before, after = (brier(test.y, probabilities).value for probabilities in (stated, how.apply(raw)))
    Output().say(f"{output}: {how.words}, on which the Brier score was {before:.3f} and is {after:.3f}")


def _label_of(run: Path | None) -> str:
    """The label column of a run's settings; ``label`` without one."""
    return (run is not None and run.is_dir() and RunFolder(run).settings().get("label-column")) or "label"


def _labeled(model: ForeignModel, path: Path, label: str, accept: list[str] | None) -> tuple[Examples, Any]:
    """The records of a table with their classes or values, and the table. Raises DataError."""
    schema = model.schema
    if time := model.description.time:
        raise DataError(
            f"the model ranks risks of the time {quoted(time)}, and has no classes to score: read the concordance in "
            "the run's scores"
        )
    if schema.images:
        raise DataError(
            "the model reads images, and labels are read from tables alone: give the run test folders, such as "
            "silo.test, and read its scores"
        )
    # Numbers would read 01 as 1, and 1.10 as 1.1.
    text = () if schema.outcome.number else (label,)
    records = read_unlabeled(schema, path, accept=accept or (), learned=model.description.quantiles, text=text)
    say_findings(records)
    table = records.table
    if label not in table.column_names:
        raise no_column(path, label, table.column_names)
    if schema.outcome.number:
        return Examples(records.X, numbers(table, label, path)), table
    names = class_names(table.column(label), label, path)
    return Examples(records.X, map_labels(names, None, schema.classes, path)), table


def _names(path: Path, column: str) -> list[str | None]:
    """The values of a column as names: 01 is not 1, and 1.0 is."""
    table = read_table(path, [column], TableSettings.of_folder(path.parent).of(path.name))
    found: list[str | None] = as_names(table.column(column), f"column {quoted(column)} of {path}").to_pylist()
    return found


def _shown(found: Estimate, sign: str = "") -> str:
    if not np.isfinite([found.value, found.low, found.high]).all():
        return "-" if np.isnan(found.value) else f"{found.value:{sign}.3f}"
    return f"{found.value:{sign}.3f} ({found.low:{sign}.2f} to {found.high:{sign}.2f})"
