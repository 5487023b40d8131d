"""SECURITY.md: every promise names a test that is there, and every attack that is tested is a promise."""

import re
from pathlib import Path

import pytest

from tests.readme import ROOT

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
