"""Runs in a Jupyter kernel: what a cell shows of them, and what many of them leave in memory."""

import subprocess
import sys
from typing import Any

import nbclient
import nbformat
import pytest

from tests.readme import ROOT

QUICK = 'simulate("breast-cancer", learner="naive-bayes", rounds=2)'


def executed(notebook: Any) -> list[list[Any]]:
    """The outputs of each code cell, as a kernel gives them in the repository's folder."""
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(ROOT)}}).execute()
    return [cell.outputs for cell in notebook.cells if cell.cell_type == "code"]


def test_the_example_runs_and_shows_its_tables() -> None:
    outputs = executed(nbformat.read(ROOT / "examples" / "notebook.ipynb", as_version=4))
    (table,) = [shown for shown in outputs[0] if shown.output_type == "execute_result"]
    assert "FedCT (qualified majority)" in table.data["text/plain"]
    assert "<pre" in table.data["text/html"]
    assert any("image/png" in shown.data for shown in outputs[2])


@pytest.fixture(scope="module")
def cells() -> list[list[Any]]:
    sources = [
        "import warnings\nfrom fedct_flwr import simulate",
        f"print('before')\nwarnings.warn('stays')\nrun = {QUICK}\nprint('after')",
        "run",
        "print(run, str(run) == repr(run))",
    ]
    return executed(nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(source) for source in sources]))


def test_the_bar_erases_nothing_and_leaves_nothing(cells: list[list[Any]]) -> None:
    said = "".join(shown.text for shown in cells[1] if shown.output_type == "stream" and shown.name == "stdout")
    assert said == "before\nafter\n"
    assert any("stays" in shown.text for shown in cells[1] if shown.output_type == "stream" and shown.name == "stderr")
    assert {shown.data["text/plain"] for shown in cells[1] if shown.output_type == "display_data"} == {""}


def test_a_run_is_shown_once_and_printed_as_text(cells: list[list[Any]]) -> None:
    (shown,) = cells[2]
    assert {*shown.data} == {"text/plain", "text/html"}
    (printed,) = cells[3]
    assert "balanced" in printed.text
    assert "<" not in printed.text
    assert printed.text.rstrip().endswith("True")


# --- a process that runs one experiment after the other ends where it began


_TWELVE = """
import ctypes, gc, sys, numpy as np, pandas, psutil
from IPython.core.interactiveshell import InteractiveShell
from fedct_flwr import simulate

WORDS = np.array([f"word{number}" for number in range(2000)])

def table(rng, count, text):
    if text:
        return pandas.DataFrame({"text": [" ".join(rng.choice(WORDS, 200)) for _ in range(count)]})
    return pandas.DataFrame(rng.normal(size=(count, 40)))

def experiment(seed, **settings):
    rng, text = np.random.default_rng(seed), "text_columns" in settings
    count = 150 if text else 8000
    silos = {name: table(rng, count, text).assign(y=rng.integers(0, 2, count)) for name in "abc"}
    settings |= {"label": "y", "rounds": 2, "baselines": "local", "inspect": False, "pseudo_weight": 1.0}
    return simulate(silos, table(rng, count, text), progress=False, **settings)

def megabytes():
    gc.collect(), ctypes.CDLL(None).malloc_trim(0)
    return psutil.Process().memory_info().rss >> 20

SETTINGS = {
    "tables": {"learner": "naive-bayes", "preprocessing": "none"},
    "networks": {"learner": "mlp", "local_steps": 5, "preprocessing": "none"},
    "text": {"learner": "tfidf-linear", "text_columns": "text"},
}
shell = InteractiveShell.instance(user_ns={**globals(), "chosen": SETTINGS[sys.argv[1]]})
for seed in range(12):
    cell = f"run = experiment({seed}, **chosen)\\nassert run.silos\\nfound = megabytes()"
    shell.run_cell(cell, store_history=True).raise_error()
    print(shell.user_ns["found"])
"""


@pytest.mark.parametrize("kind", ["tables", "networks", "text"])
def test_twelve_experiments_in_a_row_end_with_the_memory_of_the_first(kind: str) -> None:
    # With an arena for each thread, glibc keeps 40 MB more in one process than in another.
    command = ["env", "MALLOC_ARENA_MAX=1", sys.executable, "-c", _TWELVE, kind]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    found = [int(each) for each in done.stdout.split()]
    assert len(found) == 12
    assert min(found[-3:]) <= 1.05 * max(found[:3]), found
