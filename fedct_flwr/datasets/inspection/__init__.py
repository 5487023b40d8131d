"""One inspection of tables: Table 1 by site, and findings that are refused or said."""

from fedct_flwr.datasets.inspection.agreement import opposed
from fedct_flwr.datasets.inspection.cells import TESTED, columns_of_arrays
from fedct_flwr.datasets.inspection.finding import (
    CODES,
    Finding,
    Severity,
    check_accept,
    gathered,
    known_names,
    refuse,
    with_accepted,
)
from fedct_flwr.datasets.inspection.inspect import Inspection, inspect_new, inspect_tables
from fedct_flwr.datasets.inspection.shared_records import shared_records
from fedct_flwr.datasets.inspection.table_one import TableOne, largest, row_of
from fedct_flwr.datasets.inspection.words import Words

__all__ = [
    "CODES",
    "TESTED",
    "Finding",
    "Inspection",
    "Severity",
    "TableOne",
    "Words",
    "check_accept",
    "columns_of_arrays",
    "gathered",
    "inspect_new",
    "inspect_tables",
    "known_names",
    "largest",
    "opposed",
    "refuse",
    "row_of",
    "shared_records",
    "with_accepted",
]
