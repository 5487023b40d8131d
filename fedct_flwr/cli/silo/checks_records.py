"""Do study, records and learner fit together? None of it tells anything of a record."""

import contextlib
import os
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa

from fedct_flwr import survival
from fedct_flwr.cli.findings import CheckFinding, Mark, bad, good, of_data, warning
from fedct_flwr.cli.silo.checks import Silo, Unread
from fedct_flwr.config.learner import AUTO
from fedct_flwr.datasets.delimited import FormError
from fedct_flwr.datasets.federated import column_of_groups
from fedct_flwr.datasets.inspection import Redaction, gathered
from fedct_flwr.datasets.inspection.table_one import largest
from fedct_flwr.datasets.inspections import inspect_records, table_of_tests
from fedct_flwr.datasets.packed_tables import other_sheets
from fedct_flwr.datasets.schema import Column
from fedct_flwr.datasets.silo_records import differing, events_of, read_each, read_grouped
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.datasets.tables import encode
from fedct_flwr.drawing.cells import MOST, Domain
from fedct_flwr.hospital.approval import check_let_out, kinds_let_out
from fedct_flwr.hospital.duplicates import UNNOTICED, find_duplicates
from fedct_flwr.learners import Resumable
from fedct_flwr.learners.build import learner_for
from fedct_flwr.learners.catalog import check_allowed
from fedct_flwr.learners.text import misread, unread, unusual_texts
from fedct_flwr.silo.personal import check_learner
from fedct_flwr.text.printable import HIDDEN_BELOW, listed, quoted, rounded
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, DataError, Examples

_OWN: Final = "records"
_TESTED: Final = "test records"
_LISTED: Final = 5
_CLASSES: Final = 20
_SAMPLE: Final = 500
_QUICK_STEPS: Final = 2


def study(silo: Silo) -> Iterator[CheckFinding]:
    """The study as it was handed out; all of it is public."""
    found = read_study(silo.config.study)
    columns = f", {len(found.schema.columns)} columns" if found.schema.columns else ""
    number = f"{quoted(found.schema.quantity)} {grid.words}" if (grid := found.schema.grid) else ""
    number = f"time to {quoted(times.event)}" if (times := found.schema.follow_up) else number
    yield good(f"study {found.name}: {number or f'{len(found.schema.classes)} classes'}{columns}")
    yield good(f"public set: {len(found.public):,} examples, fingerprint {found.public.fingerprint.hex()}")


def records(silo: Silo) -> Iterator[CheckFinding]:
    """Whether the records, and those of the test file, can be read and have the study's columns."""
    data, agreed = silo.config.data, silo.study
    places = {_OWN: data.source, **({_TESTED: data.test_file} if data.test_file else {})}
    gone = [what for what, path in places.items() if not path.exists()]
    for what in gone:
        yield bad(f"{what}: nothing is there where silo.toml says", "put it there, or correct its path under [data]")
    if gone or agreed.config.image_size:
        silo.fits = not gone
    elif not data.label:
        yield bad("records: silo.toml names no label column", "write label = '...' under [data]")
    else:
        found = [each for what, path in places.items() for each in _file(silo, what, path)]
        silo.fits = all(each.mark is not Mark.BAD for each in found)
        yield from found


def _file(silo: Silo, what: str, path: Path) -> Iterator[CheckFinding]:
    """Whether one of the two is a table with the study's columns. Raises DataError for records that are none."""
    try:
        table = silo.table if what == _OWN else table_of_tests(silo.config.data, silo.study)
        assert table is not None  # noqa: S101 - there are no images
        yield from _table(silo, table, what, path)
    except FormError as error:
        named = "of silo.toml" if what == _OWN and silo.config.data.query else "the file"
        message, _, fix = str(error).replace(str(path), named).partition(": ")
        yield bad(f"{what}: {message}", fix, error)
    except DataError as error:
        if what == _OWN:
            raise
        yield bad(f"{what}: the file cannot be read as a table", "save it in the form of the records' file", error)


def labels(silo: Silo) -> Iterator[CheckFinding]:
    """Whether each label, or folder of images, is a class of the study."""
    config, agreed = silo.config, silo.study
    if not silo.fits:
        raise Unread("the records")
    if agreed.schema.follow_up:
        try:
            records, _ = read_grouped(config.data, agreed, table=silo.table)
            survival.check_can_rank(survival.times_of(records.y), "the file")
        except DataError as error:
            # The error may count few records.
            what = "follow-up: times or events are missing, of another form, or rank no records"
            yield bad(what, f"give times as numbers from each one's start, and {survival.EVENTS}", error)
        else:
            yield good("follow-up: each record has a time and an event or none")
    else:
        read_grouped(config.data, agreed, table=silo.table)
        what = "in the range of the study" if agreed.config.number else "a class of the study"
        yield good(f"labels: each of them is {what}")
    if config.data.test_file:
        try:
            read_grouped(config.data, agreed, config.data.test_file)
        except DataError as error:
            yield bad(
                "labels: some in the test file are missing, no class of the study, or outside of its range",
                "write them as in the records' file",
                error,
            )
    elif config.policy.metrics and not config.data.test_fraction:
        yield warning(
            "test scores: metrics = true, and there are no test records to score",
            "set test-fraction or test-file under [data] in silo.toml",
        )


