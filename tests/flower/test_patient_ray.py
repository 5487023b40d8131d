"""Ray starts however long its agents take, as on a machine that has other work."""

from pathlib import Path

import pytest

from tests.flower.test_simulate import assert_nothing_is_left, environment, fedct

pytestmark = [pytest.mark.engine, pytest.mark.slow]

AGENTS_START_LATE = """
import sys, time
if any(argument.endswith("agent.py") for argument in sys.orig_argv):
    time.sleep(20)
"""


def test_a_run_goes_through_although_rays_agents_take_longer_than_ray_waits(tmp_path: Path) -> None:
    site = tmp_path / "site"
    site.mkdir()
    (site / "sitecustomize.py").write_text(AGENTS_START_LATE, encoding="utf-8")
    path = f"{site}:{environment(tmp_path)['PYTHONPATH']}"
    quick = ["--rounds", "1", "--learner", "nearest-neighbors", "--no-baselines"]
    done = fedct(tmp_path, "simulate", "--run-dir", "run", *quick, PYTHONPATH=path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert_nothing_is_left(tmp_path)
