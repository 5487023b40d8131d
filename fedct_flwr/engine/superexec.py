"""Flower's SuperExec, which outlasts a SuperLink that is away or stands still; with it, so do the runs that it started.

``superexec`` takes Flower's own options. Flower's SuperExec ends when a handshake of TLS takes more than 30 s, as with
a machine that is suspended or very busy, and every run that it has started ends with it. All of Flower's insides that
are touched are in ``main``.
"""

import importlib
import sys
from typing import Any, Final

from fedct_flwr.coordinator.restarts import be_patient

COMMAND: Final = (sys.executable, "-P", "-m", "fedct_flwr.engine.superexec")
"""Without options."""


def main() -> None:
    """Run ``flower-superexec``."""
    cli: Any = importlib.import_module("flwr.supercore.cli.flower_superexec")
    loop: Any = importlib.import_module("flwr.supercore.superexec.run_superexec")
    retries = loop.make_simple_http_retry_invoker

    def patient_retries() -> Any:
        made = retries()
        be_patient(made)
        return made

    loop.make_simple_http_retry_invoker = patient_retries
    cli.flower_superexec()


if __name__ == "__main__":
    main()
