"""The benchmarks' own tools. What they measure is not tested here."""

import re

import pytest

from benchmarks import methods, variants
from benchmarks.__main__ import EXPERIMENTS as COMMANDS
from benchmarks.experiments import EXPERIMENTS, Experiment
from fedct_flwr.config import RunConfig
from tests.blocks import PAGES
from tests.readme import ROOT

every_experiment = pytest.mark.parametrize("experiment", list(EXPERIMENTS.values()), ids=list(EXPERIMENTS))


@every_experiment
def test_rows_name_known_settings_data_and_methods_and_the_papers_figures_stand_beside_ours(
    experiment: Experiment,
) -> None:
    assert len({row.name for row in experiment.rows}) == len(experiment.rows)
    assert experiment.slow < {row.name for row in experiment.rows}
    assert "Paper: " in experiment.about
    for row in experiment.rows:
        config = RunConfig.from_flower({**methods.SETTINGS, **row.settings})
        assert config.data in variants.VARIANTS
        assert set(row.paper) <= set(row.methods) <= set(methods.METHODS)
        assert "|" not in row.name  # a column's border in Markdown


def test_every_experiment_is_a_command() -> None:
    assert set(EXPERIMENTS) < set(COMMANDS)


def test_tables_of_results_in_pages_are_those_committed() -> None:
    tables = [
        found
        for page in PAGES
        for found in re.findall(r"<!-- (benchmarks/results/\S+) -->\n(.*?)\n\n", page.read_text("utf-8"), re.DOTALL)
    ]
    assert len(tables) >= 2
    for path, table in tables:
        assert table in (ROOT / path).read_text("utf-8")
