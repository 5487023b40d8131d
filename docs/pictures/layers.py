"""Draws the layers of the code from the import contracts in ``pyproject.toml``."""

import ast
import tomllib
from pathlib import Path
from typing import Any, Final

from svg import box, picture, text

ROOT: Final = Path(__file__).parents[2]
_WIDTH, _ROW, _MARGIN, _BOX = 980, 40, 20, 30
_LONGEST: Final = 110
_TITLE: Final = "The layers of the code: imports point downward only."


def layers() -> str:
    """A row for each layer, uppermost first. Modules that may import Flower are marked."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["importlinter"]["contracts"]
    (rows,) = (
        [_names(layer) for layer in contract["layers"]] for contract in contracts if contract["type"] == "layers"
    )
    free = _without("flwr", contracts)
    drawn = []
    for number, names in enumerate(rows):
        x, y = _MARGIN, _MARGIN + _ROW * number
        for name in names:
            shown = name.removeprefix("fedct_flwr.")
            width = 20 + 8 * len(shown)
            drawn += [
                box(x, y, width, _BOX, "box" if name in free else "marked"),
                text(x + width // 2, y + 20, shown, "strong", "middle"),
            ]
            x += width + 8
        if len(names) == 1:
            drawn.append(text(max(x + 8, 220), y + 20, _summary(names[0]), "quiet"))
    y = _MARGIN + _ROW * len(rows)
    drawn += [
        box(_MARGIN, y + 6, 24, 16, "marked"),
        text(_MARGIN + 34, y + 19, "may import Flower", "quiet"),
        text(
            _MARGIN + 190,
            y + 19,
            "A module imports only from rows below its own; modules in one row do not import each other.",
            "quiet",
        ),
    ]
    return picture(_WIDTH, y + 38, _TITLE, drawn)


def _names(layer: str) -> list[str]:
    """The modules of one layer, which stand between bars. Those that may be missing stand in brackets."""
    return [name.strip(" ()") for name in layer.split("|")]


def _without(package: str, contracts: list[dict[str, Any]]) -> set[str]:
    """Modules that no contract lets import a package."""
    return {
        name
        for contract in contracts
        if contract["type"] == "forbidden" and package in contract["forbidden_modules"]
        for name in contract["source_modules"]
    }


def _summary(name: str) -> str:
    """The first sentence of a module's docstring; nothing is imported."""
    path = ROOT.joinpath(*name.split("."))
    source = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    said = (ast.get_docstring(ast.parse(source.read_text("utf-8"))) or "").partition("\n")[0].replace("``", "")
    return said if len(said) <= _LONGEST else said[:_LONGEST].rsplit(" ", 1)[0] + " …"
