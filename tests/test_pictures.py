"""The drawn pictures of the documentation: they show the code as it is, and are well-formed."""

import runpy
import tomllib
from collections.abc import Callable
from xml.etree import ElementTree

import pytest

from tests.readme import ROOT

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
