"""Runs in a Jupyter kernel: what a cell shows of them."""

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
