"""What is not drawn: epsilon spent, the exact settings, data and versions."""

import math
from collections.abc import Sequence

from fedct_flwr.config import RunConfig
from fedct_flwr.report.figure import Section, Table
from fedct_flwr.report.summary import Run
from fedct_flwr.report.words import UNKNOWN
from fedct_flwr.text.plural import count


def privacy(runs: Sequence[Run]) -> Section:
    """Epsilon spent, by whatever keeps the books."""
    notes, rows = [], []
    for run in runs:
        whose = f"{run.label}: " if len(runs) > 1 else ""
        if run.spending is None:
            notes.append(f"{whose}What was spent is said when the run has ended.")
            continue
        notes.append(f"{whose}{run.spending.note}")
        for row in run.spending.rows:
            budget = UNKNOWN if math.isinf(row.budget) else f"{row.budget:.4g}"
            cells = [row.whom, row.protects, row.accountant, f"{row.epsilon:.4g}", budget, f"{row.delta:g}"]
            rows.append([run.label, *cells] if len(runs) > 1 else cells)
    columns = ["Silo", "Protects each", "Accountant", "Epsilon spent", "Budget", "Delta"]
    columns = ["Run", *columns] if len(runs) > 1 else columns
    tables = [("Epsilon spent", Table(columns, rows, words=len(columns) - 3))] if rows else []
    return Section("privacy", "Privacy", tables=tables, notes=notes)


def settings(runs: Sequence[Run]) -> Section:
    """The exact run config and versions; first what is not as by default, or what differs between the runs."""
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    defaults = RunConfig.defaults()
    if len(runs) == 1:
        special = [key for key in keys if runs[0].settings[key] != defaults.get(key)]
        title, columns = "Settings that are not the default", ["Key", "Value"]
    else:
        special = [key for key in keys if len({str(run.settings.get(key)) for run in runs}) > 1]
        title, columns = "Settings that differ", ["Key", *(run.label for run in runs)]
    facts = [
        ["classes", *(run.outcome.words or UNKNOWN for run in runs)],
        ["public examples", *(UNKNOWN if run.num_public is None else f"{run.num_public:,}" for run in runs)],
        ["public set, SHA-256", *(run.fingerprint or UNKNOWN for run in runs)],
        ["silos", *(count(len(run.course.silos), "silo") for run in runs)],
        ["run folder", *(str(run.path.resolve()) for run in runs)],
    ]
    packages = list(dict.fromkeys(name for run in runs for name in run.versions))
    versions = [[f"{name} (version)", *(run.versions.get(name, UNKNOWN) for run in runs)] for name in packages]
    every = [[key, *(_value(run, key) for run in runs)] for key in keys]
    tables = [
        (title, Table(columns, [[key, *(_value(run, key) for run in runs)] for key in special], words=len(columns))),
        ("Data and versions", Table(columns, facts + versions, words=len(columns))),
        ("All settings", Table(columns, every, words=len(columns))),
    ]
    return Section("settings", "Settings and versions", tables=tables)


def _value(run: Run, key: str) -> str:
    value = run.settings.get(key, UNKNOWN)
    return str(value).lower() if isinstance(value, bool) else str(value) if value != "" else "(empty)"
