"""The page: one HTML file with everything in it, Plotly's own script too, that asks no network for anything."""

import importlib.util
import json
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np

from fedct_flwr.config.run import STUDY
from fedct_flwr.files import write_atomically
from fedct_flwr.report.figures import Section, formatted, size
from fedct_flwr.report.kind_words import words_of
from fedct_flwr.report.sections import sections_of, table_of_silos
from fedct_flwr.report.summary import RunSummary
from fedct_flwr.text.printable import count, printable
from fedct_flwr.types import ConfigError, RunError
from fedct_flwr.version import __version__

NAME: Final = "report.html"
"""In a run's folder."""
RELOAD_SECONDS: Final = 5

_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


def write_report(
    run: RunSummary, target: Path, advice: str = "", splits: Section | None = None, *, reloads: bool = False
) -> None:
    """Write the page of a run, below ``splits``, whole or not at all. Raises RunError, which ends with ``advice``.

    ``splits`` are means over several splits, of which the run is one. ``reloads``: an open page loads itself again
    after some seconds, as it is written again while the run goes on.
    """
    page = document(run, splits, reloads=reloads)
    try:
        write_atomically(target, page.encode())
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror}{advice}") from error


def document(run: RunSummary, splits: Section | None = None, *, reloads: bool = False) -> str:
    """The whole page, as in ``write_report``."""
    sections = sections_of(run)
    figures = [figure for one in [splits, *sections] if one for figure in one.figures]
    plots = {figure.id: {"data": figure.traces, "layout": figure.layout} for figure in figures}
    # JSON that no HTML parser takes for the end of the script that it stands in; names in it are printable.
    data = json.dumps(plots, separators=(",", ":"), allow_nan=False).translate(_ESCAPED)
    learners = ", ".join(name.rpartition(".")[2] for name in run.config.learner)
    page: str = _template().render(
        run=run,
        splits=splits,
        sections=sections,
        silos=table_of_silos(run),
        still=words_of(run.kind).decided.still,
        learners="learners of the silos' own" if run.config.data == STUDY else learners,
        reload_seconds=RELOAD_SECONDS if reloads else None,
        version=__version__,
        plots=data,
        plotly=plotly_script().read_text("utf-8"),
        **{name: _text(f"page.{name}") for name in ("css", "js")},
    )
    return page


def check_extra() -> None:
    """Raise ConfigError without the extra ``report``, and where what is installed of it is not whole."""
    if not importlib.util.find_spec("plotly"):
        raise ConfigError("a report needs the extra 'report': pip install -c constraints.txt -e '.[report]'")
    if not plotly_script().is_file():
        raise ConfigError(f"a report needs {plotly_script()}, which is not there: pip install --force-reinstall plotly")


def plotly_script() -> Path:
    """Plotly's script for browsers, which its Python package holds. Nothing of the package is imported."""
    found = importlib.util.find_spec("plotly")
    folders = (found and found.submodule_search_locations) or ["plotly"]
    return Path(folders[0]) / "package_data" / "plotly.min.js"


@cache
def _template() -> Any:
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, finalize=_finalize, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {"count": count, "size": size, "form": formatted}
    environment.tests["known"] = lambda values: bool(np.isfinite(values).any())
    return environment.from_string(_text("page.html"))


def _finalize(value: Any) -> Any:
    """A value as the page shows it. Only the page's own text is marked as safe."""
    return printable(value, keep="\n") if isinstance(value, str) and not hasattr(value, "__html__") else value


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")
