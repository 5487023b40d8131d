"""A process, such as a notebook's, that runs one experiment after the other ends where it began."""

import subprocess
import sys

import pytest

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
