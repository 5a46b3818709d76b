"""Checkpoints of HYSP's code become runs; others are one sentence."""

import json

import official_hysp
import pytest
import torch
from safetensors.torch import load_file
from skelbench_plugins.hysp import imported

from skelbench.cli.main import main

pytestmark = pytest.mark.usefixtures("shipped_plugins")


def test_a_public_checkpoint_becomes_a_run(data_root, capsys):
    small, state = data_root.parent, official_hysp.state()
    path = small / "epoch-300.ckpt"
    torch.save({"state_dict": state, "epoch": 299}, path)
    command = ["import-checkpoint", "hysp", str(path), "--dataset", "small"]
    assert main(command) == 0
    assert "encoder and heads" in capsys.readouterr().out
    (folder,) = (small / "results").glob("hysp-*imported*")
    spec = json.loads((folder / "run.json").read_text())["spec"]
    assert (spec["encoder_config"]["base"], spec["encoder_config"]["out"]) == (4, 12)
    assert spec["method_config"]["head_hidden"] == official_hysp.HIDDEN
    weights, expected = load_file(folder / "encoder.safetensors"), imported(state, {}).weights
    assert weights and all(torch.equal(x, expected[f"encoder.{name}"]) for name, x in weights.items())

    torch.save({"state_dict": state | {"model.queue": torch.zeros(2)}}, path)
    assert main(command) == 2 and "tensor 'queue' belongs to another model" in capsys.readouterr().err
    torch.save({"model": {"joints_embed.proj.weight": torch.zeros(16, 3, 4, 1)}}, path)
    assert main(command) == 2 and "gcn.conv.weight' is not there" in capsys.readouterr().err
