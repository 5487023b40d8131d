"""Results as a Markdown table and a JSON file, with the machine they were measured on."""

import json
import os
import platform
import shlex
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.federation import Runs

RESULTS = Path(__file__).parent / "results"


def cell(runs: Runs, name: str) -> str:
    """``mean ± standard error`` with three decimals."""
    return f"{runs.mean(name):.3f} ± {runs.standard_error(name):.3f}"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def write(name: str, text: str, runs: dict[str, Runs], settings: dict[str, Any], seconds: float) -> None:
    """Write ``results/NAME.md`` and ``results/NAME.json``, with the command line that runs now."""
    packages = ("flwr", "numpy", "scikit-learn")
    machine = {
        "processor": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        **{package: version(package) for package in packages},
    }
    RESULTS.mkdir(exist_ok=True)
    about = ", ".join(f"{key} {value}" for key, value in machine.items())
    command = shlex.join(["python", "-m", "benchmarks", *sys.argv[1:]])
    note = f"\nMeasured by `{command}` in {seconds:.0f} s ({about}).\n"
    (RESULTS / f"{name}.md").write_text(text + note, encoding="utf-8")
    content = {
        "name": name,
        "command": command,
        "settings": settings,
        "machine": machine,
        "seconds": round(seconds, 1),
        "values": {setting: run.values for setting, run in runs.items()},
    }
    (RESULTS / f"{name}.json").write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
