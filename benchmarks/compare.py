"""Run an experiment of the table and write ours beside the paper's."""

from collections.abc import Sequence
from typing import Any

from benchmarks import progress, report
from benchmarks.experiments import EXPERIMENTS, Experiment, Row
from benchmarks.federation import Runs
from benchmarks.methods import METHODS, SETTINGS, one_thread_per_silo
from fedct_flwr.config.run import RunConfig


def run(name: str, seeds: int | None, fast: bool, rows: Sequence[str] = ()) -> None:
    """Every row with every method it names, for each seed."""
    experiment = EXPERIMENTS[name]
    seeds, steps = seeds or experiment.seeds, experiment.fast_steps if fast else experiment.steps
    known = [row.name for row in experiment.rows]
    asked = progress.chosen(rows, [row for row in known if not (fast and row in experiment.slow)], known)
    there = [row for row in experiment.rows if row.name in asked]
    one_thread_per_silo()
    runs = {row.name: measure(row, steps, seeds) for row in there}
    text = f"# FedCT on FashionMNIST: {experiment.title}, {steps} steps, {seeds} seeds\n\n"
    text += tables(experiment, there, runs)
    settings = {**SETTINGS, "steps": steps, "rows": {row.name: row.settings for row in there}}
    report.write(name, text, runs, settings)


def measure(row: Row, steps: int, seeds: int) -> Runs:
    """Each method of a row, for each seed."""
    runs = Runs()
    for seed in range(seeds):
        settings: dict[str, Any] = {**SETTINGS, **row.settings, "seed": seed}
        rounds = max(1, steps // settings.get("local-steps", 50))
        config = RunConfig.from_flower({**settings, "num-server-rounds": rounds})
        for method in row.methods:
            key = f"{row.name}, {settings['data']}, {method}, {seed}, {rounds}"
            found = progress.once(key, lambda: METHODS[method](config)._asdict())  # noqa: B023
            runs.add(**{f"{method}: {name}": value for name, value in found.items()})
    return runs


def tables(experiment: Experiment, rows: list[Row], runs: dict[str, Runs]) -> str:
    """Accuracy and cost of each row's methods."""
    methods = [method for method in METHODS if any(method in row.methods for row in rows)]
    accuracies, costs = [], []
    for row in rows:
        cells, spent = [row.name], [row.name]
        for method in methods:
            if method not in row.methods:
                cells.append("-")
                spent.append("-")
                continue
            paper = f" (paper {row.paper[method]})" if method in row.paper else ""
            cells.append(report.cell(runs[row.name], f"{method}: accuracy") + paper)
            values = (runs[row.name].mean(f"{method}: {cost}") for cost in ("bytes_per_silo_and_round", "seconds"))
            spent.append("{:,.0f} B, {:.0f} s".format(*values))
        accuracies.append(cells)
        costs.append(spent)
    return (
        f"{experiment.about}\n\n"
        + report.table(["Test accuracy", *methods], accuracies)
        + "\n"
        + report.table(["Bytes a silo sends in a round, wall time", *methods], costs)
        + "\nMean ± standard error.\n"
    )
