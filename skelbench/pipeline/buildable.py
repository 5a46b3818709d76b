"""Whether a resolved run can be made: its views, its modules, its batch and its queues."""

from __future__ import annotations

from pydantic import ValidationError

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import RunSpec
from skelbench.data.store.alignment import Alignment
from skelbench.data.store.clip_store import ClipStore
from skelbench.methods.contract import Method
from skelbench.models.contrast import KeyQueue
from skelbench.plugin.descriptors import MethodSpec
from skelbench.plugin.host import Host
from skelbench.plugin.plugin_errors import Mistake, where, wrong
from skelbench.training.build import build_method, view_specs
from skelbench.training.loop import total_steps
from skelbench.views.builder import ViewBuilder


def check_buildable(spec: RunSpec, descriptor: MethodSpec, store: ClipStore, host: Host) -> None:
    """SkelbenchError for views and modules that cannot be built, before a run directory exists."""
    topology = store.topology
    if spec.train.align != "none":
        Alignment(store, spec.train.align)
    if spec.views:
        try:
            ViewBuilder(view_specs(spec), topology, spec.grid.patch, bodies=spec.train.bodies)
        except SkelbenchError as error:
            raise SkelbenchError(f"{error} ({where(host.load(descriptor).views)})") from error
    try:
        method = build_method(spec, host, topology, "meta")
    except Mistake as error:
        cause = error.__cause__
        if not isinstance(cause, ValidationError) or cause.errors()[0]["loc"]:
            raise
        reason = cause.errors()[0]["msg"].removeprefix("Value error, ")  # settings that contradict each other
        raise SkelbenchError(f"method {spec.method} cannot be built with these settings: {reason}") from error
    for name, view in view_specs(spec).items() if "tokens" in method.encoder.abilities else ():
        if view.frames % spec.grid.patch:
            raise wrong(
                host.load(descriptor).views,
                f"view {name!r} of {view.frames} frames cannot be cut into patches of {spec.grid.patch} frames; choose "
                "a length that is a multiple of the patch",
            )
    if descriptor.trains and not spec.imported and spec.train.batch_size < method.min_clips:
        raise SkelbenchError(
            f"method {spec.method} compares the clips of a batch: train.batch_size={spec.train.batch_size} is too "
            f"small, use at least {method.min_clips}"
        )
    if descriptor.trains and not spec.imported:
        _check_length(spec, store)
    _check_queues(spec, method, store)
    weights = any(True for _ in method.encoder.parameters())
    if descriptor.trains and not weights:
        raise SkelbenchError(f"encoder {spec.encoder} has no weights to train; choose another --encoder")
    if weights and not descriptor.weights:
        raise SkelbenchError(f"method {spec.method} is a control without a network; leave out --encoder {spec.encoder}")


def _check_length(spec: RunSpec, store: ClipStore) -> None:
    """SkelbenchError for a schedule without steps."""
    clips, train = len(store.split(spec.data.split, spec.data.min_frames).train), spec.train
    if not total_steps(spec, clips):
        raise SkelbenchError(
            f"train.epochs={train.epochs:g} of {clips:,} clips comes to no step of {train.batch_size} clips and trains "
            "nothing; give more, or `skelbench run untrained` for the encoder as initialised"
        )


def _check_queues(spec: RunSpec, method: Method, store: ClipStore) -> None:
    """SkelbenchError for a queue that the run cannot fill as often as the method needs."""
    sizes = [part.size for part in method.modules() if isinstance(part, KeyQueue)]
    if not sizes or spec.imported:
        return
    split = store.split(spec.data.split, spec.data.min_frames)
    clips = spec.train.batch_size * total_steps(spec, len(split.train))
    if max(sizes) * method.queue_fills > clips:
        often = "never fill" if method.queue_fills == 1 else f"do not fill {method.queue_fills} times"
        raise SkelbenchError(
            f"method {spec.method} has a queue of {max(sizes):,} keys, which the {clips:,} clips that this run sees "
            f"{often}; make it smaller or train for longer"
        )
