"""The page: one HTML file with everything in it, Plotly's own script too, that asks no network for anything."""

import importlib.util
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

import numpy as np

from fedct_flwr import __version__
from fedct_flwr.config.run import STUDY
from fedct_flwr.files import write_atomically
from fedct_flwr.report.figures import Section, formatted, score, size
from fedct_flwr.report.scores import accuracy, clinical
from fedct_flwr.report.sections import consensus, data, privacy, settings, silos, table_of_silos
from fedct_flwr.report.summary import Run
from fedct_flwr.report.survival import follow_up
from fedct_flwr.text.kinds import words_of
from fedct_flwr.text.printable import count, printable
from fedct_flwr.types import ConfigError, RunError

NAME: Final = "report.html"
"""In a run's folder."""
RELOAD_SECONDS: Final = 5

_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


@dataclass(frozen=True)
class Content:
    """Content of a run's page by now."""

    title: str
    run: Run
    sections: Sequence[Section] = ()
    splits: Section | None = None
    """Means over several splits, which come before all of this run: it is one of them."""

    @property
    def plots(self) -> dict[str, Any]:
        """Plotly's data, by the figure's id."""
        sections = [self.splits, *self.sections] if self.splits else self.sections
        return {figure.id: figure.plot for section in sections for figure in section.figures}

    @property
    def head(self) -> dict[str, str]:
        """Texts above the sections."""
        run, course = self.run, self.run.course
        state = {"unfinished": "has not ended"}.get(run.status, run.status)
        if run.status == "unfinished" and len(course):
            state = f"round {course.number[-1]} has ended"
        silos, public = count(len(course.silos), "silo"), f"{run.num_public:,} public examples"
        which = self.splits.title if self.splits else f"seed {run.config.seed}"
        subtitle = f"{silos} · {_learners(run)} · {public} · {which}"
        return {"title": self.title, "subtitle": printable(subtitle), "status": run.status, "words": state}


def _learners(run: Run) -> str:
    """Of a class the last part of its import path; the settings have all."""
    if run.config.data == STUDY:
        return "learners of the silos' own"
    return ", ".join(name.rpartition(".")[2] for name in run.config.learner)


def content(run: Run) -> Content:
    """All sections that have something to say."""
    parts = (accuracy, clinical, follow_up, consensus, privacy, silos, data, settings)
    sections = [made for part in parts if not (made := part(run)).empty]
    return Content(printable(run.title), run, sections)


def write_report(
    run: Run, target: Path, advice: str = "", splits: Section | None = None, *, reloads: bool = False
) -> None:
    """Write the page of a run, below ``splits``, whole or not at all. Raises RunError, which ends with ``advice``.

    ``reloads``: an open page loads itself again after some seconds, as it is written again while the run goes on.
    """
    page = document(replace(content(run), splits=splits), reloads=reloads)
    try:
        write_atomically(target, page.encode())
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror}{advice}") from error


def document(shown: Content, *, reloads: bool = False) -> str:
    """The whole page; ``reloads`` as in ``write_report``."""
    page: str = _template("page.html").render(
        **_values(shown),
        css=_text("page.css"),
        js=_text("page.js"),
        plotly=plotly_script().read_text("utf-8"),
        plots=as_script(shown.plots),
        reload_seconds=RELOAD_SECONDS if reloads else None,
        version=__version__,
    )
    return page


def check_extra() -> None:
    """Raise ConfigError without the extra ``report``, and where what is installed of it is not whole."""
    if not importlib.util.find_spec("plotly"):
        raise ConfigError("a report needs the extra 'report': pip install -c constraints.txt -e '.[report]'")
    if not plotly_script().is_file():
        raise ConfigError(f"a report needs {plotly_script()}, which is not there: pip install --force-reinstall plotly")


def available() -> bool:
    """Whether the extra ``report`` is installed."""
    try:
        check_extra()
    except ConfigError:
        return False
    return True


def plotly_script() -> Path:
    """Plotly's script for browsers, which its Python package holds. Nothing of the package is imported."""
    found = importlib.util.find_spec("plotly")
    folders = (found and found.submodule_search_locations) or ["plotly"]
    return Path(folders[0]) / "package_data" / "plotly.min.js"


def as_script(value: Mapping[str, Any]) -> str:
    """JSON that no HTML parser takes for the end of the script that it stands in; names in it are printable."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False).translate(_ESCAPED)


def _values(shown: Content) -> dict[str, Any]:
    run = shown.run
    words = {"silos": table_of_silos(run), "still": words_of(run.kind).decided.still}
    return {**shown.head, **words, "run": run, "splits": shown.splits, "sections": shown.sections}


@cache
def _environment() -> Any:
    from jinja2 import DictLoader, Environment, StrictUndefined

    pages = {name: _text(name) for name in ("page.html", "main.html")}
    environment = Environment(
        loader=DictLoader(pages),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    known = {"known": lambda values: bool(np.isfinite(values).any())}
    environment.filters |= {"count": count, "score": score, "size": size, "form": formatted, **known}
    return environment


def _finalize(value: Any) -> Any:
    """A value as the page shows it. Only the page's own text is marked as safe."""
    return printable(value, keep="\n") if isinstance(value, str) and not hasattr(value, "__html__") else value


def _template(name: str) -> Any:
    return _environment().get_template(name)


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")
