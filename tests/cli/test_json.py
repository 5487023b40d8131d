"""``--json``: one document on standard output and nothing else, with the keys that are documented."""

import csv
import io
import json
import math
import re
from pathlib import Path

import click
import typer

from fedct_flwr.cli.main import app
from fedct_flwr.text.printable import json_text, plain
from tests.cli.documents import check
from tests.cli.silos import Fedct, Kit
from tests.hospitals import write_study_folder


def test_a_simulation_and_what_comes_of_it(fedct: Fedct, here: Path) -> None:
    arguments = ("--in-process", "--learner", "decision-tree", "--rounds", "1", "--set", "student=decision-tree")
    outcome, run = fedct("simulate", *arguments, "--run-dir", "run", "--json"), here / "run"
    document = json.loads(outcome.out)
    check(document, "Run")
    assert (outcome.code, document["run_folder"], document["rounds"]) == (0, str(run), 1)
    assert document["measure"] == "balanced accuracy"
    assert [row["silo"] for row in document["silos"]] == ["cleveland", "budapest", "zurich", "long-beach"]
    assert document["silos"] == json.loads((run / "scores.json").read_text())
    mean = sum(row["pooled"]["federated"] for row in document["silos"]) / 4
    assert math.isclose(document["mean"]["pooled"]["federated"], mean, rel_tol=1e-12)
    assert set(document["global_models"]) == {"student"}
    assert "round  1   4 silos sent" in outcome.err

    # What the run leaves can be used, in JSON too.
    public = write_study_folder(here / "study") / "public.csv"
    asked = ("predict", public, "--model", run / "models" / "global.skops")
    text, predicted = fedct(*asked), fedct(*asked, "--json")
    document = json.loads(predicted.out)
    check(document, "Predictions")
    rows = list(csv.DictReader(io.StringIO(text.out)))
    assert [record["predicted"] for record in document["records"]] == [row["predicted"] for row in rows]
    assert document["columns"] == list(rows[0])
    sheet = fedct("privacy-sheet", run, "--json")
    document = json.loads(sheet.out)
    check(document, "PrivacySheet")
    assert (document["protection"], document["accounts"]) == ("none", [])
    assert document["markdown"] == fedct("privacy-sheet", run).out


def test_a_silos_documents(fedct: Fedct, kit: Kit) -> None:
    found = fedct("silo", "check", kit.folder, "--offline", "--json")
    document = json.loads(found.out)
    check(document, "Findings")
    marks = [finding["mark"] for finding in document["findings"]]
    assert (document["bad"], document["warnings"]) == (marks.count("bad"), marks.count("warning"))
    assert found.code == (3 if document["bad"] else 0)

    approved = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test", "--json")
    document = json.loads(approved.out)
    check(document, "Approval")
    assert (approved.code, document["approved"]) == (0, True)
    assert "What leaves, to the coordinator" in document["sections"]

    verified = fedct("silo", "verify", kit.folder, "--json")
    document = json.loads(verified.out)
    check(document, "Verification")
    assert (document["intact"], document["lines"], document["sent"]["labels"]) == (True, 1, 0)
    assert document["last_hash"] in verified.err, "what people read is there as well"
    assert json.loads(fedct("silo", "status", kit.folder, "--json").out)["approval"]["state"] == "approved"


def test_what_json_does_not_know_is_null_or_text() -> None:
    assert json.loads(json_text({"a": float("nan"), "b": Path("x"), "c": (1, 2)})) == {"a": None, "b": "x", "c": [1, 2]}
    assert plain({1: {"deep": [float("inf")]}}) == {"1": {"deep": [None]}}


def test_no_help_loses_a_word_in_brackets(fedct: Fedct) -> None:
    shown = 0

    def look(context: click.Context, words: list[str]) -> None:
        nonlocal shown
        command = context.command
        said = [command.help or "", *(getattr(each, "help", None) or "" for each in command.params)]
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                said.append(getattr(command.get_command(context, name), "help", None) or "")
                _, found, _ = command.resolve_command(context, [name])
                assert found
                look(click.Context(found, parent=context), [*words, name])
        if named := set(re.findall(r"\[[a-z][\w.-]*\]", " ".join(said))):
            out = fedct(*words, "--help").out
            assert {word for word in named if word not in out} == set(), words
            shown += len(named)

    look(click.Context(typer.main.get_command(app)), [])
    assert shown


def test_help_shows_every_command_below_a_title(fedct: Fedct) -> None:
    outcome = fedct("--help")
    assert all(title in outcome.out for title in ("Simulate", "Real silos", "Models", "Privacy", "Exit codes: 0 done"))
    assert max(map(len, outcome.out.splitlines())) <= 80
