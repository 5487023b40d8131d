"""The files for contributors: hooks, templates, citation and commands agree with the code."""

import re
import runpy
import shlex
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest
import yaml

from tests.blocks import Block, blocks
from tests.mutate import FAULTS, Fault
from tests.readme import ROOT

PAGE = ROOT / "CONTRIBUTING.md"
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text("utf-8"))


def test_the_hooks_run_what_ci_checks() -> None:
    (recipe,) = re.findall(r"^check: .*\n((?:\t.*\n)+)", MAKEFILE, re.MULTILINE)
    checks = [line.strip().removeprefix("@").replace("$(BIN)", ".venv/bin") for line in recipe.splitlines()]
    (repository,) = read(ROOT / ".pre-commit-config.yaml")["repos"]
    hooks = repository["hooks"]
    assert [hook["entry"] for hook in hooks] == checks
    # Nothing is fetched.
    assert repository["repo"] == "local"
    assert {hook["language"] for hook in hooks} == {"system"}


def test_the_workflow_runs_what_can_be_made_on_each_python_that_is_claimed() -> None:
    jobs = read(ROOT / ".github" / "workflows" / "tests.yml")["jobs"]
    made = [step["run"].split()[1] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert made == ["check", "test", "test-newest"]
    assert all(re.search(rf"^{target}:", MAKEFILE, re.MULTILINE) for target in made)
    claimed = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["classifiers"]
    tried = jobs["newest"]["strategy"]["matrix"]["python"]
    assert tried == [line.rpartition(" ")[2] for line in claimed if "Python :: 3" in line]
    page = (ROOT / "docs" / "reference" / "compatibility.md").read_text("utf-8")
    assert all(f"| {version}." in page for version in tried)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.file)
def test_a_planted_fault_names_a_line_and_its_tests(fault: Fault) -> None:
    assert fault.line in (ROOT / "fedct_flwr" / fault.file).read_text("utf-8")
    assert all((ROOT / "tests" / path).exists() for path in fault.finders.split())


def commands() -> list[str]:
    (block,) = (block for block in blocks(PAGE) if is_for_contributors(block))
    return block.commands


def is_for_contributors(block: Block) -> bool:
    return f"<!-- {block.said} -->" == "<!-- for contributors -->"


@pytest.mark.parametrize("command", commands())
def test_a_command_names_what_there_is(command: str) -> None:
    program, *arguments = shlex.split(command)
    if program == "make":
        assert re.search(rf"^{arguments[0]}:.*## ", MAKEFILE, re.MULTILINE)
    else:
        assert (program, *arguments[:2]) == (".venv/bin/python", "-m", "pytest")
        source = (ROOT / arguments[2]).read_text("utf-8")
        assert arguments[3:4] in ([], ["-k"])
        assert all(re.search(rf"^ *def test_\w*{word}", source, re.MULTILINE) for word in arguments[4:])


# --- pictures


DRAWN: dict[str, Callable[[], str]] = runpy.run_path(str(ROOT / "docs" / "pictures"))["DRAWN"]


@pytest.mark.parametrize("name", DRAWN)
def test_a_picture_is_current(name: str) -> None:
    committed = (ROOT / "docs" / name).read_text("utf-8")
    assert committed == DRAWN[name](), "run again: python docs/pictures"


def test_the_layers_are_those_of_the_import_contract() -> None:
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (contract,) = (contract for contract in contracts if contract["type"] == "layers")
    expected = [name.strip().removeprefix("fedct_flwr.") for row in contract["layers"] for name in row.split("|")]
    texts = ElementTree.fromstring(DRAWN["layers.svg"]()).findall("{http://www.w3.org/2000/svg}text[@class='strong']")
    assert [text.text for text in texts] == expected


# --- SECURITY.md: every promise names a test that is there, and every attack that is tested is a promise


SECURITY = (ROOT / "SECURITY.md").read_text("utf-8")
TABLE = SECURITY.partition("| promise | test |")[2].partition("\n\n")[0].splitlines()[2:]
PROMISES = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in TABLE]
TESTS = sorted({path for _, tests, _ in PROMISES for path in re.findall(r"\((tests/[\w/]+/?test_\w+\.py)\)", tests)})


def test_every_promise_has_its_test_and_says_what_is_assumed() -> None:
    assert len(PROMISES) >= 12
    assert all(promise and "(tests/" in tests and assumed for promise, tests, assumed in PROMISES)


@pytest.mark.parametrize("path", TESTS)
def test_the_test_of_a_promise_is_there(path: str) -> None:
    assert re.search(r"^def test_", (ROOT / path).read_text("utf-8"), re.MULTILINE)


def test_every_attack_that_is_tested_is_a_promise() -> None:
    assert {path.name for path in (ROOT / "tests" / "attacks").glob("test_*.py")} <= {Path(path).name for path in TESTS}


def test_security_names_no_address_and_all_its_links_lead_somewhere() -> None:
    assert not re.search(r"\w@\w", SECURITY)
    assert "Report a vulnerability" in SECURITY
    for target in re.findall(r"\]\((?!https?:|tests/attacks/)([^)#\s]+)", SECURITY):
        assert (ROOT / target).exists(), target
