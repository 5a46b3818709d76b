"""A public checkpoint becomes a run; anything that is none is one sentence."""

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
    """What the public command records beside the weights."""
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
    """run.json says what was read; runs, eval, compare and cost work on it; the defaults are the native setting's."""
    path = checkpoint(small / "checkpoint-399.pth", tiny())
    assert main(command("mamp", path)) == 0
    shown = capsys.readouterr().out
    for said in ("encoder and decoder", "checkpoint-399.pth", "399", "method.tau=0.75", "skelbench eval"):
        assert said in shown
    folder, info = only_run(small)
    assert (info["outcome"], info["preset"], info["setting"], info["steps"]) == ("done", "imported", "native", 0)
    assert info["modified"] == {} and "-imported-native-" in folder.name
    assert info["imported"]["file"] == "checkpoint-399.pth" and info["imported"]["epoch"] == 399
    assert info["imported"]["sha256"] == info["spec"]["imported"]
    spec = info["spec"]
    assert spec["grid"] == {"frames": 16, "patch": 8}
    assert (spec["method_config"]["tau"], spec["method_config"]["decoder_heads"]) == (0.75, 2)
    assert (spec["encoder_config"]["dim"], spec["encoder_config"]["norm_eps"]) == (16, 1e-5)
    assert (spec["train"]["bodies"], spec["train"]["epochs"], spec["train"]["precision"]) == ("all-slots", 0, "fp32")

    written = (folder / "encoder.safetensors").stat().st_mtime_ns
    assert main(command("mamp", path)) == 0  # again: nothing is done
    assert (folder / "encoder.safetensors").stat().st_mtime_ns == written

    assert main(["eval", "mamp", "--protocol", "linear@slim,knn"]) == 0
    record, _ = (json.loads(file.read_text()) for file in folder.glob("eval-*.json"))
    evaluated = record["spec"]
    assert (evaluated["bodies"], evaluated["bodies_pool"]) == ("all-slots", "all-mean")
    assert (evaluated["resize"], record["standard"]) == ("half-pixel", True)
    capsys.readouterr()
    assert main(["runs", "list"]) == 0
    assert "imported" in capsys.readouterr().out
    assert main(["runs", "show", "mamp", "--json"]) == 0
    assert '"epoch": 399' in capsys.readouterr().out
    assert main(["compare", "--format", "csv"]) == 0
    assert "mamp" in capsys.readouterr().out


@pytest.mark.parametrize("method", ["mamp", "skeletonmae"])
def test_our_own_weights_survive_the_round_trip(method, small, resolved, session, capsys):
    """Trained here, written in the public layout, imported: bit for bit the same encoder and decoder."""
    from safetensors.torch import load_file

    from skelbench.training.checkpoint import load_state

    run = pretrain(session, resolved(method, native=True, epochs=1))
    weights = load_state(run.checkpoint, run.spec.id)["method"]
    said = {"mamp": "model_mamp", "skeletonmae": "model_mae"}[method]
    path = checkpoint(small / "file.pth", public_layout(weights), options(said))
    assert main(command(method, path)) == 0
    folder, info = only_run(small, method)
    assert info["spec"]["encoder_config"] == run.spec.encoder_config
    ours, theirs = load_file(run.encoder()), load_file(folder / "encoder.safetensors")
    assert ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)
    again = load_state(folder / "last.pt", info["id"])["method"]
    assert again.keys() == weights.keys() and all(torch.equal(weights[name], again[name]) for name in weights)


def test_bare_state_dicts_and_data_parallel_names(small, capsys):
    torch.save({f"module.{name}": x for name, x in tiny().items()}, small / "bare.pth")
    assert main(command("skeletonmae", small / "bare.pth", "--set", "encoder.heads=2")) == 0
    assert "assumed    method.decoder_heads=8 (the file does not say)" in capsys.readouterr().out
    _, info = only_run(small, "skeletonmae")
    assert info["imported"]["epoch"] is None and info["spec"]["encoder_config"]["heads"] == 2
    assert info["imported"]["settings"].keys().isdisjoint({"encoder.heads", "method.decoder_heads"})


def test_heads_that_the_file_lacks_complete_the_preset(small, capsys):
    """They are no modification: ``compare`` shows the row. Heads that it has stay what they are."""
    torch.save(tiny(), small / "bare.pth")
    sets = ["--set", "encoder.heads=2", "--set", "decoder_heads=4", "--probe", "linear@slim"]
    assert main(command("mamp", small / "bare.pth", *sets)) == 0
    assert "assumed" not in capsys.readouterr().out
    _, info = only_run(small)
    assert info["modified"] == {} and info["spec"]["method_config"]["decoder_heads"] == 4
    assert main(["compare", "--format", "csv"]) == 0
    assert "mamp" in capsys.readouterr().out


@pytest.mark.parametrize(("method", "name"), [("mamp", "input_mean"), ("skeletonmae", "self_shift")])
def test_a_downstream_file_of_macdiff_is_not_taken_for_a_masked_autoencoder(small, method, name, fails):
    """Its encoder has the same tensors; its input's standardisation would be lost."""
    args = argparse.Namespace(model="model.transformer.Transformer", model_args={"num_heads": 2, name: [0, 0, 0]})
    path = checkpoint(small / "file.pth", tiny(0), args)
    fails(command(method, path), f"its own record has {name}, a setting of MacDiff")
    assert not list((small / "results").glob("*"))


def quantised():
    """Of a kind that torch is about to drop; checkpoints of it will stay."""
    return torch.quantize_per_tensor(torch.ones(16), 0.1, 0, torch.qint8)


