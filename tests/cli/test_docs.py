"""All commands and blocks of code in README, docs and examples run, and print what is said that they print.

A page is one story: its commands run one after the other in one folder, in this process. ``fedct simulate`` leaves the
engine out; what needs it, or real processes, or containers, is run by other tests, which look for it on the page.
"""

import contextlib
import functools
import io
import os
import re
import runpy
import shlex
import shutil
import sys
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import click
import pytest
import tomli_w
import typer

from fedct_flwr import datasets
from fedct_flwr.algorithms import ALGORITHMS
from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.cli.coordinator.init import prepare
from fedct_flwr.cli.main import app
from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.silo import AppSilo, SiloConfig
from fedct_flwr.config.study import CoordinatorConfig, StudyConfig
from fedct_flwr.config.tables import FolderTables
from fedct_flwr.coordinator.study import Subject
from fedct_flwr.datasets import LOADERS
from fedct_flwr.datasets.dictionary import Dictionary
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from tests.blocks import PAGES, REASONS, Block, blocks
from tests.cli.model_process import read_here
from tests.cli.silos import Fedct
from tests.environments import extras_named, hide_all_but
from tests.hospitals import write_silo_folder
from tests.readme import ROOT, numbers_masked

BLOCKS = [block for page in PAGES for block in blocks(page)]
STORIES = [page for page in PAGES if any(block.kind in {"console", "python"} for block in blocks(page))]
"""Pages on which something runs."""
LONG = {
    "docs/concepts/probabilities.md", "docs/concepts/secure_sums.md", "docs/global_model.md", "docs/privacy.md",
    "docs/tutorials/clinical_notes.md", "docs/tutorials/own_data.md", "docs/tutorials/researcher.md",
    "examples/one_shot/README.md",
    "examples/pretrained_images/README.md",
}  # fmt: skip
"""Of these, those that take longer than four seconds: for ``make test-all``."""


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


