"""Values over seeds, and results as a Markdown table and a JSON file, with the machine they were measured on."""

import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, Final

import psutil

from benchmarks import progress

_PACKAGES = ("flwr", "numpy", "scikit-learn", "torch", "xgboost-cpu", "imodels")

RESULTS: Final = Path(__file__).parent / "results"
"""Those that are committed."""
BUILD: Final = Path("build") / "benchmarks"
_kept: dict[str, Any] = {"place": BUILD, "command": "", "suffix": "", "commit": ""}


@dataclass
class Runs:
    """One setting over several seeds: a list of values, one for each seed, under each name."""

    values: dict[str, list[float]] = field(default_factory=dict)

    def add(self, **measured: float) -> None:
        """Add one seed's values."""
        for name, value in measured.items():
            self.values.setdefault(name, []).append(value)
        progress.measured(len(measured))

    def mean(self, name: str) -> float:
        """Mean over the seeds."""
        return fmean(self.values[name])

    def standard_error(self, name: str) -> float:
        """Standard error of the mean; 0 of a single seed."""
        values = self.values[name]
        return float(stdev(values) / len(values) ** 0.5) if len(values) > 1 else 0.0


def place(folder: Path, command: str = "", suffix: str = "") -> None:
    """Where results go from now on, the command that they name, and what their files' names end with.

    They name the commit that there is now: sources may change while they are measured.
    """
    _kept.update(place=folder, command=command, suffix=suffix, commit=commit())
    folder.mkdir(parents=True, exist_ok=True)


def cell(runs: Runs, name: str) -> str:
    """``mean ± standard error`` with three decimals; a single seed has no error."""
    error = f" ± {runs.standard_error(name):.3f}" if len(runs.values[name]) > 1 else ""
    return f"{runs.mean(name):.3f}{error}"


def share(part: float, whole: float) -> str:
    """``part`` of ``whole`` in percent; a dash where there is no whole."""
    return f"{part / whole:.0%}" if whole else "–"


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def write(name: str, text: str, runs: dict[str, Runs], settings: dict[str, Any]) -> None:
    """Print the text and write it to ``NAME.md`` in the folder for results, and all values to ``NAME.json``.

    Both name the command line that runs now, and the processor seconds of all that it measured. A fast run goes to
    ``NAME-fast``, one that only sees that all works to ``NAME-smoke``: they replace no full result.
    """
    machine, seconds = _machine(), progress.seconds() or progress.spent()
    about = ", ".join(f"{key} {value}" for key, value in machine.items())
    note = f"\nMeasured by `{command()}` in {seconds:.0f} s of one core ({about}).\n"
    path = values_path(name)
    path.with_suffix(".md").write_text(text + note, encoding="utf-8")
    content = {
        "name": path.stem,
        "command": command(),
        "settings": settings,
        "machine": machine,
        "seconds": round(seconds, 1),
        "values": {setting: run.values for setting, run in runs.items()},
    }
    path.write_text(json.dumps(content, indent=1) + "\n", encoding="utf-8")
    print(text)


def command() -> str:
    """The command line that runs now."""
    return str(_kept["command"])


def values_path(name: str) -> Path:
    """Where the values of an experiment are kept: those of a fast run beside those of a full one."""
    return Path(_kept["place"]) / f"{name}{_kept['suffix']}.json"


def _machine() -> dict[str, Any]:
    """Where and with what it was measured."""
    return {
        "processor": _processor(),
        **_gpu(),
        "cores": os.cpu_count(),
        "memory": f"{psutil.virtual_memory().total / 2**30:.0f} GiB",
        "python": platform.python_version(),
        **{package: found for package in _PACKAGES if (found := _version(package))},
        "commit": _kept["commit"],
    }


def commit() -> str:
    """The commit that runs, and whether sources differ from it; results of other benchmarks may."""
    found = _git("rev-parse", "--short", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":!/benchmarks/results")
    return f"{found}-dirty" if changed else found or "unknown"


def _git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=RESULTS.parent, capture_output=True, text=True, check=False)
    return done.stdout.strip()


def _gpu() -> dict[str, str]:
    torch = sys.modules.get("torch")
    return {"GPU": torch.cuda.get_device_name()} if torch and torch.cuda.is_available() else {}


def _processor() -> str:
    listed = Path("/proc/cpuinfo")
    lines = listed.read_text("utf-8").splitlines() if listed.exists() else []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
