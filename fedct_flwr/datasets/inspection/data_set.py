"""The inspection of a loaded data set: what needs all silos' records."""

from collections.abc import Collection, Iterator
from pathlib import Path

import numpy as np

from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.inspection.cells import columns_of_arrays
from fedct_flwr.datasets.inspection.finding import Finding, Redaction, Severity, with_accepted
from fedct_flwr.datasets.inspection.inspect import Inspection
from fedct_flwr.datasets.inspection.labels_fit import LabelsFit
from fedct_flwr.datasets.inspection.shared_records import shared_records
from fedct_flwr.datasets.inspection.table_one import LABELS_FIT, Row, Site, TableOne, of_classes, row_of
from fedct_flwr.text.printable import count
from fedct_flwr.types import LABEL_DTYPE, Examples


def accepted(config: RunConfig) -> list[str]:
    """The findings that a run config accepts, and ``data.toml`` in its folder. Raises ConfigError."""
    of_folder = TableSettings.of_folder(Path(config.data_dir)).accept if config.data == "files" else ()
    return [*of_folder, *config.accept]


def inspect_dataset(dataset: FederatedDataset, accept: Collection[str] = (), *, drawn: bool = False) -> Inspection:
    """Inspect what needs all silos' records: shared ones, groups in several places, labels that do not fit.

    Its Table 1 by site is what its tables' inspection has made, or of its arrays. Examples of a ``drawn`` public set
    may equal records by chance. Raises ConfigError for names in ``accept`` that no finding has.
    """
    silos, schema = dataset.silos, dataset.schema
    tables = {**({} if drawn else {"": dataset.public.X}), **{silo.name: silo.private.X for silo in silos}}
    tests = {silo.name: silo.test.X for silo in silos if silo.test.size}
    found = [*_of_groups(dataset), *shared_records(tables, tests, Redaction(), schema.categorical)]
    if any(silo.groups is not None for silo in silos):
        # Records of one group may well be equal.
        found = [each for each in found if each.code != "repeated-records"]
    table = _table_of(dataset)
    if schema.columns:
        own = {silo.name: silo.private for silo in silos}
        classes = schema.classes
        if schema.outcome.number:
            own, classes = {silo: _by_half(records) for silo, records in own.items()}, ("below the median", "above it")
        fit = LabelsFit(own, schema.columns, len(classes))
        found += fit.findings(classes)
        sites = [Site(silo, n, 0, numbers=(auc.low, auc.value, auc.high)) for silo, (n, auc) in fit.areas().items()]
        if sites:
            table = TableOne((*table.rows, Row(LABELS_FIT, tuple(sites), label=True)))
    return Inspection(table, tuple(with_accepted(found, accept)))


def _table_of(dataset: FederatedDataset) -> TableOne:
    if dataset.table_one is not None:
        return dataset.table_one
    silos = {silo.name: silo.private.X for silo in dataset.silos}
    rows = [row_of(column) for column in columns_of_arrays(dataset.public.X, silos, dataset.schema)]
    if rows and not dataset.schema.outcome.number:
        counts = {silo.name: dataset.schema.outcome.counts(silo.private.y) for silo in dataset.silos}
        rows.insert(0, of_classes(counts, "class"))
    return TableOne(tuple(rows))


def _by_half(records: Examples) -> Examples:
    """Records of two classes: below and above the median of the number to predict, or of the times of follow-up."""
    return Examples(records.X, (records.y > np.median(records.y)).astype(LABEL_DTYPE))


def _of_groups(dataset: FederatedDataset) -> Iterator[Finding]:
    """Groups that stand at several silos, or in a silo's training and test part."""
    for silo in dataset.silos:
        both = () if silo.groups is None or silo.test_groups is None else np.intersect1d(silo.groups, silo.test_groups)
        if len(both):
            message = (
                f"silo {silo.name} trains on {count(len(both), 'group')} of its test set, so its scores are too good"
            )
            yield Finding("shared-records", Severity.SAID, message, "remove them from one of the two", silo=silo.name)
        if silo.groups is not None and not silo.test.size and len(np.unique(silo.groups)) == 1:
            message = f"all records of silo {silo.name} are of one group, so none is held out for a test"
            yield Finding("few-records", Severity.SAID, message, "check the group column there", silo=silo.name)
    found = []
    for silo in dataset.silos:
        parts = [part for part in (silo.groups, silo.test_groups) if part is not None]
        own, sizes = np.unique(np.concatenate(parts), return_counts=True) if parts else (np.zeros(0), np.zeros(0))
        found += [own] if silo.groups is not None else []
        if len(own) > 2 and sizes.max() > sizes.sum() / 2:
            message = f"most records of silo {silo.name} are of one group"
            fix = "leave the group empty where it is not known, also instead of 0 or 9999"
            yield Finding("few-records", Severity.SAID, message, fix, silo=silo.name)
    groups, silos = np.unique(np.concatenate(found), return_counts=True) if found else (np.zeros(0), np.zeros(0))
    if shared := int((silos > 1).sum()):
        message = f"{shared:,} of {count(len(groups), 'group')} have records at several silos"
        fix = "nothing, if each silo numbers its groups by itself; otherwise the pooled test score is too good"
        yield Finding("shared-records", Severity.SAID, message, fix)
