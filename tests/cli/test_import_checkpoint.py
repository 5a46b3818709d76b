"""Public checkpoints become runs; any other file gives an error message."""

import argparse
import json
import os

import pytest
import torch
from official import public_layout, state

from skelbench.cli.main import main
from skelbench.pipeline.pretrain import pretrain

pytestmark = pytest.mark.usefixtures("shipped_plugins")


@pytest.fixture
def small(data_root):
    return data_root.parent


def options(model="model_mamp", heads=2, **changes):
    """Options that the public command records next to the weights."""
    recorded = {"mask_ratio": 0.9, "motion_aware_tau": 0.75, "motion_stride": 1, "lr": 1e-3, "gpu": 0, "log_dir": None}
    arguments = {"num_heads": heads, "qk_scale": "None", "norm_skes_loss": True}
    return argparse.Namespace(model=f"{model}.transformer.Transformer", model_args=arguments, **recorded | changes)


def checkpoint(path, state, args=None, **more):
    content = {"model": state, "optimizer": {"state": {}, "param_groups": [{"betas": (0.9, 0.95)}]}, "epoch": 399}
    torch.save(content | {"scaler": {"scale": 65536.0}, "args": args or options()} | more, path)
    return path


def tiny(decoder_depth=1, **changes):
    return state(16, 1, decoder_depth, 16, 8, **changes)


def command(method, path, *more):
    return ["import-checkpoint", method, str(path), "--dataset", "small", *more]


def only_run(folder, method="mamp"):
    (path,) = (folder / "results").glob(f"{method}-*imported*/run.json")
    return path.parent, json.loads(path.read_text())


def test_an_imported_run_is_a_run(small, capsys):
    """run.json records the file; eval and compare work on the run; the defaults are of the native setting."""
    path = checkpoint(small / "checkpoint-399.pth", tiny())
    assert main(command("mamp", path)) == 0
    shown = capsys.readouterr().out
    for said in ("encoder and decoder", "checkpoint-399.pth", "method.tau=0.75", "skelbench eval"):
        assert said in shown
    folder, info = only_run(small)
    assert (info["outcome"], info["preset"], info["setting"], info["steps"]) == ("done", "imported", "native", 0)
    assert info["modified"] == {} and info["imported"]["epoch"] == 399
    assert info["imported"]["sha256"] == info["spec"]["imported"]
    spec = info["spec"]
    assert (spec["method_config"]["tau"], spec["method_config"]["decoder_heads"]) == (0.75, 2)
    assert (spec["encoder_config"]["dim"], spec["encoder_config"]["norm_eps"]) == (16, 1e-5)
    assert (spec["train"]["bodies"], spec["train"]["epochs"], spec["train"]["precision"]) == ("all-slots", 0, "fp32")

    written = (folder / "encoder.safetensors").stat().st_mtime_ns
    assert main(command("mamp", path)) == 0  # again: nothing is done
    assert (folder / "encoder.safetensors").stat().st_mtime_ns == written

    assert main(["eval", "mamp", "--protocol", "linear@slim"]) == 0
    (record,) = (json.loads(file.read_text()) for file in folder.glob("eval-*.json"))
    evaluated = record["spec"]
    assert (evaluated["bodies"], evaluated["bodies_pool"]) == ("all-slots", "all-mean")
    assert (evaluated["resize"], record["standard"]) == ("half-pixel", True)
    capsys.readouterr()
    assert main(["compare", "--format", "csv"]) == 0 and "mamp" in capsys.readouterr().out


MODELS = {"mamp": "model_mamp", "skeletonmae": "model_mae"}


@pytest.mark.parametrize("method", MODELS)
def test_our_own_weights_survive_the_round_trip(method, small, resolved, session):
    """Trained here, written in the public layout, imported: bit for bit the same encoder and decoder."""
    from skelbench.training.checkpoint import load_state

    run = pretrain(session, resolved(method, native=True, epochs=1))
    weights = load_state(run.checkpoint, run.spec.id)["method"]
    path = checkpoint(small / "file.pth", public_layout(weights), options(MODELS[method]))
    assert main(command(method, path)) == 0
    folder, info = only_run(small, method)
    assert info["spec"]["encoder_config"] == run.spec.encoder_config
    again = load_state(folder / "last.pt", info["id"])["method"]
    assert again.keys() == weights.keys() and all(torch.equal(weights[name], again[name]) for name in weights)


