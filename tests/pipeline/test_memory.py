"""A run is made to fit into the memory there is, or refused in one sentence; so is one that runs out of it."""

from types import SimpleNamespace

import pytest
import torch
import torch.distributed as dist

from skelbench.core import distributed
from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.cost import peak
from skelbench.evaluation.cost.peak import step_peak
from skelbench.evaluation.cost.report import step_cost
from skelbench.models import prototype_loss
from skelbench.pipeline import estimate, memory
from skelbench.pipeline.evaluate import eval_spec, evaluate
from skelbench.pipeline.pretrain import pretrain
from skelbench.training import loop


@pytest.fixture
def card(monkeypatch):
    """``card(bytes)``: as much is free, as if this were a GPU."""

    def set_free(size):
        monkeypatch.setattr(memory, "free_bytes", lambda device: float(size))

    return set_free


@pytest.mark.parametrize(
    ("name", "again", "settings"),
    [("slim", False, {"local_counts": (0, 0, 1)}), ("macdiff", True, {"encoder.depth": 2})],
)
def test_a_step_takes_the_same_with_values_and_without(name, again, settings, trainer, monkeypatch):
    """Of many tiles of the prototype loss too, of which few are followed."""
    monkeypatch.setattr(prototype_loss, "TILE", 2**10)
    training = trainer(name, batch_size=6, **settings)
    views, info = training.batch(0), training.step_info(0)
    peaks = [step_peak(training.method, views, info, "fp32", again, shapes_alone) for shapes_alone in (False, True)]
    assert peaks[0] == peaks[1] > 0


@pytest.mark.parametrize(
    ("gpu", "again", "together"), [(True, False, True), (True, True, False), (False, False, False)]
)
def test_memory_is_that_of_the_order_in_which_a_gpu_takes_views(gpu, again, together, trainer, monkeypatch):
    """All views of a step at once, but where blocks are computed again to save memory."""
    training, given = trainer("dino", batch_size=6), []
    forward = type(training.method.encoder).forward

    def seen(self, view, **options):
        given.append(isinstance(view, list))
        return forward(self, view, **options)

    monkeypatch.setattr(type(training.method.encoder), "forward", seen)
    step_peak(training.method, training.batch(0), training.step_info(0), "fp32", again, False, gpu)
    assert any(given) == together and not training.method.encoder.recomputed


def test_tiles_that_are_followed_are_the_first_and_the_last():
    assert peak._few_tiles(3, 2) == [slice(0, 2), slice(2, 3)]
    assert peak._few_tiles(13, 2) == [slice(0, 2), slice(2, 4), slice(12, 13)]


def test_other_ways_are_told_of_what_takes_much(resolved, host, monkeypatch):
    made = resolved("skeletonmae", batch_size=8)
    monkeypatch.setattr(estimate, "table", lambda *_: {"fp32": {}})
    told = {}
    for much in (1, 2**40):
        monkeypatch.setattr(estimate, "MUCH", much)
        told[much] = estimate.estimate(made.spec, host, made.store, "cpu", 1e9, ways=True)
    assert [each.memory for each in told.values()] == [{"fp32": {}}, {}]
    assert len({each.memory_bytes for each in told.values()}) == 1


def test_few_clips_tell_of_many(trainer):
    training = trainer("cmd", batch_size=12)
    views = training.batch(0)
    view = next(iter(views.values()))
    real = step_peak(training.method, views, training.step_info(0), "fp32", False, shapes_alone=False)
    told = memory.step_line(training, "fp32", False, flops_per_clip=0.0)
    assert told.at(view.rows / view.count / training.bodies_per_clip) == pytest.approx(real, rel=0.05)


@pytest.mark.parametrize("name", ["pstl", "cpm", "skeletonclr", "slim"])
def test_a_step_that_is_counted_asks_no_other_process(name, trainer, host, monkeypatch):
    """Of two that exchange what is on GPUs alone, where PyTorch's synchronised batch norm is: the copy is on a CPU."""
    training = trainer(name, batch_size=6)
    torch.nn.SyncBatchNorm.convert_sync_batchnorm(training.method)
    views, info = training.batch(0), training.step_info(0)
    alone = step_peak(training.method, views, info, "fp32", False, shapes_alone=False)

    def asked(*_, **__):
        raise RuntimeError("No backend type associated with device type cpu")

    for name in ("all_reduce", "all_gather", "all_gather_object", "broadcast_object_list"):
        monkeypatch.setattr(dist, name, asked)
    for name, said in (("is_initialized", True), ("get_world_size", 2), ("get_rank", 1)):
        monkeypatch.setattr(dist, name, lambda said=said: said)
    assert distributed.world() == 2
    assert step_peak(training.method, views, info, "fp32", False, shapes_alone=False) == alone
    assert step_cost(training.spec, host, training.source.store.topology)["flops_per_clip"] > 0


def test_blocks_computed_again_take_less(trainer):
    training = trainer("skeletonmae", **{"batch_size": 12, "encoder.depth": 4, "encoder.dim": 64})
    table = memory.table(training, 0.0)
    for ways in table.values():
        assert ways["recomputed"] < 0.8 * ways["kept"]
    assert table["bf16"]["kept"] < 0.8 * table["fp32"]["kept"]


