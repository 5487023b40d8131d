"""What all commands have in common: one sentence for whatever is wrong, documents of ``--json``, and help."""

import csv
import io
import json
import logging
import math
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
import typer

from fedct_flwr.cli.demo import LABEL
from fedct_flwr.cli.main import app
from fedct_flwr.cli.silo import COMMANDS
from fedct_flwr.text.printable import json_text, plain
from fedct_flwr.types import ConfigError, DataError, RunError
from tests.cli.documents import check
from tests.cli.runner import files_below
from tests.cli.silos import Fedct, Kit
from tests.hospitals import write_silo_folder, write_study_folder
from tests.report.folders import finished

SETTINGS, DATA, RUN = ConfigError.exit_code, DataError.exit_code, RunError.exit_code

INIT = "silo init silo --silo x --study study --data data.csv --label class"

MISTAKES: dict[str, tuple[str, int, str]] = {
    # What is typed after `fedct`, the exit code, and what the sentence must say.
    "unknown learner": ("simulate --learner randm-forest", SETTINGS, "did you mean 'random-forest'?"),
    "unknown key": ("simulate --set quorun=0.8", SETTINGS, "did you mean 'quorum'?"),
    "a run folder by setting the key": ("simulate --set run-dir=x", SETTINGS, "use --run-dir"),
    "a class that is no learner's": (
        """simulate --learner subprocess.Popen --learner-params '{"args": "touch called", "shell": true}'""",
        SETTINGS,
        "subprocess.Popen",
    ),
    "an option that went": ("simulate --watch", SETTINGS, "open that file"),
    "resuming what is not there": ("simulate --resume nowhere", RUN, "is no complete run folder"),
    "no such folder": ("simulate --data-dir /nowhere --label y", DATA, "/nowhere"),
    "one method": ("compare --learners naive-bayes,naive-bayes --run-dir r", SETTINGS, ""),
    "one split": ("compare --learners naive-bayes,svm --repeats 1 --run-dir r", SETTINGS, ""),
    "baselines of methods": ("compare --learners naive-bayes,svm --set baselines=all --run-dir r", SETTINGS, ""),
    "no dictionary": ("coordinator draw --from nothing", SETTINGS, "cannot read the data dictionary nothing"),
    "a file that is there": ("coordinator draw --from dictionary --output dictionary.toml", DATA, "exists"),
    "both forms of draw": ("coordinator draw --from dictionary --epsilon 1", SETTINGS, "give --from FILE, or"),
    "no coordinator": ("coordinator draw nowhere --epsilon 1", SETTINGS, "is no coordinator's folder"),
    "no effect": ("coordinator draw nowhere --epsilon 1 --leave-out age", SETTINGS, "has no effect with --epsilon"),
    "a report of nothing": ("report nowhere --output page.html", RUN, ""),
    "a report of damage": ("report damaged --output page.html", RUN, "is damaged"),
    "two runs": ("report run damaged --output page.html", SETTINGS, ""),
    "a page nowhere": ("report run --output none/page.html", DATA, ""),
    "no name": (f"{INIT} --silo 'no name'", SETTINGS, "no name"),
    "no study": (f"{INIT} --study /nowhere", SETTINGS, "/nowhere"),
    "no label": (f"{INIT} --label ''", SETTINGS, "--label"),
    "no host": (f"{INIT} --superlink https://x", SETTINGS, "https://x"),
    "no authority": (f"{INIT} --ca /nowhere", SETTINGS, "/nowhere"),
    "a silo's unknown learner": (f"{INIT} --learner randm-forest", SETTINGS, "randm-forest"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_sentence_with_its_exit_code_and_leaves_nothing(
    fedct: Fedct, here: Path, mistake: str
) -> None:
    command, code, said = MISTAKES[mistake]
    (here / "dictionary.toml").write_text('[columns.age]\nkind = "integer"\nrange = [18, 100]\n', "utf-8")
    write_study_folder(here / "study")
    finished(here / "run")
    (finished(here / "damaged").path / "rounds.jsonl").write_text("{}\n")
    before = files_below(here.parent)
    outcome = fedct(*shlex.split(command))
    assert said in outcome.sentence
    assert ".silo." not in outcome.sentence, "where it would have been made"
    assert (outcome.code, outcome.out) == (code, "")
    assert files_below(here.parent) == before


@pytest.mark.parametrize(
    "arguments",
    [
        ("predict", "--model", "odd", "records.csv"),
        ("silo", "join", "odd", "silo", "--fingerprint", "aa"),
        ("report", "odd"),
        ("audit", "odd"),
    ],
    ids=lambda arguments: " ".join(part for part in arguments if part[0] not in "-o"),
)
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("/dev/zero")])
def test_a_path_without_a_file_is_one_sentence_and_leaves_nothing(
    fedct: Fedct, here: Path, make: Callable[[Path], object], arguments: tuple[str, ...]
) -> None:
    (here / "records.csv").write_text("age,crp\n1,2\n", "utf-8")
    make(here / "odd")
    outcome = fedct(*arguments)
    assert outcome.code in (SETTINGS, DATA, RUN)
    assert outcome.sentence
    assert {path.name for path in here.iterdir()} == {"odd", "records.csv"}


