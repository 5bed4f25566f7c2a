"""The scripts of `launch/` start what they say, with stand-ins for the programs of a cluster."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.toytree import REPOSITORY

LAUNCH = REPOSITORY / "launch"
SCRIPTS = sorted([*LAUNCH.glob("*.sh"), *LAUNCH.glob("*.sbatch")])
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="these are scripts of bash")


def program(folder: Path, name: str, text: str) -> None:
    (folder / name).write_text(f"#!/usr/bin/env bash\n{text}\n", encoding="utf-8")
    (folder / name).chmod(0o755)


def printed_by(script: str, folder: Path, *words: str, **more: str) -> list[str]:
    """The words of the last program that `script` runs, one on each line."""
    program(folder, "torchrun", 'printf "%s\\n" torchrun "$@"')
    env = {"PATH": f"{folder}{os.pathsep}{os.environ['PATH']}", **more}
    done = subprocess.run(
        ["bash", LAUNCH / script, *words], env=env, capture_output=True, text=True, check=True
    )
    return done.stdout.splitlines()


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda path: path.name)
def test_bash_can_read_it(script):
    subprocess.run(["bash", "-n", script], check=True)


def test_one_node_starts_a_process_for_each_device(tmp_path):
    found = printed_by("one-node.sh", tmp_path, "llama_loss", "--engine", "ddp", DEVICES="2")
    assert found == [
        *("torchrun", "--standalone", "--nproc-per-node", "2"),
        *("-m", "patchgen", "train", "llama_loss", "--engine", "ddp"),
    ]


def test_one_node_counts_the_devices(tmp_path):
    program(tmp_path, "nvidia-smi", 'printf "GPU 0\\nGPU 1\\nGPU 2\\n"')
    found = printed_by("one-node.sh", tmp_path, "llama_loss")
    assert found[found.index("--nproc-per-node") + 1] == "3"


def test_all_machines_of_a_slurm_job_meet_at_the_first(tmp_path):
    program(tmp_path, "scontrol", 'printf "node7\\nnode8\\n"')
    program(tmp_path, "srun", 'shift; exec "$@"')  # behind --kill-on-bad-exit=1
    job = {"SLURM_JOB_NODELIST": "node[7-8]", "SLURM_JOB_ID": "40123", "SLURM_NNODES": "2"}
    found = printed_by("slurm.sbatch", tmp_path, "llama_loss", **job)
    assert found == [
        *("torchrun", "--nnodes", "2", "--nproc-per-node", "8", "--rdzv-id", "40123"),
        *("--rdzv-backend", "c10d", "--rdzv-endpoint", "node7:20123"),
        *("-m", "patchgen", "train", "llama_loss"),
    ]