def test_bare_state_dicts_and_data_parallel_names(small, capsys):
    torch.save({f"module.{name}": x for name, x in tiny().items()}, small / "bare.pth")
    assert main(command("skeletonmae", small / "bare.pth", "--set", "encoder.heads=2")) == 0
    assert "assumed    method.decoder_heads=8 (the file does not say)" in capsys.readouterr().out
    _, info = only_run(small, "skeletonmae")
    assert info["imported"]["epoch"] is None and info["spec"]["encoder_config"]["heads"] == 2
    assert info["imported"]["settings"].keys().isdisjoint({"encoder.heads", "method.decoder_heads"})


@pytest.mark.parametrize(("method", "name"), [("mamp", "input_mean"), ("skeletonmae", "self_shift")])
def test_a_downstream_file_of_macdiff_is_no_masked_autoencoder(small, method, name, fails):
    """Its encoder has the same tensors; its input's standardization would be lost."""
    args = argparse.Namespace(model="model.transformer.Transformer", model_args={"num_heads": 2, name: [0, 0, 0]})
    path = checkpoint(small / "file.pth", tiny(0), args)
    fails(command(method, path), f"its own record has {name}, a setting of MacDiff")
    assert not list((small / "results").glob("*"))


def test_a_downstream_checkpoint_gives_only_the_encoder(small, capsys):
    state = tiny(0) | {"head.fc.0.num_batches_tracked": torch.tensor(7), "head.fc.1.weight": torch.ones(60, 16)}
    path = checkpoint(small / "linprobe.pth", state, options("model"))
    assert main(command("mamp", path)) == 0
    assert "encoder alone" in capsys.readouterr().out
    _, info = only_run(small)
    assert info["imported"]["left_out"] == ["head.fc.0.num_batches_tracked", "head.fc.1.weight"]


def harmful(path):
    class Harm:
        def __reduce__(self):
            return os.system, (f"touch {path.parent / 'harmed'}",)

    return Harm()


def recorded(tensors):
    return lambda path: checkpoint(path, tensors)


def cut(path):
    checkpoint(path, tiny())
    path.write_bytes(path.read_bytes()[:-300])


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda path: torch.save({"model": tiny() | {"norm.bias": harmful(path)}}, path), "can run code"),
        (cut, "not a PyTorch checkpoint"),
        (
            recorded(tiny() | {"blocks.0.norm1.bias": torch.ones(16).index_fill(0, torch.tensor(3), torch.nan)}),
            "not dense or not finite, first 'blocks.0.norm1.bias'",
        ),
        (recorded({"backbone.conv1.weight": torch.ones(3, 3)}), "its tensor 'joints_embed.proj.weight' is not there"),
        (recorded(tiny() | {"prototypes.weight": torch.ones(3, 3)}), "belong to another model"),
        (recorded(tiny(joints=17)), "joint_embed is 17 x 16 in the file and 25 x 16 in the model (2 of 39"),
    ],
)
def test_a_bad_file_is_one_error_and_writes_nothing(small, write, said, fails):
    path = small / "file.pth"
    write(path)
    fails(command("mamp", path), said)
    assert not (small / "harmed").exists()
    assert not list((small / "results").glob("*"))


@pytest.mark.parametrize(
    ("method", "more", "said"),
    [
        ("dino", [], "dino reads no public checkpoints; methods that do: "),
        ("mamp", ["--set", "encoder.depth=2"], "is absent in the file"),
        ("mamp", ["--set", "encoder.hedas=2"], "did you mean 'encoder.heads'?"),
    ],
)
def test_a_method_or_setting_that_contradicts_the_file_is_one_error(small, method, more, said, fails):
    fails(command(method, checkpoint(small / "file.pth", tiny()), *more), said)
    assert not list((small / "results").glob("*"))
