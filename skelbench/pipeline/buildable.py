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
from skelbench.training.build import meta_method, view_specs
from skelbench.training.loop import total_steps
from skelbench.views.builder import ViewBuilder


def check_buildable(spec: RunSpec, descriptor: MethodSpec, store: ClipStore, host: Host) -> list[str]:
    """Return notes for the user; raise SkelbenchError for a run that cannot be built, before its directory exists."""
    topology, notes = store.topology, list[str]()
    if spec.train.align != "none":
        Alignment(store, spec.train.align)
    if spec.views:
        try:
            ViewBuilder(view_specs(spec), topology, spec.grid.patch, bodies=spec.train.bodies)
        except SkelbenchError as error:
            raise SkelbenchError(f"{error} ({where(host.load(descriptor).views)})") from error
    try:
        method = meta_method(spec, host, topology, fresh=True)
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
    if descriptor.trains and not spec.imported:
        notes += _check_length(spec, method, store)
    weights = any(True for _ in method.encoder.parameters())
    if descriptor.trains and not weights:
        raise SkelbenchError(f"encoder {spec.encoder} has no weights to train; choose another --encoder")
    if weights and not descriptor.weights:
        raise SkelbenchError(f"method {spec.method} is a control without a network; leave out --encoder {spec.encoder}")
    return notes


def _check_length(spec: RunSpec, method: Method, store: ClipStore) -> list[str]:
    """Return warnings; raise SkelbenchError for a batch that is too small, no steps, or a queue that is not filled."""
    train, clips = spec.train, len(store.split(spec.data.split, spec.data.min_frames).train)
    if train.batch_size < method.min_clips:
        raise SkelbenchError(
            f"method {spec.method} compares the clips of a batch: train.batch_size={train.batch_size} is too small, "
            f"use at least {method.min_clips}"
        )
    steps = total_steps(spec, clips)
    if not steps:
        raise SkelbenchError(
            f"train.epochs={train.epochs:g} of {clips:,} clips comes to no step of {train.batch_size} clips and trains "
            "nothing; give more, or `skelbench run untrained` for the encoder as initialized"
        )
    largest = max((part.size for part in method.modules() if isinstance(part, KeyQueue)), default=0)
    needed = largest * method.queue_fills
    if needed > train.batch_size * steps:
        raise SkelbenchError(
            f"method {spec.method} has a queue of {largest:,} keys and needs {needed:,} clips to fill it, more than "
            f"the {train.batch_size * steps:,} of this run; make it smaller or train for longer"
        )
    much = f"the queue of {largest:,} keys is {largest / clips:.1f} times the {clips:,} training clips"
    own = f"about {largest / clips:.0f} negatives of each clip are keys of the clip itself; choose a smaller queue"
    return [f"warning: {much}, so {own}"] if largest > 2 * clips else []
