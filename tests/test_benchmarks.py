"""The benchmarks' own tools. What they measure is not tested here."""

import importlib
import re
import subprocess
import sys

import pytest

from benchmarks import methods, probe, variants
from benchmarks.__main__ import EXPERIMENTS as COMMANDS
from benchmarks.experiments import EXPERIMENTS, Experiment
from fedct_flwr.config import RunConfig
from tests.blocks import PAGES
from tests.patience import PATIENCE
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


@pytest.mark.parametrize("name", probe.FEDERATION)
def test_what_is_timed_is_there(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    assert callable(getattr(importlib.import_module(module), attribute))


PEAK = """
import sys
import numpy as np
from benchmarks.probe import PeakMemory
from tests.blocks import PAGES
from tests.patience import eventually
with PeakMemory() as before:
    pass
with PeakMemory() as memory:
    block = np.ones(1 << 25)
    eventually(lambda: memory.gigabytes > before.gigabytes + 0.2, "a look at the memory")
    del block
with PeakMemory() as after:
    pass
print(before.gigabytes, memory.gigabytes, after.gigabytes)
"""


def test_peak_memory_sees_what_was_there_for_a_moment() -> None:
    # In a process of its own: in this one, memory that other tests have left may go at any time.
    command = [sys.executable, "-c", PEAK]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE)
    assert done.returncode == 0, done.stderr
    before, peak, after = map(float, done.stdout.split())
    assert peak > before + 0.2
    assert after < peak - 0.2


def test_tables_of_results_in_pages_are_those_committed() -> None:
    tables = [
        found
        for page in PAGES
        for found in re.findall(r"<!-- (benchmarks/results/\S+) -->\n(.*?)\n\n", page.read_text("utf-8"), re.DOTALL)
    ]
    assert len(tables) >= 2
    for path, table in tables:
        assert table in (ROOT / path).read_text("utf-8")
