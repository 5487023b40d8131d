"""One inspection of tables: facts of every column and silo, and findings that are refused or said."""

from fedct_flwr.datasets.inspection.agreement import opposed
from fedct_flwr.datasets.inspection.finding import (
    CODES,
    Finding,
    Severity,
    check_accept,
    gathered,
    refuse,
    with_accepted,
)
from fedct_flwr.datasets.inspection.inspect import Inspection, inspect_tables
from fedct_flwr.datasets.inspection.new_records import inspect_new
from fedct_flwr.datasets.inspection.words import Words

__all__ = [
    "CODES",
    "Finding",
    "Inspection",
    "Severity",
    "Words",
    "check_accept",
    "gathered",
    "inspect_new",
    "inspect_tables",
    "opposed",
    "refuse",
    "with_accepted",
]
