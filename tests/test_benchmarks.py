"""The benchmarks' own tools. What they measure is not tested here."""

import importlib
import re
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

from benchmarks import methods, probe, variants
from benchmarks.__main__ import EXPERIMENTS as COMMANDS
from benchmarks.experiments import EXPERIMENTS, Experiment
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.types import DataError
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


def test_the_stopwatch_counts_what_calls_itself_once_and_adds_up_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = threading.local()

    def wait() -> None:
        clock.now = now() + 1.0

    def wait_twice() -> None:
        for _ in range(2):
            probe.wait()  # type: ignore[attr-defined]

    def now() -> float:
        return getattr(clock, "now", 0.0)

    monkeypatch.setattr(probe, "wait", wait, raising=False)
    monkeypatch.setattr(probe, "wait_twice", wait_twice, raising=False)
    monkeypatch.setattr(probe.time, "perf_counter", now)
    with probe.Stopwatch().on(("benchmarks.probe.wait", "benchmarks.probe.wait_twice")) as stopwatch:
        threads = [threading.Thread(target=probe.wait_twice) for _ in range(2)]  # type: ignore[attr-defined]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert stopwatch.seconds == 4.0
    assert probe.wait is wait  # type: ignore[attr-defined]


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


def load(data: str, **settings: object) -> datasets.FederatedDataset:
    config = RunConfig.from_flower({**methods.SETTINGS, "data": data, **settings})
    try:
        return variants.VARIANTS[data](config)
    except DataError as error:
        if Path("/usr/share/datasets/fashion-mnist").exists():
            raise
        pytest.skip(str(error))


def test_halves_give_all_records_to_silos_that_know_few_classes_or_all() -> None:
    strong, mild = (load(variants.halves(both), **{"num-silos": 10}) for both in ((0.01, 0.01), (100.0, 2.0)))
    for dataset in (strong, mild):
        assert sum(silo.private.size for silo in dataset.silos) == 10_000
        assert min(silo.private.size for silo in dataset.silos) >= 10
    known = [np.mean([len(np.unique(silo.private.y)) for silo in dataset.silos]) for dataset in (strong, mild)]
    assert known[0] < 5 < known[1]


def test_public_sets_from_elsewhere_have_one_size_one_format_and_the_same_silos() -> None:
    found = [load(name) for name in variants.PUBLIC_SETS]
    assert {dataset.public.X.shape for dataset in found} == {(variants.NUM_DIGITS, 784)}
    assert {dataset.public.X.dtype for dataset in found} == {np.dtype(np.float32)}
    assert all(dataset.public.X.min() >= 0 and dataset.public.X.max() <= 1 for dataset in found)
    assert len({dataset.public.fingerprint for dataset in found}) == len(found)
    for dataset in found[1:]:
        for silo, same in zip(dataset.silos, found[0].silos, strict=True):
            np.testing.assert_array_equal(silo.private.X, same.private.X)


def test_tables_of_results_in_pages_are_those_committed() -> None:
    tables = [
        found
        for page in PAGES
        for found in re.findall(r"<!-- (benchmarks/results/\S+) -->\n(.*?)\n\n", page.read_text("utf-8"), re.DOTALL)
    ]
    assert len(tables) >= 2
    for path, table in tables:
        assert table in (ROOT / path).read_text("utf-8")
