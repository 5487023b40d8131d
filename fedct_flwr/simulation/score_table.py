"""The scores of a run as tables for a terminal of 80 columns: balanced accuracy, and the area under the curve."""

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from fedct_flwr.runs.score_notes import means_words, metric_means
from fedct_flwr.runs.scores import METHODS, SiloScores, comparable, has_scores, means
from fedct_flwr.scoring import BALANCED_ACCURACY
from fedct_flwr.simulation.who_gained import MARKS

_TITLES: Final = {"local": "alone", "centralized": "central"}
_LONGEST: Final = 9


def title_of(method: str, title: str) -> str:
    """What a column of a method is called; ``title`` is the federated one's."""
    return _TITLES.get(method, title)


def _narrow(method: str, title: str) -> str:
    """The same on several lines: long titles would cut numbers."""
    return title_of(method, title).replace(" ", "\n")


def table(
    rows: Sequence[SiloScores],
    title: str,
    methods: Sequence[str] = METHODS,
    global_models: Mapping[str, float] | None = None,
    measure: str = BALANCED_ACCURACY.name,
) -> Table:
    """The rows and their mean as a table of these methods; ``title`` is what the federated one is called.

    ``measure`` is what the scores are. ``global_models`` are those that are no silo's: their scores on the pooled test
    set, by name.
    """
    sections = [("own test", "own"), ("pooled", "pooled")]
    sections = [(section, name) for section, name in sections if has_scores(rows, name)]
    result = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    result.add_column(measure.replace(" ", "\n"), no_wrap=True)
    for section, _ in sections:
        for method in methods:
            result.add_column(f"{section}\n{_narrow(method, title)}", justify="right", no_wrap=True)
    result.add_column("bytes\nsent", justify="right", no_wrap=True)
    for row in rows:
        mark = MARKS[row.verdict.word] if row.verdict else ""
        cells = [_cell(getattr(row, name), method) for _, name in sections for method in methods]
        result.add_row(escape(row.silo) + mark, *cells, f"{row.bytes_sent:,}")
    average = {name: means(rows, name, methods) for _, name in sections}
    counted = {len(comparable(rows, name, methods)) for _, name in sections}
    # Where sections differ in that, the caption says it.
    over = f"mean of {counted.pop()}" if len(counted) == 1 and counted != {len(rows)} else "mean"
    result.add_section()
    result.add_row(
        over,
        *(_cell(average[name], method) for _, name in sections for method in methods),
        f"{round(fmean(row.bytes_sent for row in rows)):,}",
        style="bold",
    )
    if global_models and ("pooled", "pooled") in sections:
        result.add_section()
        for name, value in global_models.items():
            shown = [
                f"{value:.3f}" if (test, method) == ("pooled", "federated") else ""
                for _, test in sections
                for method in methods
            ]
            result.add_row(escape(name), *shown, "")
    if words := means_words(rows):
        result.caption, result.caption_justify = words, "left"
    return result


def auc_table(rows: Sequence[SiloScores], title: str, methods: Sequence[str] = METHODS) -> Table | None:
    """The area under the ROC curve on own test sets, or on the pooled one where there are none, with n and positives.

    None where no model knows probabilities.
    """
    tests = [test for test in ("own", "pooled") if metric_means(rows, test, "auc")]
    if not tests:
        return None
    test, positive = tests[0], next((found.positive for row in rows for found in row.tests.values()), "")
    result = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    result.add_column("AUC", no_wrap=True)
    result.add_column(f"{'own test' if test == 'own' else test}\nn", justify="right", no_wrap=True)
    if positive:
        result.add_column(f"of these\n{positive[:_LONGEST]}", justify="right", no_wrap=True)
    for method in methods:
        result.add_column(_narrow(method, title), justify="right", no_wrap=True)
        if method == "federated":
            result.add_column("95%", justify="right", no_wrap=True)
    for row in rows:
        there = row.tests.get(test)
        cells = [f"{there.n:,}" if there else "-"]
        cells += [f"{there.positives:,}" if there and there.positives is not None else "-"] if positive else []
        for method in methods:
            found = row.metric(test, method, "auc")
            cells.append(f"{found.value:.3f}" if found else "-")
            if method == "federated":
                cells.append(f"{found.low:.2f}-{found.high:.2f}" if found else "-")
        result.add_row(escape(row.silo), *cells)
    average = metric_means(rows, test, "auc")
    result.add_section()
    blanks = [""] * (2 if positive else 1)
    shown = [
        cell
        for method in methods
        for cell in [f"{average[method]:.3f}" if method in average else "-", *([""] if method == "federated" else [])]
    ]
    result.add_row("mean", *blanks, *shown, style="bold")
    return result


def _cell(scores: dict[str, float], method: str) -> str:
    text = f"{scores[method]:.3f}" if not np.isnan(scores[method]) else "-"
    return f"[green]{text}[/]" if method == "federated" and scores["federated"] > scores["local"] else text
