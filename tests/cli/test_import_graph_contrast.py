"""Checkpoints of CrosSCLR's and AimCLR's codes become runs; others are one sentence."""

import json

import official_graph
import pytest
import torch
from safetensors.torch import load_file

from skelbench.cli.main import main
from skelbench.plugin.host import get_host

pytestmark = pytest.mark.usefixtures("shipped_plugins")


STATES = {"skeletonclr": official_graph.state, "aimclr": official_graph.state, "crosclr": official_graph.three_streams}


@pytest.mark.parametrize("method", STATES)
def test_a_public_checkpoint_becomes_a_run(method, data_root, capsys):
    small, state = data_root.parent, STATES[method]()
    path = small / "epoch300_model.pt"
    torch.save(state, path)
    command = ["import-checkpoint", method, str(path), "--dataset", "small"]
    assert main(command) == 0
    assert "encoder and heads" in capsys.readouterr().out
    (folder,) = (small / "results").glob(f"{method}-*imported*")
    spec = json.loads((folder / "run.json").read_text())["spec"]
    assert (spec["encoder"], spec["encoder_config"]["base"], spec["method_config"]["queue"]) == ("stgcn", 4, 8)
    read = get_host().load(get_host().get("methods", method), "imports")
    weights, expected = load_file(folder / "encoder.safetensors"), read(state, {}).weights
    assert weights and all(torch.equal(x, expected[f"encoder.{name}"]) for name, x in weights.items())

    del state["encoder_q.st_gcn_networks.3.tcn.0.bias"]
    torch.save(state, path)
    assert main(command) == 2 and "encoder.blocks.3.time.0.bias is absent in the file" in capsys.readouterr().err
    torch.save({"model": {"joints_embed.proj.weight": torch.zeros(16, 3, 4, 1)}}, path)
    assert main(command) == 2 and "st_gcn_networks.0.gcn.conv.weight' is not there" in capsys.readouterr().err
    assert len(list((small / "results").glob("*imported*"))) == 1