def _table(silo: Silo, table: pa.Table, what: str, path: Path) -> Iterator[CheckFinding]:
    data, schema, group = silo.config.data, silo.study.schema, silo.config.data.tables.group
    found, columns = set(table.column_names), [column.name for column in schema.columns]
    missing = [name for name in columns if name not in found]
    # Without a group, none of the columns is one, not even one without a name.
    extra = found - {data.label, *filter(None, [group]), *events_of(schema), *columns}
    unfit = [column.name for column in schema.columns if column.name in found and not _fits(table, column, path)]
    message = "1 column is" if len(extra) == 1 else f"{len(extra):,} columns are"
    more = "take out of the file what is not in the public set; fedct silo check --details names them"
    correct = "correct {} in silo.toml"
    fault, fix = _of_groups(silo, table, protected=what == _OWN) if group and group in found else ("", "")
    problems = (
        (not table.num_rows, "the file has none", "put records under its header"),
        (data.label not in found, "the label column that silo.toml names is not there", correct.format("label")),
        (
            not found.issuperset(events_of(schema)),
            "the study's column of events is not there",
            "name it as study.toml does under [survival]",
        ),
        (
            missing,
            f"missing are {listed(missing, _LISTED)}",
            "name the file's columns as the public set does, or ask the coordinator for may-be-missing under [columns] "
            "in study.toml",
        ),
        (group and group not in found, "the group column that silo.toml names is not there", correct.format("group")),
        (fault, fault, fix),
        (extra, f"{message} not the study's", more),
        (unfit, f"of another kind than in the public set: {listed(unfit, _LISTED)}", "numbers, or text, as there"),
    )
    # Only the study's own names are said: a file without a header has a record in their place.
    wrong = [bad(f"{what}: {why}", fix, listed(sorted(extra), _LISTED)) for there, why, fix in problems if there]
    if wrong:
        yield from wrong
        return
    lacking = len(differing(table)[0])
    present = f"{len(columns) - lacking} of {len(columns)}" if lacking else f"all {len(columns)}"
    yield good(f"{what}: {present} columns of the study are there, and a label column")
    if more_sheets := len(other_sheets(path, data.tables)):
        others = "1 with contents is" if more_sheets == 1 else f"{more_sheets} with contents are"
        yield warning(
            f"{what}: only the first sheet of the file is read, and {others} not",
            "nothing, if that is so; otherwise write sheet = '...' under [data.tables] in silo.toml",
        )


def _of_groups(silo: Silo, table: pa.Table, *, protected: bool) -> tuple[str, str]:
    """The fault of the group column, and its remedy; both empty if there is none. Test records are not protected."""
    try:
        groups = column_of_groups(table, silo.config.data.tables.group, "the table")
    except DataError as error:
        message, _, fix = str(error).rpartition(": ")
        return message, fix
    if protected and silo.config.promises and (groups.null_count or len(groups.unique()) == 1):
        what = "some have no group, or all have the same, so no patient can be protected"
        return what, "fill the group column in, take these records out, or correct group in silo.toml"
    return "", ""


def _fits(table: pa.Table, column: Column, file: Path) -> bool:
    try:
        encode(table.select([column.name]), [column], file)
    except DataError:
        return False
    return True


def inspection(silo: Silo) -> Iterator[CheckFinding]:
    """Whether the records are what the study takes them for: values, spellings, units, copies."""
    config, agreed = silo.config, silo.study
    found = silo.read(
        "the records",
        lambda: inspect_records(config.data, agreed, config.silo, silo.table, scored=config.policy.metrics),
    )
    silo.copied = any(each.code == "shared-records" and "public set" in each.message for each in found.findings)
    for each in map(of_data, gathered(found.findings)):
        yield replace(each, message=f"data: {each.message}")
    if sentence := largest(found.table, Redaction(private=True)):
        yield good(f"data: next to the public set, {sentence}")
    for place, column in enumerate(silo.study.schema.columns):
        form = None if column.text else silo.study.config.columns.get(column.name)
        if form and (outside := Domain.of(form, column, MOST).place(silo.records.X[:, place].astype(np.float64))[1]):
            yield warning(
                f"data: {quoted(column.name)} has values outside of the study's dictionary, to tens {rounded(outside)}",
                "check unit and coding, or ask the coordinator to correct [columns] in study.toml",
            )


