"""Campaigns in seconds: the data commands killed, crowded and on bad disks; and that a campaign sees what is wrong."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from campaign.places import differences

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "words",
    [
        ("kill", "--count", "3", "--term", "1", "--seed", "2", "--only", "data import,data prepare"),
        ("crowd", "--rounds", "1", "--processes", "4", "--data"),
        ("disk", "--count", "1", "--only", "data import", "--faults", "full,read-only,clock"),
    ],
    ids=lambda words: words[0],
)
def test_a_short_campaign_fells_nothing(words, tmp_path):
    command = [sys.executable, "-m", f"tests.campaign.{words[0]}", *words[1:]]
    ended = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert ended.returncode == 0 and "FELL" not in ended.stdout, ended.stdout + ended.stderr


def made(folder):
    folder.mkdir()
    (folder / "run.json").write_text(json.dumps({"outcome": "done", "created": 1.5, "spec": {"lr": 0.1}}))
    (folder / "metrics.jsonl").write_text('{"step": 1, "loss": 0.5, "seconds": 2}\n')
    np.savez(folder / "eval-1.npz", prediction=np.arange(3))
    (folder / "encoder.safetensors").write_bytes(b"weights")
    return folder


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("run.json", '{"outcome": "done", "created": 9, "spec": {"lr": 0.1}}', None),
        (
            "run.json",
            '{"outcome": "done", "created": 9, "spec": {"lr": 0.2}}',
            "run.json differs at .spec.lr: 0.1 and 0.2",
        ),
        ("run.json", '{"outcome": "done", "created": 9}', "run.json differs at .spec"),
        ("run.json", '{"outcome": ', "run.json differs: one cannot be read (JSONDecodeError)"),
        ("metrics.jsonl", '{"step": 1, "loss": 0.5, "seconds": 9}\n', None),
        ("metrics.jsonl", '{"step": 1, "loss": 0.4, "seconds": 2}\n', "metrics.jsonl differs at [0].loss: 0.5 and 0.4"),
        ("encoder.safetensors", "other", "encoder.safetensors differs"),
        ("eval-2.json", "{}", "only in"),
        (".lock", "", None),
    ],
)
def test_what_is_not_the_same_is_seen(name, content, said, tmp_path):
    one, other = made(tmp_path / "one"), made(tmp_path / "other")
    (other / name).write_text(content)
    found = differences(one, other)
    assert len(found) == (said is not None) and all(said in line for line in found), found


def test_other_predictions_are_seen(tmp_path):
    one, other = made(tmp_path / "one"), made(tmp_path / "other")
    np.savez_compressed(other / "eval-1.npz", prediction=np.arange(3))
    assert differences(one, other) == []
    np.savez(other / "eval-1.npz", prediction=np.arange(3)[::-1])
    assert differences(one, other) == ["eval-1.npz differs"]
