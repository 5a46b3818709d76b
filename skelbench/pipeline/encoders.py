"""Encoders of finished runs, with their weights, and how they handle missing tokens."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, get_args

import torch

from skelbench.core.errors import SkelbenchError
from skelbench.core.spec import EvalSpec, Stream
from skelbench.data.store.clip_store import ClipStore
from skelbench.evaluation.hidden import Hiding, can_hide_tokens, check_confidence
from skelbench.methods.contract import Method
from skelbench.models.encoder import ABILITIES, Encoded, Encoder
from skelbench.pipeline.session import Session
from skelbench.plugin.status import SINGULAR
from skelbench.records.run_dir import RunDir
from skelbench.training.build import build_encoder, build_method, other_encoder
from skelbench.training.checkpoint import load_weights, tensor_names
from skelbench.views.skeleton.topology import Topology


def load_encoder(
    session: Session, run: RunDir, checkpoint: str, topology: Topology, stream: str = "joint", readout: str = "pooled"
) -> Encoder:
    """The inference encoder of a run for ``stream`` or ``readout``, with its weights, in eval mode.

    Raises:
        SkelbenchError: the encoder or skeleton of that name is another than the run's.
    """
    spec, changed = run.spec, ""
    for kind, name in (("methods", spec.method), ("encoders", spec.encoder)):
        if run.plugin_files and name not in session.host.names(kind):
            raise SkelbenchError(
                f"{SINGULAR[kind]} {name!r} of run {run.name} is of no plugin here; its training had"
                f"{run.plugin_files}: give that here too"
            )
    named = named_encoder(run, checkpoint, readout)
    for component, identity in spec.components.items():
        kind, _, name = component.partition(" ")
        used = kind == "topologies" or named and kind == "encoders"
        if used and session.host.identity(session.host.get(kind, name)) != identity:
            changed = f"{SINGULAR[kind]} {name}"
    difference = other_encoder(session.host, spec.encoder, spec.encoder_version, spec.encoder_source)
    if not named and difference:
        changed = f"encoder {spec.encoder} ({difference})"
    if changed:
        raise SkelbenchError(
            f"{changed} is not the one that run {run.name} was made with; use that one, or train again with this one"
        )
    if named:
        encoder = as_readout(build_method(spec, session.host, topology), named)
        load_weights(run.encoder_path(checkpoint, named), encoder, spec.id, encoder.prepared_state)
        return encoder.to(session.device).eval()
    encoder = build_encoder(spec, session.host, topology)
    if stream == "fused" and "fuse-streams" not in encoder.abilities:
        raise SkelbenchError(
            f"encoder {run.spec.encoder} of {run.name} cannot {ABILITIES['fuse-streams']}; "
            "use --stream joint,bone,motion --fusion features"
        )
    load_weights(run.encoder(checkpoint, stream), encoder, run.spec.id, encoder.prepared_state)
    return encoder.to(session.device).eval()


def named_encoder(run: RunDir, checkpoint: str, readout: str) -> str:
    """``readout`` if the method of a run keeps an encoder by that name, else "". Streams are not readouts."""
    return "" if readout in get_args(Stream) or not run.encoder_path(checkpoint, readout).exists() else readout


def as_readout(method: Method, name: str) -> Encoder:
    """Return the inference encoder that ``method`` has under ``name``; its readout has this name too."""
    encoder = method.inference_encoders()[name]
    assert isinstance(encoder, Encoder)
    encoder.register_forward_hook(partial(_call_level, name))
    return encoder


def _call_level(name: str, _encoder: torch.nn.Module, _args: tuple[Any, ...], encoded: Encoded) -> Encoded:
    return replace(encoded, levels={**encoded.levels, name: encoded.pooled_RD})


def hiding_of(
    session: Session, run: RunDir, spec: EvalSpec, stream: Stream, store: ClipStore, checkpoint: str = ""
) -> Hiding:
    """Way in which the encoder of a run learned to work with missing tokens, by its method's requirements.

    Raises:
        SkelbenchError: ``spec`` wants joints of low confidence hidden, which is not possible.
    """
    hiding = _learned(session, run, stream, checkpoint or spec.checkpoint)
    check_confidence(spec.min_confidence, store, hiding, run.name)
    return hiding


def _learned(session: Session, run: RunDir, stream: Stream, checkpoint: str) -> Hiding:
    method, encoder = session.host.get("methods", run.spec.method), session.host.get("encoders", run.spec.encoder)
    ways: list[Hiding] = [hiding for hiding in get_args(Hiding) if hiding in method.requires]
    if "replace-tokens" in ways:
        names = tensor_names(run.encoder(checkpoint, stream))
        if not set(session.host.subclass(encoder, Encoder).prepared_state) <= names:
            ways.remove("replace-tokens")
    return ways[0] if ways else ""


def hides_doubtful(session: Session, run: RunDir, spec: EvalSpec) -> bool:
    """Whether the encoder of ``run`` can work without joints below ``spec.min_confidence``, if it has to."""
    return not spec.min_confidence or all(
        can_hide_tokens(_learned(session, run, stream, spec.checkpoint)) for stream in spec.streams
    )
