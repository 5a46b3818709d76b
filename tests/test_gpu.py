"""Tests that need a GPU: results of its kernels, waiting for it, and whole runs on it. Skipped without one."""

import os
import signal
import subprocess
import sys
import warnings
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from small import COMPARING, KINDS, METHODS, silent_session, tiny_run, write_small_store

from skelbench.core.errors import Interrupted
from skelbench.evaluation.features import PreparedClips
from skelbench.evaluation.preprocessing import Preprocessing
from skelbench.models.vit import ViT, ViTConfig
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.pipeline.session import prepare
from skelbench.plugin.host import get_host
from skelbench.records.store import ResultStore
from skelbench.testing.clips import clip_batch
from skelbench.testing.protocol import ProtocolSubject, made_features
from skelbench.training import loop
from skelbench.training.compiled import compile_parts
from skelbench.views.builder import ViewBuilder, evaluation_spec
from skelbench.views.degradations import MissingJoints, degraded
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import NTU25

DEVICE = "cuda"
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")]

RECURRENT = ("cmd", "isc", "moco", "halp", "pcm3", "pclust", "longt-gan")
"""A published setting with a GRU, for which cuDNN has separate kernels."""
GRAPHS = ("skeletonclr", "aimclr", "crosclr", "hico", "pstl", "usdrl", "umurl", "scd-net", "gl-transformer")
"""Natively with another encoder than the ViT."""
NOISE = {"usdrl": "drop_path"} | dict.fromkeys(
    ("skeletonclr", "aimclr", "crosclr", "hico", "pstl", "scd-net"), "dropout"
)
"""Dropout inside layers of encoders; a GPU draws it differently, so it is skipped."""


@pytest.fixture(scope="module", autouse=True)
def as_in_a_session():
    """float32 and attention as a session has them; what it changes is put back."""
    tf32, attention, env = torch.backends.cudnn.allow_tf32, torch.backends.cuda.cudnn_sdp_enabled(), dict(os.environ)
    prepare(DEVICE)
    yield
    torch.backends.cudnn.allow_tf32 = tf32
    torch.backends.cuda.enable_cudnn_sdp(attention)
    os.environ.clear()
    os.environ.update(env)


def losses(training, steps=3):
    return [float(training.train_step(step, training.views(step))["loss"]) for step in range(steps)]


@pytest.mark.parametrize("name", [*RECURRENT, *GRAPHS])
def test_a_step_of_the_published_encoder_agrees_with_the_cpu(name, trainer):
    # A loss of 1e-5 is a difference of numbers near 10.
    fp32 = {"native": True, "train.precision": "fp32"} | ({f"encoder.{NOISE[name]}": 0.0} if name in NOISE else {})
    assert losses(trainer(name, device=DEVICE, **fp32)) == pytest.approx(
        losses(trainer(name, **fp32)), rel=2e-3, abs=1e-5
    )


@pytest.mark.parametrize("name", METHODS)
def test_bf16_is_near_float32(name, trainer):
    """In the second step. What compares clips with few others multiplies rounding, through batch norm over four and,
    in CPM (28 % on a CPU), sharp distributions over eight keys."""
    exact, rounded = (trainer(name, device=DEVICE, **{"train.precision": how}) for how in ("fp32", "bf16"))
    losses(exact, 1)
    rounded.method.load_state_dict(exact.method.state_dict())
    loss, other = (float(each.train_step(1, each.views(1))["loss"]) for each in (exact, rounded))
    assert other == pytest.approx(loss, rel={"cpm": 0.5}.get(name, 0.15 if name in COMPARING else 0.05), abs=0.01)


@pytest.mark.parametrize(("name", "mode"), [("slim", "auto"), ("slim", "blocks"), ("mamp", "blocks")])
def test_compiled_steps_equal_plain_steps(name, mode, trainer):
    how = {"device": DEVICE, "train.precision": "bf16"}
    plain, compiled = trainer(name, **how), trainer(name, **how)
    expected = losses(plain)
    done, said = compile_parts(compiled.method, torch.device(DEVICE), mode)
    try:
        assert done, said
        assert losses(compiled) == pytest.approx(expected, rel=3e-2)
    finally:
        compile_parts(compiled.method, torch.device(DEVICE), "off")


@pytest.mark.parametrize("name", METHODS)
def test_no_step_waits_for_the_gpu(name, trainer):
    """Views, forward, backward, optimizer and EMA of steps between those that are logged."""
    training = trainer(name, device=DEVICE)
    losses(training, 4)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            for step in range(4, 6):
                training.train_step(step, training.views(step))
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert not {f"{w.filename}:{w.lineno}" for w in caught if "synchroniz" in str(w.message)}