@pytest.mark.filterwarnings("ignore:torch.quantize:UserWarning")
@pytest.mark.parametrize("make", [torch.Tensor.to_sparse, torch.Tensor.long], ids=["sparse", "integer"])
def test_a_tensor_of_another_kind_is_one_sentence(small, make, fails):
    path = checkpoint(small / "file.pth", tiny() | {"blocks.0.norm1.bias": make(torch.ones(16))})
    fails(command("mamp", path), "holds 'blocks.0.norm1.bias', which is no dense tensor of float16")


def test_a_downstream_checkpoint_gives_the_encoder_alone_and_says_so(small, capsys):
    state = tiny(0) | {"head.fc.0.num_batches_tracked": torch.tensor(7), "head.fc.1.weight": torch.ones(60, 16)}
    path = checkpoint(small / "linprobe.pth", state, options("model"))
    assert main(command("mamp", path)) == 0
    shown = capsys.readouterr().out
    assert "encoder alone: the file has no more" in shown and "head.fc.1.weight" in shown
    folder, info = only_run(small)
    assert info["imported"]["left_out"] == ["head.fc.0.num_batches_tracked", "head.fc.1.weight"]
    assert main(["eval", "mamp", "--protocol", "knn"]) == 0


def test_a_run_can_start_from_imported_weights(small, capsys):
    path = checkpoint(small / "file.pth", tiny())
    assert main(command("mamp", path)) == 0
    name = only_run(small)[0].name
    sets = {"encoder.dim": 16, "encoder.depth": 1, "encoder.heads": 2, "method.decoder_dim": 16}
    sets |= {"method.decoder_depth": 1, "method.decoder_heads": 2, "train.lr": 1e-30, "schedule.min_lr": 0.0}
    sets |= {"train.weight_decay": 0.0}
    shape = ["--clip-length", "16", "--patch", "8", "--epochs", "1", "--batch-size", "4", "--probe", "none", "--native"]
    arguments = ["run", "mamp", "--dataset", "small", "--preset", "paper", *shape, "--init-from", name]
    assert main([*arguments, *(part for key, value in sets.items() for part in ("--set", f"{key}={value}"))]) == 0
    from safetensors.torch import load_file

    first, second = (load_file(file) for file in sorted((small / "results").glob("mamp-*/encoder.safetensors")))
    for key in first:
        torch.testing.assert_close(first[key], second[key], rtol=0, atol=1e-20)


def harmful(path):
    class Harm:
        def __reduce__(self):
            return os.system, (f"touch {path.parent / 'harmed'}",)

    return Harm()


def written(content):
    return lambda path: torch.save(content, path)


def recorded(tensors, args=None):
    return lambda path: checkpoint(path, tensors, args)


def cut(path):
    checkpoint(path, tiny())
    path.write_bytes(path.read_bytes()[:-300])


def without(start):
    return {name: x for name, x in tiny().items() if not name.startswith(start)}


PROJECTION, OTHER_DECODER = "joints_embed.proj.weight", {"decoder_embed.proj.weight": torch.ones(16, 3, 8, 1)}


@pytest.mark.parametrize(
    ("write", "said"),
    [
        (lambda path: torch.save({"model": tiny() | {"norm.bias": harmful(path)}}, path), "can run code"),
        (cut, "no PyTorch checkpoint, or a damaged one"),
        (written([1, 2, 3]), "holds no state dict"),
        (
            recorded(tiny() | {"blocks.0.norm1.bias": torch.ones(16).index_fill(0, torch.tensor(3), torch.nan)}),
            "not finite in 1 of its 39 tensors, first 'blocks.0.norm1.bias'",
        ),
        (recorded({"backbone.conv1.weight": torch.ones(3, 3)}), "its tensor 'joints_embed.proj.weight' is not there"),
        (
            recorded(tiny() | {"prototypes.weight": torch.ones(3, 3)}),
            "1 of its 40 tensors belong to another model, first 'prototypes.weight'",
        ),
        (
            recorded(without("blocks.0.mlp.fc2.bias")),
            "encoder.blocks.0.mlp.fc2.bias is absent in the file and 16 in the model (1 of 39",
        ),
        (recorded(tiny(joints=17)), "joint_embed is 17 x 16 in the file and 25 x 16 in the model (2 of 39"),
        (recorded(tiny() | {PROJECTION: torch.ones(16, 3, 8, 5)}), "is 16 x 3 x 8 x 5"),
    ],
)
def test_a_bad_file_is_one_sentence_and_writes_nothing(small, write, said, fails):
    path = small / "file.pth"
    write(path)
    fails(command("mamp", path), said)
    assert not (small / "harmed").exists()
    assert not list((small / "results").glob("*"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["mamp", "nowhere.pth"], "checkpoint nowhere.pth cannot be read"),
        (["mapm", "nowhere.pth"], "did you mean 'mamp'?"),
        (["slim", "nowhere.pth"], "slim reads no public checkpoints; methods that do: "),
    ],
)
def test_bad_arguments_are_one_sentence(small, arguments, said, fails):
    fails(["import-checkpoint", *arguments], said)


def test_settings_that_contradict_the_file_are_refused(small, fails):
    path = checkpoint(small / "file.pth", tiny())
    fails(command("mamp", path, "--set", "encoder.depth=2"), "is absent in the file")
    fails(command("mamp", path, "--set", "encoder.hedas=2"), "did you mean 'encoder.heads'?")
    fails(command("mamp", path, "--split", "halv"), "did you mean 'half'?")
    assert not list((small / "results").glob("*"))
