"""The page: one HTML file with everything in it, Plotly's own script too, that asks no network for anything."""

import importlib.util
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any, Final

from fedct_flwr import __version__
from fedct_flwr.files.atomic import write_atomically
from fedct_flwr.report.figures import Section
from fedct_flwr.report.glance import Glance, glance
from fedct_flwr.report.scores import accuracy, clinical
from fedct_flwr.report.sections import consensus, data, privacy, settings, silos, traffic
from fedct_flwr.report.summary import Run
from fedct_flwr.text.printable import printable
from fedct_flwr.types import ConfigError, RunError

NAME: Final = "report.html"
"""In a run's folder."""

# In the strings of a JSON text in ASCII: a backslash's own escape, a control character, or characters by their numbers.
# It begins with one letter, so that long rows of numbers are passed over quickly.
_IN_STRINGS = re.compile(r"\\(?:\\|[bfrt]|u[0-9a-f]{4}(?:\\u[0-9a-f]{4})*)")
_ESCAPED = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"})


@dataclass(frozen=True)
class Content:
    """What the page shows of some runs, as they are by now."""

    glance: Glance
    sections: Sequence[Section]

    @property
    def plots(self) -> dict[str, Any]:
        """What Plotly is given, by the figure's id."""
        return {figure.id: figure.plot for section in self.sections for figure in section.figures}


def content(runs: Sequence[Run]) -> Content:
    """All sections that have something to say."""
    parts = (accuracy, clinical, consensus, traffic, privacy, silos, data, settings)
    return Content(glance(runs), [made for part in parts if not (made := part(runs)).empty])


def write_report(runs: Sequence[Run], target: Path, advice: str = "") -> None:
    """Write the page of these runs, whole or not at all. Raises RunError, which ends with ``advice``."""
    page = document(content(runs))
    try:
        write_atomically(target, page.encode())
    except OSError as error:
        raise RunError(f"cannot write {target}: {error.strerror}{advice}") from error


def not_begun(name: str) -> Content:
    """For a run whose folder is still to come."""
    words = "The run is about to begin: this page will show its rounds."
    return Content(Glance(name, "", "unfinished", "has not begun", words), ())


def document(shown: Content, *, live: bool = False) -> str:
    """The whole page. ``live``: it asks where it came from for what is new."""
    page: str = _template("page.html").render(
        **_values(shown),
        css=_text("page.css"),
        js=_text("page.js"),
        plotly=plotly_script().read_text("utf-8"),
        plots=as_script(shown.plots),
        live=live,
        version=__version__,
    )
    return page


def fragment(shown: Content) -> str:
    """What stands between head and foot: that changes while a run goes on."""
    text: str = _template("main.html").render(**_values(shown))
    return text


def check_extra() -> None:
    """Raise ConfigError without the extra ``report``, and where what is installed of it is not whole."""
    if not all(importlib.util.find_spec(name) for name in ("plotly",)):
        raise ConfigError("a report needs the extra 'report': pip install 'fedct-flwr[report]'")
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
    """JSON that no HTML parser takes for the end of the script that it stands in.

    Characters that hide something are in its strings as their escapes: a figure shows these.
    """
    # By the text, not by going through the value: that holds all numbers of a run.
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    return _IN_STRINGS.sub(_shown_escapes, text).translate(_ESCAPED)


def _shown_escapes(found: re.Match[str]) -> str:
    if found[0] == r"\\":
        return found[0]
    return json.dumps(printable(json.loads(f'"{found[0]}"')))[1:-1]


def _values(shown: Content) -> dict[str, Any]:
    return {"glance": shown.glance, "sections": shown.sections}


@cache
def _environment() -> Any:
    from jinja2 import DictLoader, Environment, StrictUndefined

    pages = {name: _text(name) for name in ("page.html", "main.html")}
    return Environment(
        loader=DictLoader(pages),
        autoescape=True,
        finalize=_finalize,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _finalize(value: Any) -> Any:
    """A value as the page shows it. What is marked as safe is the page's own."""
    return printable(value, keep="\n") if isinstance(value, str) and not hasattr(value, "__html__") else value


def _template(name: str) -> Any:
    return _environment().get_template(name)


@cache
def _text(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")