def test_a_run_that_fails_says_why_and_keeps_its_log(fedct: Fedct, here: Path) -> None:
    before = logging.getLogger("flwr").handlers[:]
    outcome = fedct("simulate", "--in-process", "--run-dir", "run", "--learner", "tests.federation.learners.Raising")
    assert outcome.code == 4
    assert f"(log: {here / 'run' / 'flower.log'})" in outcome.sentence
    assert (here / "run" / "flower.log").exists()
    assert logging.getLogger("flwr").handlers == before


# --- what all of ``fedct silo`` has in common


@pytest.mark.parametrize(
    "arguments", [("--version",), ("--help",), ("silo", "--help"), ("silo", "status", "--healthy")]
)
def test_help_and_health_checks_wait_for_no_heavy_module(kit: Kit, arguments: tuple[str, ...]) -> None:
    heavy = {"sklearn", "flwr", "torch", "pandas", "pyarrow", *(() if "status" in arguments else ("pydantic",))}
    code = (
        "import sys; from fedct_flwr.cli import main\n"
        f"sys.argv = ['fedct', *{arguments!r}]\n"
        "try: main.run()\n"
        f"except SystemExit: print({heavy!r} & sys.modules.keys())"
    )
    ended = subprocess.run([sys.executable, "-c", code], cwd=kit.folder, capture_output=True, text=True, check=True)
    assert ended.stdout.endswith("set()\n")


OF_FILES = ("init", "predict", "answer", "join")
"""Commands whose argument is something else than the silo's folder."""
FOLDER_COMMANDS = [name for name in COMMANDS if name not in OF_FILES]


@pytest.mark.parametrize("name", FOLDER_COMMANDS)
def test_a_folder_or_a_key_that_is_unknown_is_one_sentence(fedct: Fedct, kit: Kit, name: str) -> None:
    outcome = fedct("silo", name, kit.folder / "nowhere")
    assert (outcome.code, "there is no silo.toml in" in outcome.sentence) == (ConfigError.exit_code, True)
    if name != "check":
        kit.edit("max-rounds", "max-round")
        outcome = fedct("silo", name, kit.folder)
        assert outcome.code == ConfigError.exit_code
        assert "did you mean 'max-rounds'?" in outcome.sentence


def test_the_folder_is_here_unless_it_is_said(fedct: Fedct, kit: Kit, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(kit.folder)
    assert fedct("silo", "verify").code == 0
    monkeypatch.chdir("/")
    assert fedct("silo", "verify", kit.folder).code == 0
    assert fedct("silo", "verify", kit.file).code == 0


# --- environments that others have set: warnings as errors, a locale without umlauts


FEDCT = Path(sys.executable).with_name("fedct")


def started(*words: object, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [FEDCT, *map(str, words)], capture_output=True, text=True, env={**os.environ, **environment}, check=False
    )


def test_warnings_as_errors_are_about_other_code() -> None:
    assert started("--version", PYTHONWARNINGS="error").returncode == 0


@pytest.mark.parametrize("coerced", ["0", "1"])
def test_a_folder_with_an_umlaut_is_read_in_any_locale(tmp_path: Path, coerced: str) -> None:
    silo, folder = write_silo_folder(tmp_path / "silo").parent, tmp_path / "Übung"
    folder.mkdir()
    shutil.copyfile(silo / "test.csv", folder / "a.csv")
    shutil.copyfile(silo / "data.csv", folder / "b.csv")
    public = next((silo / "study").glob("public*"))
    shutil.copyfile(public, folder / public.name)
    plain = {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": coerced}
    found = started("inspect", folder, "--label", LABEL, **plain)
    assert "cannot read" not in found.stdout + found.stderr
    assert "nothing refused" in found.stdout


# --- ``--json``: one document on standard output and nothing else, with the keys that are documented; and help


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
