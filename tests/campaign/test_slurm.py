"""The whole scenario on a real SLURM: minutes, so only where it is asked for."""

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slurm
@pytest.mark.timeout(1800)
@pytest.mark.skipif(not os.environ.get("SLURM_SANDBOX"), reason="takes minutes: SLURM_SANDBOX=1 asks for it")
def test_a_study_on_a_cluster_is_that_of_one_machine():
    command = [sys.executable, "-m", "tests.campaign.slurm"]
    ended = subprocess.run(command, cwd=Path(__file__).parents[2], capture_output=True, text=True)
    if ended.returncode == 77:
        pytest.skip(ended.stdout.strip())
    assert ended.returncode == 0, ended.stdout + ended.stderr
