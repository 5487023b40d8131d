"""``fedct watch``: the page of a run that goes on."""

from pathlib import Path
from typing import Annotated

import typer

from fedct_flwr.cli.output import Output
from fedct_flwr.report.live import LiveServer
from fedct_flwr.report.page import check_extra
from fedct_flwr.report.summary import RunReader


def watch(
    run: Annotated[Path, typer.Argument(help="The run's folder.")],
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port on this machine's loopback address.", show_default="a free one")
    ] = 0,
) -> None:
    """Show a run in the browser while it goes on: the page of 'fedct report', which updates itself.

    For this machine alone, and read-only: whoever is logged in there can open it. It outlives the run; Ctrl-C ends it.
    """
    check_extra()
    # Says what is wrong with the folder before anybody opens a page.
    RunReader(run).read()
    out = Output()
    with LiveServer(run, port) as server:
        try:
            out.say(f"watching {run}: {server.url} (Ctrl-C ends it)")
            server.serve_forever()
        except KeyboardInterrupt:
            out.say("ended")
