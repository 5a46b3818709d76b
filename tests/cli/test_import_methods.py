"""Checkpoints of the public codes of several methods become runs; other files are rejected with an error."""

import json

import official_graph
import official_hysp
import official_umurl
import pytest
import torch
from safetensors.torch import load_file

from skelbench.cli.main import main
from skelbench.plugin.host import get_host

pytestmark = pytest.mark.usefixtures("shipped_plugins")


def of_umurl():
    state = {f"module.{name}": x for name, x in official_umurl.public_state().items()}
    return state | {"module.backbone.ma_encoder.pe.pe": torch.zeros(1, 200, official_umurl.DIM)}


CASES = {
    "skeletonclr": (official_graph.state, "encoder_q.st_gcn_networks.3.tcn.0.bias"),
    "crosclr": (official_graph.three_streams, "encoder_q.st_gcn_networks.3.tcn.0.bias"),
    "hysp": (official_hysp.state, ""),
    "umurl": (of_umurl, "module.backbone.ma_encoder.t_tr.layers.0.norm1.bias"),
}
"""Method -> a state dict of its code, and a tensor without which it is damaged; "" = checked elsewhere."""


@pytest.mark.parametrize("method", CASES)
def test_a_public_checkpoint_becomes_a_run(method, data_root, capsys):
    make, needed = CASES[method]
    small, state = data_root.parent, make()
    path = small / "file.pt"
    torch.save({"state_dict": state, "epoch": 299}, path)
    command = ["import-checkpoint", method, str(path), "--dataset", "small"]
    assert main(command) == 0
    assert "encoder and heads" in capsys.readouterr().out
    (folder,) = (small / "results").glob(f"{method}-*imported*")
    assert json.loads((folder / "run.json").read_text())["imported"]["epoch"] == 299
    read = get_host().load(get_host().get("methods", method), "imports")
    plain = {name.removeprefix("module."): x for name, x in state.items()}
    weights, expected = load_file(folder / "encoder.safetensors"), read(plain, {}).weights
    assert weights and all(torch.equal(x, expected[f"encoder.{name}"]) for name, x in weights.items())

    damaged = {name: x for name, x in state.items() if name != needed} if needed else state | {"queue": torch.ones(1)}
    for wrong, said in ((damaged, ""), ({"joints_embed.proj.weight": torch.zeros(16, 3, 4, 1)}, "is not there")):
        torch.save({"state_dict": wrong}, path)
        assert main(command) == 2 and said in capsys.readouterr().err
