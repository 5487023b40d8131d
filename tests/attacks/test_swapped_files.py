"""Files of an approval, swapped while the agent reads them: what was approved is what is used.

Before this was mended, the agent read ``silo.toml`` three times. A file of the same size without ``[privacy]``, put
there for the third reading alone, let bare labels out under an approved epsilon, uncharged.
"""

import os
import re
from pathlib import Path

import numpy as np
import pytest

from fedct_flwr.config.silo import SiloConfig, SiloFolder
from fedct_flwr.hospital.file_watch import FileWatch
from fedct_flwr.silo.own import OwnSilo
from fedct_flwr.silo.release import account_of
from fedct_flwr.types import Refusal
from tests.hospital.agents import Make

pytestmark = pytest.mark.usefixtures("in_a_run")

PRIVACY = {"protection": "dp-linear", "epsilon": 1.0, "delta": 1e-5, "rounds": 2}


def put(path: Path, text: str) -> None:
    """Write other contents of the same size, and set the time back."""
    before = path.stat()
    path.write_text(text, "utf-8")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert path.stat().st_size == before.st_size


@pytest.mark.parametrize("reading", [1, 2, 3])
def test_no_reading_of_the_settings_lets_bare_labels_out(
    make: Make, monkeypatch: pytest.MonkeyPatch, reading: int
) -> None:
    silo = make(privacy=PRIVACY, learner={"name": "naive-bayes"})
    protected, readings = silo.file.read_text("utf-8"), 0
    bare = re.sub(r"\[privacy\]\n(?:[^\[\n]*\n?)*", lambda found: "#" * (len(found[0]) - 1) + "\n", protected)
    read = SiloConfig.read_toml.__func__  # type: ignore[attr-defined]
    put(silo.file, bare)
    assert not SiloConfig.read_toml(silo.file).privacy.enabled
    put(silo.file, protected)

    def swapped(cls: type[SiloConfig], path: Path, *given: bytes) -> SiloConfig:
        nonlocal readings
        readings += 1
        put(silo.file, bare if readings == reading else protected)
        # What was read before is read as late.
        found: SiloConfig = read(cls, path, *(path.read_bytes() for _ in given))
        put(silo.file, protected)
        return found

    monkeypatch.setattr(SiloFolder, "read_toml", classmethod(swapped))
    silo.start()
    silo.ask()
    outcome = silo.outcome()
    silo.end()
    spent = account_of(silo.config, silo.study.name).epsilon
    assert (outcome is Refusal.NOT_APPROVED, spent) == (True, 0) if reading == 1 else spent > 0.9
    assert readings == 1
    assert isinstance(outcome, np.ndarray) == (reading > 1)


@pytest.mark.parametrize("name", ["silo.toml", "study/study.toml", "study/public.csv", "test.csv", "keys/egress.key"])
def test_other_contents_of_the_same_size_and_time_are_seen(make: Make, name: str) -> None:
    silo = make(privacy=PRIVACY)
    files, path = FileWatch.of_study(OwnSilo.read(silo.file)), silo.folder / name
    before = path.read_text("utf-8")
    put(path, before.swapcase())
    assert not files.unchanged()
    put(path, before)
    assert files.unchanged()
