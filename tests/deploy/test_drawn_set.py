"""Four hospitals in containers draw a public set, whose silos approved nothing but that, and answer labels again."""

import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import tomli_w

from fedct_flwr.drawing.simulated import derived
from tests.deploy.federation import COORDINATOR, SILOS, Federation
from tests.hospitals import dataset

pytestmark = pytest.mark.deploy

ROWS = 2000
MOST_SECONDS = 60.0
HEART = dataset()
AGREED = tomli_w.dumps(
    {
        "draw": {"records": sum(silo.units for silo in HEART.silos)},
        "columns": {
            name: form.model_dump(mode="json", exclude_defaults=True) for name, form in derived(HEART).columns.items()
        },
    }
)

# Where the demonstration's volumes are all to be written to.
EDIT = f"""
import shutil, sys
from pathlib import Path
shares, silos = Path("/shares"), {SILOS}
studies = [shares / "coordinator/study/study.toml", *(shares / f"agent-{{silo}}/study/study.toml" for silo in silos)]
settings = [shares / f"agent-{{silo}}/silo.toml" for silo in silos]
for path in [*studies, *settings]:
    kept = path.with_suffix(".before")
    shutil.copyfile(kept, path) if kept.exists() else shutil.copyfile(path, kept)
if len(sys.argv) > 1:
    keys = [(shares / f"agent-{{silo}}/keys/egress.pub").read_text().splitlines()[1] for silo in silos]
    lines = [f'{{silo}} = "{{key}}"' for silo, key in zip(silos, keys)]
    for path in studies:
        path.write_text("\\n".join([path.read_text(), sys.argv[1], "[sums.keys]", *lines]))
    for path in settings:
        path.write_text(path.read_text().replace("metrics = true", 'kinds = ["draw"]'))
"""


def agree(deployed: Federation, *agreed: str) -> None:
    """Write what the study agrees on, or nothing more than before, and let each silo approve it."""
    agents = [f"agent-{silo}" for silo in SILOS]
    deployed.compose("stop", "--timeout", "10", *agents)
    once = ("run", "--rm", "--no-deps", "--no-TTY")
    deployed.compose(*once, "--entrypoint", "python", "demo", "-c", EDIT, *agreed)
    approve = ("silo", "approve", "--yes", "--despite-duplicates", "--reason", "a test")
    with ThreadPoolExecutor() as pool:
        list(pool.map(lambda agent: deployed.compose(*once, agent, *approve), agents))
    deployed.compose("start", *agents)
    deployed.wait_healthy()


@pytest.fixture
def counting(deployed: Federation) -> Iterator[Federation]:
    agree(deployed, AGREED)
    yield deployed
    agree(deployed)


def test_four_hospitals_draw_2000_rows_within_a_minute(counting: Federation) -> None:
    file, started = f"{COORDINATOR}/drawn.csv", time.monotonic()
    command = ("fedct", "coordinator", "draw", COORDINATOR, "--epsilon", "1", "--rows", str(ROWS), "--output", file)
    printed = counting.execute("superexec", *command).stdout
    seconds = time.monotonic() - started
    assert re.search(r"round +1 +4 silos sent", printed), printed
    assert f"{ROWS:,} examples of 13 columns" in printed
    assert len(counting.execute("superexec", "cat", file).stdout.splitlines()) == ROWS + 1
    for silo in SILOS:
        assert [entry["kind"] for entry in counting.egress(silo) if entry["event"] == "added"][-1] == "draw"
        status = counting.execute(f"agent-{silo}", "fedct", "silo", "status", ".").stdout
        assert "drawn public set: epsilon 0.99" in status or "drawn public set: epsilon 1 of 1" in status, status
    print(f"drawn in {seconds:.1f} s")
    assert seconds <= MOST_SECONDS