def stop_and_continue(folder: Path) -> None:
    """A run of each kind, stopped after three steps and continued, against one that was not; in a process of its own,
    since what makes cuBLAS deterministic is read when it is first used."""
    (folder / "data").mkdir()
    write_small_store(folder / "data")
    prepare(DEVICE)
    train_step, steps = loop.Trainer.train_step, []

    def step(self, index, views):
        steps.append(index)
        if len(steps) == 3:
            os.kill(os.getpid(), signal.SIGTERM)
        return train_step(self, index, views)

    loop.Trainer.train_step = step
    host = get_host()
    here, there = (replace(silent_session(folder / "data", host, folder / x), device=DEVICE) for x in "ab")
    for name in KINDS:
        made = tiny_run(folder / "data", host, name, epochs=2)
        steps.clear()
        with suppress(Interrupted):
            pretrain(here, made)
        stopped = pretrain(here, made)
        assert steps == [*range(stopped.info["steps"])], f"{name}: {steps}"
        first, second = (
            torch.load(run.checkpoint, weights_only=True)["method"] for run in (stopped, pretrain(there, made))
        )
        assert all(torch.equal(first[key], second[key]) for key in first), name


def test_a_deterministic_run_resumes_to_the_same_bits(tmp_path):
    script = f"import test_gpu, pathlib; test_gpu.stop_and_continue(pathlib.Path({str(tmp_path)!r}))"
    assert_succeeds([sys.executable, "-c", script], SKELBENCH_DETERMINISTIC="1")


def test_memory_is_taken_in_segments():
    script = (
        "from skelbench.pipeline.session import prepare; import torch; prepare('cuda'); "
        "x = torch.ones(9, device='cuda'); "
        "assert all(each['is_expandable'] for each in torch.cuda.memory_snapshot())"
    )
    assert_succeeds([sys.executable, "-c", script])


def assert_succeeds(command, **env):
    inherited = {name: value for name, value in os.environ.items() if "ALLOC_CONF" not in name}
    paths = os.pathsep.join(str(Path(__file__).parents[up]) for up in (0, 1))
    env = {**inherited, "PYTHONPATH": paths, **env}
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("name", get_host().names("protocols"))
def test_a_protocol_gives_the_results_of_a_cpu(name, host):
    subject = ProtocolSubject(host, host.get("protocols", name), {})
    if subject.on_encoder:
        pytest.skip("it reads clips: see the whole run")
    cpu, gpu = (subject.run(made_features(0.015), device=device) for device in ("cpu", DEVICE))
    same = (cpu.predictions["predicted"] == gpu.predictions["predicted"]).mean()
    assert cpu.metrics["accuracy"] < 1 and same > 0.97, (same, cpu.metrics, gpu.metrics)


def test_a_run_trained_on_a_gpu_is_evaluated_as_on_a_cpu(resolved, session):
    """Its features and probes are others on the CPU."""
    made, there = resolved("slim", epochs=3), replace(session, device=DEVICE)
    run = pretrain(there, made)
    assert run.info["environment"]["device"] != "cpu" and run.spec.id == made.spec.id
    few = {"epochs": 2, "min_steps": 0, "batch_size": 6, "val_share": 0.0}
    for protocol, config in (("knn", {}), ("linear", {"min_steps": 40}), ("finetune", few), ("robustness", {})):
        spec = eval_spec(session.host, run, protocol, config=config)
        gpu = evaluate(there, run, spec)["metrics"]["accuracy"]
        cpu = evaluate(replace(session, features={}), run, spec, force=True)["metrics"]["accuracy"]
        assert gpu == pytest.approx(cpu, abs=0.26 if protocol == "finetune" else 0.09), protocol


@pytest.mark.parametrize("hiding", ["replace-tokens", "drop-tokens", "drop-lines"])
def test_hidden_tokens_have_the_effect_of_a_cpu(hiding):
    grid = Grid(frames=16, patch=4, joints=25)
    torch.manual_seed(0)
    encoder = ViT(ViTConfig(dim=16, depth=2, heads=2), NTU25, grid).eval()
    encoder.prepare(frozenset({"replace-tokens" if hiding == "replace-tokens" else "drop-tokens"}))
    batch = degraded(clip_batch(NTU25, [20, 9, 31]), [MissingJoints(share=0.2)], NTU25, 3, 0)
    found = []
    for device in ("cpu", DEVICE):
        there = replace(batch, frames_FJ=batch.frames_FJ.to(device))
        source = SimpleNamespace(gather=lambda ids, there=there: there)
        views = ViewBuilder({"eval": evaluation_spec(grid)}, NTU25, grid.patch, device=device)
        clips = PreparedClips(None, Preprocessing(), grid, torch.device(device), hiding=hiding)
        found.append(torch.from_numpy(clips.features(encoder.to(device), range(3), views, source)))
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_a_single_torchrun_process_works(data_root, tmp_path):
    """One process of torchrun is no group: of NCCL it shows nothing."""
    words = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "1", "-m", "skelbench"]
    tiny = ["run", "slim", "--dataset", "small", "--preset", "quick", "--budget", "steps=6", "--probe", "knn"]
    places = {"SKELBENCH_DATA": str(data_root), "SKELBENCH_RESULTS": str(tmp_path / "results")}
    assert_succeeds([sys.executable, *words, *tiny], **places)
    (run,) = (run for run in ResultStore(tmp_path / "results").runs() if run.spec.method == "slim")
    assert run.outcome == "done" and run.info["environment"]["device"] == DEVICE
