"""``fedct silo page``: status, what has left and the limits as a page for the browser of this machine.

A process of its own that reads the silo's folder. It listens at the loopback address alone and answers one address,
which holds a new token each time. It changes nothing and shows no data: numbers and names that ``status`` shows too.
"""

import hmac
import http.server
import secrets
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from html import escape
from http import HTTPStatus
from pathlib import Path
from typing import Annotated, Any, Final

import typer
from rich.text import Text

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.cli.silo.standing import facts, study_of, table
from fedct_flwr.config import SiloConfig
from fedct_flwr.hospital.books import left
from fedct_flwr.hospital.log_entry import read_entries
from fedct_flwr.types import ConfigError, FedctError

LOOPBACK: Final = "127.0.0.1"
_TOKEN_BYTES: Final = 32
_SECONDS: Final = 10
"""A page asks again so often, and a caller may be silent so long."""
_HEADERS: Final = {
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; base-uri 'none'",
    "Cache-Control": "no-store",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_PAGE: Final = """\
<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="refresh" content="{seconds}">
<style>
:root {{ color-scheme: light dark; --ink: #1b1f24; --soft: #59636e; --line: #d5dae0; --back: #ffffff; --bar: #0a5fb4; }}
@media (prefers-color-scheme: dark) {{
  :root {{ --ink: #e8ebef; --soft: #a3adb8; --line: #3b434c; --back: #14171b; --bar: #6db3f8; }}
}}
body {{ margin: 2rem auto; max-width: 52rem; padding: 0 1rem; font: 1rem/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--back); }}
h1 {{ font-size: 1.4rem; }} h2 {{ font-size: 1.1rem; margin-top: 2rem; }}
table {{ border-collapse: collapse; width: 100%; }}
th, td {{ text-align: left; vertical-align: top; padding: .3rem .6rem .3rem 0; border-bottom: 1px solid var(--line);
  overflow-wrap: anywhere; }}
th {{ font-weight: 500; color: var(--soft); width: 8rem; }}
.bar {{ height: .5rem; border-radius: .25rem; background: var(--line); overflow: hidden; }}
.bar div {{ height: 100%; background: var(--bar); }}
p {{ color: var(--soft); }}
</style></head><body>
<h1>{title}</h1>
{body}
<p>Read {now} UTC, anew every {seconds} s. This page changes nothing; commands: fedct silo --help</p>
</body></html>
"""


def page(
    folder: Folder = None,
    folder_option: FolderOption = None,
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port of this machine; 0: a free one.")] = 0,
) -> None:
    """Show status, what has left and the limits in a browser on this machine, until it is ended. Never data.

    It listens at 127.0.0.1 alone and prints its address, which holds a new token each time: nobody else on this machine
    reads the page.
    """
    file = silo_file(folder, folder_option)
    SiloConfig.read_toml(file)
    with serve(file, port) as server:
        Output().say(f"the silo's page, until this command ends: {server.address}")
        server.serve_forever()


class PageServer(http.server.ThreadingHTTPServer):
    """Serves one address, ``http://127.0.0.1:PORT/TOKEN/``."""

    daemon_threads = True

    def __init__(self, silo_file: Path, port: int) -> None:
        self.token = secrets.token_urlsafe(_TOKEN_BYTES)
        super().__init__((LOOPBACK, port), partial(_Answer, silo_file=silo_file))

    @property
    def address(self) -> str:
        """Where the page is."""
        return f"http://{LOOPBACK}:{self.server_port}/{self.token}/"


def serve(silo_file: Path, port: int = 0) -> PageServer:
    """A server that listens. Raises ConfigError for a port where nobody can."""
    try:
        return PageServer(silo_file, port)
    except OSError as error:
        raise ConfigError(
            f"cannot listen at {LOOPBACK}:{port} ({error.strerror}): choose another --port, or leave it out"
        ) from None


class _Answer(http.server.BaseHTTPRequestHandler):
    server: PageServer
    timeout = _SECONDS
    server_version = "fedct"
    sys_version = ""

    def __init__(self, *arguments: Any, silo_file: Path) -> None:
        self._silo_file = silo_file
        super().__init__(*arguments)

    def do_GET(self) -> None:
        """The page, or that there is nothing."""
        # A name that leads here is another site's, whose scripts would read the page.
        known = self.headers.get("Host") == f"{LOOPBACK}:{self.server.server_port}"
        if not known or not hmac.compare_digest(self.path.encode(), f"/{self.server.token}/".encode()):
            self._answer(HTTPStatus.NOT_FOUND, "nothing is here")
            return
        try:
            text = document(SiloConfig.read_toml(self._silo_file))
        except (FedctError, OSError):
            self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, "the silo's folder cannot be read: fedct silo check")
            return
        self._answer(HTTPStatus.OK, text, "text/html")

    def _answer(self, status: HTTPStatus, text: str, kind: str = "text/plain") -> None:
        body = text.encode()
        self.send_response(status)
        for name, value in {**_HEADERS, "Content-Type": f"{kind}; charset=utf-8", "Content-Length": len(body)}.items():
            self.send_header(name, str(value))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing: the address is a secret."""


def document(config: SiloConfig) -> str:
    """The page as HTML."""
    said = facts(config, study_of(config))
    body = "\n".join([*_status(said), *_left(config), *_limits(said)])
    now = datetime.now(UTC).strftime("%Y-%m-%d %H:%M:%S")
    title = escape(f"Silo {config.silo}")
    return _PAGE.format(title=title, body=body, now=now, seconds=_SECONDS)


def _status(said: dict[str, Any]) -> Iterator[str]:
    names, values = (column.cells for column in table(said).columns)
    yield "<h2>Status</h2><table>"
    for name, value in zip(names, values, strict=True):
        yield _row(_plain(name), escape(_plain(value)))
    yield "</table>"


def _plain(cell: object) -> str:
    """A cell without the terminal's colors."""
    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain


def _left(config: SiloConfig) -> Iterator[str]:
    yield "<h2>What has left, in all studies of this folder</h2><table>"
    for name, number in left(read_entries(config.state))._asdict().items():
        yield _row(name, f"{number:,}")
    yield "</table>"


def _limits(said: dict[str, Any]) -> Iterator[str]:
    shared = said.get("records") or {}
    for title, about in (("Limits of this study", said), ("Limits over all studies of these records", shared)):
        if about.get("used"):
            yield f"<h2>{title}</h2><table>"
            for name, limit in about["limits"].items():
                used = about["used"][name]
                yield _row(name, f"{used:,} of {limit:,} used{_bar(used / limit)}")
            # The budgets of this study alone are a part of its status.
            if about is shared and (privacy := shared.get("privacy")) and privacy["spent"] is not None:
                spent, epsilon = privacy["spent"], privacy["epsilon"]
                yield _row("epsilon", f"{spent:.3g} of {epsilon:g} spent{_bar(spent / epsilon)}")
            yield "</table>"


def _bar(share: float) -> str:
    return f'<div class="bar"><div style="width: {min(100.0, 100 * share):.1f}%"></div></div>'


def _row(name: str, value: str) -> str:
    """``value`` is HTML, ``name`` is not."""
    return f"<tr><th>{escape(name)}</th><td>{value}</td></tr>"