class Story:
    """Runs the blocks of one page in one folder."""

    def __init__(self, fedct: Fedct, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self._fedct, self._here, self._monkeypatch = fedct, here, monkeypatch
        self._names: dict[str, Any] = {"__name__": "__main__"}
        self._printed = ""

    def tell(self, block: Block) -> None:
        if block.is_output:
            assert_shows(block, self._printed)
        elif block.reason:
            return
        elif block.changes:
            path = self._here / block.changes
            before = tomllib.loads(path.read_text("utf-8"))
            for table, values in tomllib.loads(block.text).items():
                before[table] |= values
            path.write_text(tomli_w.dumps(before), "utf-8")
        elif block.title:
            path = self._here / block.title
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(block.text, "utf-8")
        elif block.is_for_the_engine:
            self._printed = ""
        elif block.kind == "console":
            self._printed = "".join(map(self.run, block.commands))
        elif block.kind == "python":
            self._printed = self._python(lambda: exec(compile(block.text, block.place, "exec"), self._names))

    def run(self, command: str) -> str:
        """What a command prints on standard output."""
        program, *arguments = self._words(command)
        if program == "fedct":
            done = self._fedct(*arguments, *(["--in-process"] if arguments[0] == "simulate" else []))
            assert done.code == 0, (command, done.out, done.err)
            return done.out
        if program == "python":
            self._monkeypatch.setattr(sys, "argv", arguments)
            # As Python does with the folder of a script.
            self._monkeypatch.syspath_prepend(self._here)
            return self._python(lambda: runpy.run_path(arguments[0], run_name="__main__"))
        assert (program, arguments[:2]) == ("flwr", ["run", "."]), f"nothing here runs {command}"
        return self._python(lambda: flwr_run(Path(arguments[arguments.index("--run-config") + 1])))

    def _words(self, command: str) -> list[str]:
        """As a shell would have them: with variables set, and patterns of names replaced by the names."""
        words = shlex.split(command)
        if words[0] == "env":
            _, setting, *words = words
            key, _, value = setting.partition("=")
            self._monkeypatch.setenv(key, value)
            if key == "PYTHONPATH":
                self._monkeypatch.syspath_prepend(self._here / value)
        return [name for word in words for name in self._matching(word)]

    @staticmethod
    def _matching(word: str) -> list[str]:
        if not (word.startswith("~") and "*" in word):
            return [word]
        return sorted(map(str, Path.home().glob(word.removeprefix("~/")))) or [word]

    @staticmethod
    def _python(work: Callable[[], object]) -> str:
        with contextlib.redirect_stdout(io.StringIO()) as printed:
            work()
        return printed.getvalue()


def flwr_run(settings: Path) -> None:
    """``flwr run . --run-config FILE`` with four nodes, without the engine."""
    from client_app.main import app as client_app
    from server_app.main import app as server_app

    defaults = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["flwr"]["app"]["config"]
    run_loopback(server_app, client_app, {**defaults, **tomllib.loads(settings.read_text("utf-8"))}, simulated_nodes(4))


def assert_shows(block: Block, printed: str) -> None:
    """The lines shown are those printed, whatever the numbers are."""
    if block.to_the_letter:
        assert printed == block.text
        return
    pieces = [numbers_masked(piece) for piece in re.split(r"^\.\.\.$", block.text, flags=re.MULTILINE)]
    lines = numbers_masked(printed)
    if len(pieces) == 1:
        assert lines == pieces[0]
        return
    assert lines[: len(pieces[0])] == pieces[0]
    assert not pieces[-1] or lines[-len(pieces[-1]) :] == pieces[-1]
    text = "\n".join(lines)
    for piece in pieces:
        assert "\n".join(piece) in text


@pytest.fixture
def story(fedct: Fedct, here: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Story]:
    # Not a link, of which the program would say where it leads.
    shutil.copytree(ROOT / "examples", here / "examples", ignore=shutil.ignore_patterns("__pycache__"))
    # Learners of one's own are imported from there, and other tests have some of the same name.
    before = set(sys.modules)
    monkeypatch.setattr(sys, "path", [*sys.path])
    # Every question is answered with yes.
    monkeypatch.setattr(sys, "stdin", Yes())
    # As the command line would set them, and gone afterwards.
    monkeypatch.setenv("FEDCT_LEARNER_FOLDER", str(here))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    if "FEDCT_DATA" not in os.environ:
        # Embeddings are kept there.
        (here / ".data").mkdir()
        monkeypatch.setenv("FEDCT_DATA", str(here / ".data"))
    # A process of its own would import torch again; other tests have one.
    read_here(monkeypatch)
    tables = [(table, set(table)) for table in (ALGORITHMS, LOADERS)]
    yield Story(fedct, here, monkeypatch)
    # What a page adds is there as long as the page.
    for table, names in tables:
        for added in set(table) - names:
            del table[added]
    for module in set(sys.modules) - before:
        if str(here) in str(getattr(sys.modules[module], "__file__", "")):
            del sys.modules[module]


class Yes(io.StringIO):
    def readline(self, *_: Any) -> str:
        return "y\n"


@pytest.mark.parametrize(
    "page", [pytest.param(page, marks=[pytest.mark.slow] * (name(page) in LONG)) for page in STORIES], ids=name
)
def test_a_page_runs_in_an_environment_that_its_commands_make(
    page: Path, story: Story, here: Path, fedct: Fedct, monkeypatch: pytest.MonkeyPatch
) -> None:
    PREPARED.get(name(page), lambda here, fedct: None)(here, fedct)
    text, place = page.read_text("utf-8"), 0
    for block in blocks(page):
        place = text.index(block.text, place)
        with monkeypatch.context() as lacking:
            hide_all_but(extras_named(text[:place]), lacking)
            story.tell(block)


def as_sent_by_the_coordinator(here: Path, fedct: Fedct) -> None:
    """The invitation, and the records of the hospital that makes its own folder."""
    made = write_silo_folder(here / "made").parent
    coordinator, _ = prepare(made / "coordinator", ["coordinator"], study=made / "study", gateway="coordinator:8443")
    assert fedct("coordinator", "invite", coordinator.path, "cleveland").code == 0
    (coordinator.invitations / "cleveland.zip").rename(here / "cleveland.zip")
    (made / "data.csv").rename(here / "records.csv")
    shutil.rmtree(made)


def with_a_study(here: Path, fedct: Fedct) -> None:
    """A study, and the records of a hospital."""
    made = write_silo_folder(here / "made").parent
    (made / "study").rename(here / "study")
    (made / "data.csv").rename(here / "records.csv")


PREPARED: Mapping[str, Callable[[Path, Fedct], None]] = {
    "docs/tutorials/hospital.md": as_sent_by_the_coordinator,
    "docs/any_flower_app.md": with_a_study,
}


COMMANDS = sorted({command for block in BLOCKS if block.kind in {"console", "sh"} for command in block.commands})


@pytest.mark.parametrize("command", [command for command in COMMANDS if re.match(r"(env \S+ )?fedct ", command)])
def test_a_command_has_the_options_that_it_is_given(command: str) -> None:
    words = shlex.split(command.removesuffix("&").split(">>")[0])
    subcommands(words[words.index("fedct") + 1 :])


def subcommands(arguments: list[str]) -> list[str]:
    """The names before the arguments. Raises click's UsageError for arguments that the command does not take."""
    found: list[str] = []
    command, context = typer.main.get_command(app), None
    while isinstance(command, click.Group):
        context = click.Context(command, parent=context)
        name, command, arguments = command.resolve_command(context, arguments)
        found.append(str(name))
    assert command
    command.make_context(found[-1], [*arguments], parent=context)
    return found


TARGETS = re.findall(r"^([a-z-]+):.*## ", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


@pytest.mark.parametrize("command", [command for command in COMMANDS if command.startswith("make ")])
def test_what_is_made_can_be_made(command: str) -> None:
    assert command.split()[1] in TARGETS


@pytest.mark.parametrize("page", PAGES, ids=name)
def test_every_block_is_run_or_says_why_not(page: Path) -> None:
    before = None
    for block in blocks(page):
        if block.reason:
            assert block.reason in REASONS, block.place
        elif block.is_output:
            assert before, block.place
        elif block.kind == "sh":
            assert is_found_by_a_test(block), block.place
        elif block.kind not in {"console", "python", "toml"}:
            assert block.title or is_found_by_a_test(block), block.place
        before = block


def is_found_by_a_test(block: Block) -> bool:
    """Whether a test looks for what is said before the block, and so for the block."""
    return any(f"<!-- {block.said} -->" in test for test in other_tests())


@functools.cache
def other_tests() -> list[str]:
    return [path.read_text("utf-8") for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]


@pytest.mark.parametrize("block", [block for block in BLOCKS if block.kind == "toml"], ids=lambda block: block.place)
def test_settings_are_settings(block: Block, tmp_path: Path) -> None:
    given = tomllib.loads(block.text)
    if block.title.endswith("study.toml"):
        StudyConfig.read(given, block.place, tmp_path)
    elif block.title.endswith("coordinator.toml"):
        CoordinatorConfig.read(given, block.place, tmp_path)
    elif block.title.endswith("data.toml"):
        FolderTables.read(given, block.place, tmp_path)
    elif block.title.endswith("dictionary.toml"):
        Dictionary.read(given, block.place)
    elif "app" in given:
        AppSilo.read(given, block.place, tmp_path)
    elif block.title.endswith("run.toml"):
        config = RunConfig.from_flower({"study": "one", "data": "heart-disease", **given})
        dataset = datasets.load(config)
        silos = [silo.name for silo in dataset.silos]
        assert check_run(config, dataset, Subject.simulated(dataset), silos, named=given)
    else:
        least = {
            "silo": "one",
            "data": {"file": "records.csv"},
            "learner": {"name": "logistic-regression"},
            "connection": {"superlink": "coordinator.example:8443"},
        }
        both = {key: {**least[key], **given[key]} for key in least.keys() & given.keys() if key != "silo"}
        SiloConfig.read({**least, **given, **both}, block.place, tmp_path).check_effects()


def test_all_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\((?!https?:)([^)#\s]+)", page.read_text("utf-8")):
            assert (page.parent / target).exists(), (page, target)
