"""``fedct budget``: what label quality a privacy budget leaves, before anything runs."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from fedct_flwr.cli import documents
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.config.method import methods
from fedct_flwr.config.protections import PROTECTIONS
from fedct_flwr.types import ConfigError

if TYPE_CHECKING:
    from fedct_flwr.privacy.planner import Estimate, Plan

PLOTTED: Final = (0.1, 0.3, 1.0, 3.0, 8.0, 20.0)
"""Epsilons of the plot, beside the one asked about."""

_COLORS: Final = {"useful": "green", "costs accuracy": "yellow", "noise": "red"}


def budget(
    records: Annotated[int, typer.Option(help="Private records of one silo.")],
    public: Annotated[int, typer.Option(help="Examples of the public set.")],
    silos: Annotated[int, typer.Option(help="Number of silos.")],
    accuracy: Annotated[float, typer.Option(help="Accuracy of a model that a silo trains alone, as 0.82.")],
    epsilon: Annotated[float, typer.Option(help="In total, per record, over the whole study; inf: no noise.")] = 1.0,
    delta: Annotated[float, typer.Option(help="In total, per record; well below 1 / records.")] = 1e-5,
    classes: Annotated[int, typer.Option(help="Number of classes.")] = 2,
    majority: Annotated[
        float, typer.Option(help="Share of the largest class.", show_default="that of classes alike")
    ] = 0.0,
    rounds: Annotated[int, typer.Option(help="Planned rounds.")] = 10,
    queries: Annotated[int, typer.Option(help="Labels asked of a silo in total.", show_default="rounds x public")] = 0,
    teachers: Annotated[int, typer.Option(help="Teachers at a silo (PATE).", show_default="what serves best")] = 0,
    may_collude: Annotated[int, typer.Option(help="Silos that may collude, where sums hide each silo.")] = 1,
    features: Annotated[int, typer.Option(help="Columns of the stand-in data for the DP labeler.")] = 20,
    decay: Annotated[float, typer.Option(help="Of the learning curve: mistakes fall with records ** -decay.")] = 0.16,
    seed: Annotated[int, typer.Option(help="Seed of every random choice.")] = 0,
    plot: Annotated[
        Path | None, typer.Option(help="Also write label quality over epsilon to this file, .svg or .png.")
    ] = None,
    json_: Json = False,
) -> None:
    """Estimate the quality of the labels that a privacy budget leaves, by mechanism, before anything runs."""
    try:
        from fedct_flwr.privacy.planner import Plan
    except ModuleNotFoundError:
        raise ConfigError("fedct budget needs dp-accounting: pip install 'fedct-flwr[privacy]'") from None
    plan = Plan(
        num_silos=silos,
        num_records=records,
        num_public=public,
        num_classes=classes,
        accuracy=accuracy,
        epsilon=epsilon,
        delta=delta,
        rounds=rounds,
        queries=queries,
        majority=majority,
        teachers=teachers,
        decay=decay,
        may_collude=may_collude,
    )
    if features < 1:
        raise ConfigError(f"--features is {features}; set it to 1 or more")
    if seed < 0:
        raise ConfigError(f"--seed is {seed}; set it to 0 or more")
    if plot:
        from fedct_flwr.cli import budget_plot

        budget_plot.check(plot)
    out = Output(as_json=json_)
    with out.doing("drawing labels and adding noise"):
        found = list(_all(plan, features, seed))
    warned = list(_warnings(plan, found))
    if not json_:
        _print(out, plan, found, warned)
    if plot:
        curves = {
            e: found if e == plan.epsilon else list(_all(replace(plan, epsilon=e), features, seed))
            for e in out.progress(sorted({*PLOTTED, plan.epsilon}), "the same for other epsilons")
        }
        budget_plot.draw(plot, plan, curves)
        out.say(f"\nplot: {plot}")
    out.show(_document(plan, found, warned, plot))


def _all(plan: "Plan", features: int, seed: int) -> "Iterator[Estimate]":
    from fedct_flwr.privacy.planner import estimates

    for path in _rehearsals().values():
        yield from resolve_name(path)(plan, seed, features)
    yield from estimates(plan, seed)


def _rehearsals() -> dict[str, str]:
    """What trains on stand-in records, or adds noise in shares: import paths by name."""
    owners: dict[str, Any] = {**methods(), **PROTECTIONS}
    return {name: owner.rehearsal for name, owner in owners.items() if owner.rehearsal}


def _document(plan: "Plan", found: "list[Estimate]", warned: list[str], plot: Path | None) -> documents.Budget:
    return {
        "epsilon": plan.epsilon,
        "delta": plan.delta,
        "silos": plan.num_silos,
        "records": plan.num_records,
        "labels": plan.labels,
        "classes": plan.num_classes,
        "accuracy": plan.accuracy,
        "guess": plan.guess,
        "estimates": [
            {"mechanism": e.mechanism, "noise": e.noise, "silo": e.silo, "consensus": e.consensus, "verdict": e.verdict}
            for e in found
        ],
        "warnings": warned,
        "plot": str(plot) if plot else None,
    }


def _print(out: Output, plan: "Plan", found: "list[Estimate]", warned: list[str]) -> None:
    console = out.console
    console.print(
        f"epsilon {plan.epsilon:g} at delta {plan.delta:g}, in total, per record: {plan.num_silos} silos with "
        f"{plan.num_records:,} records, each asked for {plan.labels:,} labels, {plan.num_classes} classes"
    )
    table = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    table.add_column("accuracy of labels\nby mechanism", no_wrap=True)
    table.add_column("\nnoise")
    for column in ("one\nsilo's", "\nconsensus"):
        table.add_column(column, justify="right", no_wrap=True)
    table.add_column("\nworth", no_wrap=True)
    for estimate in found:
        color = _COLORS[estimate.verdict]
        table.add_row(
            estimate.mechanism,
            estimate.noise,
            "–" if estimate.silo is None else f"{estimate.silo:.2f}",
            f"{estimate.consensus:.2f}",
            f"[{color}]{estimate.verdict}[/]",
        )
    table.add_section()
    table.add_row("a silo's own model", "never leaves", f"{plan.accuracy:.2f}", "", "")
    table.add_row("guessing", "", f"{plan.guess:.2f}", "", "")
    console.print(table)
    for warning in warned:
        console.print(f"[yellow]Warning:[/] {escape(warning)}", soft_wrap=True)
    rehearsed = [estimate.mechanism for estimate in found if estimate.mechanism in _rehearsals()]
    if any(estimate.silo is None for estimate in found):
        console.print(
            f"In sums, silos add noise in shares and {plan.may_collude} may collude. For whole silos, epsilon is that "
            "of a silo, and so of each of its records.",
            style="dim",
        )
    missing = (f" {name} {entry.not_estimated}." for name, entry in PROTECTIONS.items() if not entry.estimated)
    console.print(
        "An estimate on stand-in data, not a promise: labels of silos that err as a learning curve says, and Gaussian "
        f"records for {' and '.join(rehearsed)}.{''.join(missing)}",
        style="dim",
    )


def _warnings(plan: "Plan", found: "list[Estimate]") -> Iterator[str]:
    yield from plan.warnings()
    noise = [estimate.mechanism for estimate in found if estimate.verdict == "noise"]
    if noise:
        yield f"what leaves is noise with {'; '.join(noise)}: hardly better than guessing, and still a cost in privacy"
    costs = [estimate.mechanism for estimate in found if estimate.verdict == "costs accuracy"]
    if costs:
        yield f"labels are worse than a silo's own model with {'; '.join(costs)}: learning from them may cost accuracy"
