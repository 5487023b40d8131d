"""``fedct silo predict``: the silo's own model on new records. Nothing leaves."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Final

import numpy as np
import typer

from fedct_flwr.cli.output import Json, Output, check_new
from fedct_flwr.cli.predict import Accept, CsvFile, columns_of, in_chunks, say_findings, write_table
from fedct_flwr.cli.silo.folder import silo_file
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.new_records import read_unlabeled
from fedct_flwr.datasets.schema import quantiles
from fedct_flwr.datasets.silo_records import form_of
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.learners import Saveable
from fedct_flwr.models.model_file import Recalibrated
from fedct_flwr.scoring.assessment import RANKS
from fedct_flwr.silo.judgment import Judgment
from fedct_flwr.silo.own import judgment_of, model_before, model_of, real_site
from fedct_flwr.types import ConfigError, DataError

_BEFORE: Final = Path("before")


def predict(
    data: Annotated[
        Path, typer.Argument(help="New records: a table (CSV, TSV, Excel, Parquet), or a folder of images.")
    ],
    folder: Annotated[
        Path | None, typer.Argument(metavar="[FOLDER]", help="The silo's folder.", show_default="here")
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option(
            help="A model that the agent has kept: a file, or 'before' for that of before the study, trained on the "
            "silo's own records alone.",
            show_default="the latest one",
        ),
    ] = None,
    output: CsvFile = None,
    accept: Accept = None,
    json_: Json = False,
) -> None:
    """Say the class or number of each new record, as the silo's own trained model sees it, as CSV: record,class.

    Probabilities of the classes come after that, if the model knows any: chances, where own records could make some.
    Records are numbered from 1, images are named by file. Columns that the study does not use are ignored, so a label
    column may be there or not. [data.tables] in silo.toml says how to read the table, or a data.toml next to it.
    """
    check_new(output)
    config = SiloConfig.read_toml(silo_file(folder))
    study = read_study(config.study)
    # Networks need the statistics of the silo's records, with which they were trained.
    site = real_site(config, study)
    learned = quantiles(study.schema, study.public.X, site.private.X)
    form = form_of(config.data, study)
    records = read_unlabeled(study.schema, data, accept=accept or (), learned=learned, usual=form)
    say_findings(records)
    if not isinstance(site.learner, Saveable):
        raise ConfigError(f"models of the learner {config.learner.name!r} cannot be kept, so there is none to use")
    before = model == _BEFORE
    path = model_before(config, site) if before else model or model_of(config, site)
    if path is None or not path.is_file():
        kept = "before it learns from others for the first time" if before else "after the first round"
        raise DataError(f"there is no model {path}: the agent keeps one {kept}")
    judged = None if model else Judgment.read(judgment_of(config, study.name))
    trained = Recalibrated(site.learner.load(path), judged.recalibration if judged else None)
    num_classes = len(study.schema.classes)
    found = [(trained.predict(X), trained.probabilities(X, num_classes)) for X in in_chunks(records.X)]
    labels, known = np.concatenate([labels for labels, _ in found]), [p for _, p in found if p is not None]
    probabilities = np.concatenate(known) if known and num_classes else None
    chances = (judged.chances if judged else "") or RANKS
    classes = study.schema.outcome.shown(labels)
    follows = study.schema.follow_up
    names: list[str] = []
    added: Sequence[Sequence[Any]] = [()] * len(classes)
    if not follows:
        names, added = columns_of(probabilities, study.schema, len(labels), as_text=not json_)
    if names and chances.startswith(RANKS):
        Output(to_stderr=True).warn(f"probabilities are {chances}")
    rows = ([name, answer, *more] for name, answer, more in zip(records.names, classes, added, strict=True))
    header = ["record", "risk" if follows else study.schema.quantity or "class", *names]
    number = bool(follows or study.schema.quantity)
    write_table(header, rows, output, records.unknown if json_ else None, "" if number else chances)
