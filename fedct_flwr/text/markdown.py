"""Pages of Markdown for people and settings for nginx, from templates next to the code that fills them."""

from functools import cache
from importlib.resources import files
from typing import Final

from jinja2 import Environment, StrictUndefined, Template

from fedct_flwr.text.printable import count, printable

# Nothing is escaped: a template makes names of others printable by the filter.
_ENVIRONMENT: Final = Environment(
    undefined=StrictUndefined,
    autoescape=False,  # noqa: S701
    trim_blocks=True,
    lstrip_blocks=True,
    keep_trailing_newline=True,
)
_ENVIRONMENT.filters["printable"] = printable
_ENVIRONMENT.globals["count"] = count


@cache
def template(package: str, name: str) -> Template:
    """The template of this name in a package."""
    return _ENVIRONMENT.from_string(files(package).joinpath(name).read_text("utf-8"))
