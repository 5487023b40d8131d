"""SECURITY.md: every promise names a test that is there, and every attack that is tested is a promise."""

import re
from pathlib import Path

import pytest

from tests.readme import ROOT

SECURITY = (ROOT / "SECURITY.md").read_text("utf-8")
PROMISES = re.findall(
    r"^\| (.+?) \| \[(test_\w+\.py)\]\((tests/(?:attacks|config)/test_\w+\.py)\) \| (.+) \|$", SECURITY, re.MULTILINE
)


def test_every_promise_has_its_test_and_says_what_is_assumed() -> None:
    table = SECURITY.partition("| promise | test |")[2].partition("\n\n")[0].splitlines()[2:]
    assert len(PROMISES) == len(table) >= 12
    assert all(promise and assumed for promise, _, _, assumed in PROMISES)


@pytest.mark.parametrize("path", sorted({path for _, _, path, _ in PROMISES}))
def test_the_test_of_a_promise_is_there(path: str) -> None:
    assert re.search(r"^def test_", (ROOT / path).read_text("utf-8"), re.MULTILINE)


def test_every_attack_that_is_tested_is_a_promise() -> None:
    named = {Path(path).name for _, _, path, _ in PROMISES}
    assert {path.name for path in (ROOT / "tests" / "attacks").glob("test_*.py")} <= named


def test_security_names_no_address_and_all_its_links_lead_somewhere() -> None:
    assert not re.search(r"\w@\w", SECURITY)
    assert "Report a vulnerability" in SECURITY
    for target in re.findall(r"\]\((?!https?:|tests/attacks/)([^)#\s]+)", SECURITY):
        assert (ROOT / target).exists(), target
