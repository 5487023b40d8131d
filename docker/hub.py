"""Write the app as Flower Hub takes it: at most 1,000 files, of Python, TOML, Markdown, YAML and JSON.

    .venv/bin/python docker/hub.py FOLDER [PUBLISHER]     what `make hub` does

FOLDER gets what a bundle of the app holds (`pyproject.toml`), the licence and a README. PUBLISHER is an account's name.
"""

import shutil
import sys
import tomllib
from importlib.metadata import version
from pathlib import Path
from typing import Any

import tomli_w

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent


def write(folder: Path, publisher: str = "") -> None:
    """Write the app to a folder, which then holds nothing else."""
    described = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    app = described["tool"]["flwr"]["app"]
    shutil.rmtree(folder, ignore_errors=True)
    for path in sorted(_matching(app.pop("fab-include")) - _matching(app.pop("fab-exclude"))):
        copy = folder / path.relative_to(ROOT)
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    shutil.copyfile(ROOT / "LICENSE", folder / "LICENSE")
    shutil.copyfile(HERE / "hub.md", folder / "README.md")
    if publisher:
        app["publisher"] = publisher
    (folder / "pyproject.toml").write_text(tomli_w.dumps(_of_hub(described)), encoding="utf-8")


def _matching(patterns: list[str]) -> set[Path]:
    return {path for pattern in patterns for path in ROOT.glob(pattern)}


def _of_hub(described: dict[str, Any]) -> dict[str, Any]:
    """The project's description without what is not in the folder, and with what Flower's newest format requires."""
    keys = ("name", "version", "description", "readme", "requires-python", "keywords", "dependencies")
    project = {key: described["project"][key] for key in keys}
    # Flower refuses a second requirement of itself, as the extra has one.
    engine = described["project"]["optional-dependencies"]["simulation"]
    project["dependencies"] = [*(each for each in project["dependencies"] if not each.startswith("flwr")), *engine]
    project["license"] = {"file": "LICENSE"}
    app = described["tool"]["flwr"]["app"] | {"fab-format-version": 1, "flwr-version-target": version("flwr")}
    packages = {"packages": described["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]}
    tool = {"hatch": {"build": {"targets": {"wheel": packages}}}, "flwr": {"app": app}}
    return {"build-system": described["build-system"], "project": project, "tool": tool}


if __name__ == "__main__":
    write(Path(sys.argv[1]), *sys.argv[2:])
    print(f"{sys.argv[1]}: publish it by 'flwr app publish {sys.argv[1]}'")