def each_alone(silo: Silo) -> Iterator[CheckFinding]:
    """How many records a silo with a promise leaves out, as it reads each by itself."""
    reasons = list[str]()
    if not silo.config.always_answers:
        return
    if (left := silo.records.size - read_each(silo.config.data, silo.study, lost=reasons)[0].size) > 0:
        named = [quoted(each.name) for each in silo.study.schema.columns]
        columns = [name for name in named if any(name in reason for reason in reasons)]
        yield warning(
            f"records: {rounded(left)} (to tens) are left out, as a promise has each read by itself"
            + (f" and that fails in {', '.join(columns[:_LISTED])}" if columns else ""),
            "write numbers and dates alike in all records, and each record on one line of the file",
        )


def class_counts(silo: Silo) -> Iterator[CheckFinding]:
    """How many records of each class; small numbers are hidden."""
    counts = silo.study.schema.outcome.counts(silo.records.y)
    if not counts:
        return
    shown = [f"{quoted(name)} {rounded(number)}" for name, number in counts.items()]
    more = f" and {len(shown) - _CLASSES} more" if len(shown) > _CLASSES else ""
    message = f"classes, to tens: {', '.join(shown[:_CLASSES])}{more}"
    if min(counts.values()) < HIDDEN_BELOW:
        yield warning(message, "nothing, if that is so, but a class with few records is hard to learn")
    else:
        yield good(message)


def learner(silo: Silo) -> Iterator[CheckFinding]:
    """Whether the learner can be made and trains on a sample of the records."""
    config, agreed, sample, X = silo.config, silo.study, _sample(silo.records), silo.records.X
    settings, name = config.learner.model_copy(update={"local_steps": _QUICK_STEPS}), config.learner.name
    # Nothing of a package that is not trusted is imported.
    check_allowed(name, config.learner.packages)
    public, began = agreed.public.X[:_SAMPLE], time.monotonic()
    # Output while it is made or trained may quote data.
    with _quiet():
        made = learner_for(settings, config.silo, agreed.schema, agreed.public, sample.X, total_steps=_QUICK_STEPS)
        if isinstance(made, Resumable):
            made.advance(sample, public, np.full(len(public), ABSTAIN, dtype=LABEL_DTYPE), config.learner.full_weight)
            made.label(public, np.arange(len(public)))
        else:
            made.fit(sample.X, sample.y).predict(public)
    silo.learner, seconds = made, time.monotonic() - began
    if name == AUTO and config.privacy.enabled and (choice := config.privacy.chosen.of_auto):
        yield good(f"learner {name} with protection {config.privacy.protection}: {choice}")
    if sentence := unread(config.learner, agreed.schema):
        yield warning(f"learner {name}: it does not use all columns", sentence)
    for sentence in misread(config.learner, agreed.schema):
        yield warning(sentence, "nothing, if your code does so")
    if sentence := unusual_texts(config.learner, agreed.schema, X):
        yield warning(sentence, "nothing, if that is so")
    if sentence := getattr(made, "remark", ""):
        yield warning(f"learner {name}: its outputs are no logits", sentence)
    yield good(f"learner {name}: trains on a sample of the records ({seconds:.1f} s)")


def effects(silo: Silo) -> None:
    """Raise ConfigError for a setting without an effect, or a learner that does not answer as the policy allows."""
    config, agreed = silo.config, silo.study
    if silo.learner is None:
        raise Unread("the learner")
    config.check_effects(network=isinstance(silo.learner, Resumable))
    check_let_out(config.policy.kinds, agreed.terms)
    for kind in kinds_let_out(config.policy.kinds, agreed.terms):
        check_learner(kind, silo.learner)


def _sample(records: Examples) -> Examples:
    """Some records of every class that there is."""
    each = max(1, _SAMPLE // len(np.unique(records.y)))
    rows = np.sort(np.concatenate([np.flatnonzero(records.y == label)[:each] for label in np.unique(records.y)]))
    return Examples(records.X[rows], records.y[rows])


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    with (
        open(os.devnull, "w") as nowhere,  # noqa: PTH123 - a device, no path
        contextlib.redirect_stdout(nowhere),
        contextlib.redirect_stderr(nowhere),
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")
        yield


def duplicates(silo: Silo) -> Iterator[CheckFinding]:
    """Whether records of the silo are in the public set."""
    agreed = silo.study
    found = find_duplicates(silo.records.X, agreed.public.X, agreed.schema)
    if found.alarm:
        yield bad(
            f"duplicates: {rounded(found.rounded)} records are in the public set, exactly or rounded; "
            f"{rounded(found.own_exact)} have an exact duplicate among the silo's own",
            "ask the coordinator where the public set comes from: labels on it tell about these patients",
        )
    elif not silo.copied:
        judged = "no exact copy in the public set, and no more rounded ones than chance explains"
        yield good(f"duplicates: {judged}; {UNNOTICED}")