def test_a_card_decides_how_memory_is_saved(trainer, monkeypatch):
    """As it is, computed again, in ever more pieces, refused; a method of whole batches is refused sooner."""
    lines = {False: memory.Line(1e6, 1e6), True: memory.Line(1e6, 1e5)}
    monkeypatch.setattr(memory, "step_line", lambda trainer, precision, again, flops_per_clip: lines[again])
    monkeypatch.setattr(memory, "state_bytes", lambda trainer: 2e6)

    def chosen(training, needed):
        return memory.choose(training, needed / memory.ROOM + 1, 0.0)

    mamp, gfp = trainer("mamp", batch_size=12), trainer("gfp", batch_size=12)
    for needed, ways in ((15e6, (False, 1)), (4.2e6, (True, 1))):
        choice = chosen(mamp, needed)
        assert (choice.recompute, choice.accumulate) == ways
        assert bool(memory.told(choice)) == choice.recompute
    lines[True] = memory.Line(1e6, 1e6)
    least = chosen(mamp, 7e6)  # parameters' gradients, and three clips
    assert (least.recompute, least.accumulate) == (True, 4)
    assert memory.told(least).startswith(
        "to save memory blocks are computed again in the backward pass and a batch is taken in 4 pieces, so that"
    )
    with pytest.raises(SkelbenchError, match=r"^a step of 12 clips in fp32 takes about .* free; set a smaller preset$"):
        chosen(mamp, 0)
    with pytest.raises(SkelbenchError, match=r"set --batch-size 5 \(in pieces it cannot be taken: method gfp needs"):
        chosen(gfp, 8e6)


def test_what_was_chosen_is_recorded_and_kept(resolved, session, card, monkeypatch):
    made = resolved("mamp", epochs=2, batch_size=4)
    monkeypatch.setattr(
        memory, "choose", lambda trainer, free, flops: memory.Choice(True, 2, step_bytes=1e6, free_bytes=free)
    )
    card(2e6)
    step, seen = loop.Trainer.train_step, []

    def stop(self, index, views):
        seen.append((self.recomputes, len(views)))
        if index == 1:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 3.00 GiB.\nmore")
        return step(self, index, views)

    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", -1.0)
    monkeypatch.setattr(loop.Trainer, "train_step", stop)
    with pytest.raises(SkelbenchError) as told:
        pretrain(session, made)
    assert str(told.value) == (
        "out of memory on cpu with batches of 4 clips in fp32: OutOfMemoryError: CUDA out of memory. Tried to "
        "allocate 3.00 GiB. more; "
        "the last state is kept, so issue the same command again with --set train.accumulate=4, or choose a smaller "
        "--batch-size or preset, or --precision bf16"
    )
    run = session.results.by_id(made.spec.id)
    assert run.info["memory"] == {"recompute": True, "accumulate": 2, "step_bytes": 1e6, "free_bytes": 2e6}
    assert run.outcome == "failed" and run.info["reason"] == str(told.value) and run.checkpoint.exists()
    monkeypatch.setattr(loop.Trainer, "train_step", step)
    card(1e9)
    monkeypatch.setattr(memory, "choose", None)  # it goes on as it began
    assert pretrain(session, made).outcome == "done"
    kept = {"recompute": True, "accumulate": 2, "step_bytes": 1e6, "free_bytes": 2e6}
    assert run.info["memory"] == kept, "as often as it goes on"


def test_pieces_that_do_not_divide_the_clips_of_as_many_processes_are_chosen_anew(trainer, card, monkeypatch, tmp_path):
    card(1e9)
    one = trainer("mamp", batch_size=4)
    for pieces, anew in ((2, False), (4, False), (3, True)):
        run = SimpleNamespace(checkpoint=tmp_path, info={"memory": {"recompute": False, "accumulate": pieces}})
        monkeypatch.setattr(memory, "choose", lambda *_: memory.Choice(False, 1))
        chosen, _ = memory.settle_memory(one, run, lambda: 1.0)
        assert chosen.accumulate == (1 if anew else pieces)


def test_the_largest_step_of_all_phases_counts(trainer, monkeypatch):
    two = trainer("mamp", batch_size=4, epochs=10)
    monkeypatch.setattr(two, "phases", [("first", 0.0), ("never", 0.5), ("second", 0.5), ("last", 0.9)])
    assert [share for _, share in two.middles] == pytest.approx([0.5, 0.4, 0.1])
    assert [step / two.total for step, _ in two.middles] == pytest.approx([0.25, 0.7, 0.95], abs=1 / two.total)
    seen = []

    def peak_of(method, views, info, *how):
        seen.append(info.phase)
        return {"first": 100, "second": 300, "last": 200}[info.phase]

    monkeypatch.setattr(memory, "step_peak", peak_of)
    assert memory.step_line(two, "fp32", False, 1.0).at(4) == pytest.approx(300)
    assert {*seen} == {"first", "second", "last"}


def test_memory_that_runs_out_in_a_plugin_is_told_as_such(resolved, session, host, monkeypatch):
    """Also where it is a method's line that asked for it, and in a probe."""
    made = resolved("gfp", epochs=1)
    method = host.load(made.method)

    def full(self, views, step):
        raise torch.OutOfMemoryError("CUDA out of memory")

    with monkeypatch.context() as patch:
        patch.setattr(method, "training_step", full)
        with pytest.raises(SkelbenchError, match="^out of memory on cpu with batches of 4 .*; run again with"):
            pretrain(session, made)
    run = pretrain(session, made)
    spec = eval_spec(host, run, "knn")
    with monkeypatch.context() as patch:
        patch.setattr("skelbench.pipeline.evaluate._evaluate", lambda *_: full(*_[:3]))
        with pytest.raises(SkelbenchError, match="^out of memory on cpu probing .* by knn: .*; free memory of it"):
            evaluate(session, run, spec)
