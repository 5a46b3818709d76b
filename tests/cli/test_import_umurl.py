import json

import pytest
import torch
from official_umurl import DIM, public_state
from safetensors.torch import load_file
from skelbench_plugins import umurl

from skelbench.cli.main import main

pytestmark = pytest.mark.usefixtures("shipped_plugins")


def test_a_public_checkpoint_becomes_a_run(small, capsys):
    state = {f"module.{name}": x for name, x in public_state().items()}
    state["module.backbone.ma_encoder.pe.pe"] = torch.zeros(1, 200, DIM)
    path = small / "checkpoint_0450.pth.tar"
    torch.save({"epoch": 451, "state_dict": state, "optimizer": {"state": {}, "param_groups": []}}, path)
    command = ["import-checkpoint", "umurl", str(path), "--dataset", "small"]
    assert main([*command, "--probe", "knn"]) == 0
    shown = capsys.readouterr().out
    assert "encoder and heads" in shown
    (folder,) = (small / "results").glob("umurl-*imported*")
    (record,) = (json.loads(file.read_text()) for file in folder.glob("eval-*.json"))
    assert record["spec"]["streams"] == ["fused"] and record["standard"]
    weights = load_file(folder / "encoder.safetensors")
    expected = umurl.read_public(public_state(), {}).weights
    assert all(torch.equal(x, expected[f"encoder.{name}"]) for name, x in weights.items())

    del state["module.backbone.ma_encoder.t_tr.layers.0.norm1.bias"]
    for damaged in (state, {**state, "module.backbone.ma_encoder.gru.weight": torch.zeros(1)}):
        torch.save({"state_dict": damaged}, path)
        assert main(command) == 2
    said = capsys.readouterr().err
    assert "encoder.time.0.norm1.bias is absent in the file" in said and "backbone.ma_encoder.gru.weight" in said
    torch.save({"encoder_q.weight_ih_l0": torch.zeros(2, 3)}, path)
    assert main(command) == 2 and "backbone.j_emb.t_embedding.0.weight' is not there" in capsys.readouterr().err
