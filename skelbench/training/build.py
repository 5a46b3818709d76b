"""Build a run's modules and views from its spec."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from skelbench.core.errors import SkelbenchError, did_you_mean
from skelbench.core.hashing import derive_seed
from skelbench.core.spec import RunSpec, TrainSpec, validated
from skelbench.data.store.clip_store import ClipStore
from skelbench.data.store.source import ClipSource
from skelbench.methods.contract import Context, Method
from skelbench.methods.target import MaskedTarget
from skelbench.models.encoder import ABILITIES, Encoder
from skelbench.plugin.host import Host, get_host
from skelbench.plugin.plugin_errors import plugin_code, wrong
from skelbench.views.degradations import Degrade
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import Topology
from skelbench.views.spec import ViewSpec
from skelbench.views.view import View


def grid_of(spec: RunSpec, topology: Topology) -> Grid:
    """The full token grid of a run."""
    return Grid(spec.grid.frames, spec.grid.patch, topology.num_joints)


def view_specs(spec: RunSpec) -> dict[str, ViewSpec]:
    """Return the views of a training step, from their plain form in the run's spec."""
    return {name: validated(ViewSpec, view, f"views.{name}") for name, view in spec.views.items()}


def degradations(train: TrainSpec) -> tuple[Degrade, ...]:
    """Return the degradations of the training clips, from their plain form.

    Raises:
        SkelbenchError: there is no such degradation, its settings are invalid, or it declares joints missing.
    """
    steps = tuple(_degradation(plain) for plain in train.degrade)
    for step in steps:
        if step.declares:
            raise SkelbenchError(
                f"train.degrade: {step.kind!r} declares joints missing, which is for evaluations only, because methods "
                "mask tokens themselves in training; use zero-fill or parent-fill"
            )
    return steps


def _degradation(plain: Mapping[str, Any]) -> Degrade:
    kind = str(plain.get("kind", ""))
    settings = {name: value for name, value in plain.items() if name != "kind"}
    return validated(get_host().find("degradations", kind), settings, f"degradation {kind}")


def training_clips(
    spec: RunSpec, store: ClipStore, device: torch.device | str, resident: bool | None = None
) -> ClipSource:
    """Return the training clips of a run: aligned, and degraded once, keyed by the run's seed and the clip."""
    seed = derive_seed(spec.seed, "degrade")
    return ClipSource(store, device, resident, spec.data.second_body, spec.train.align, degradations(spec.train), seed)


def bare_encoder(host: Host, name: str, settings: Mapping[str, Any], topology: Topology, grid: Grid) -> Encoder:
    """The encoder ``name``, freshly initialized, without parts that only a method needs."""
    descriptor = host.get("encoders", name)
    config = validated(host.config(descriptor), settings, "encoder")
    cls = host.subclass(descriptor, Encoder)
    with plugin_code(cls, "(config, topology, grid)"):
        try:
            encoder = cls(config, topology, grid)
        except (RuntimeError, NotImplementedError):
            if torch.get_default_device().type != "meta":
                raise
            with torch.device("cpu"):  # some encoders read values while they are built, for example of their graph
                encoder = cls(config, topology, grid).to("meta")
    for attribute in ("width", "features"):
        if not isinstance(getattr(encoder, attribute, None), int):
            of = "tokens" if attribute == "width" else "pooled_RD"
            raise wrong(cls, f"sets no self.{attribute}: a whole number, the width of its {of}")
    if unknown := sorted(frozenset(encoder.abilities) - ABILITIES.keys()):  # e.g. misspelled
        raise wrong(cls, f"abilities: {did_you_mean(unknown[0], list(ABILITIES), 'ability of encoders')}")
    return encoder


def other_encoder(host: Host, name: str, version: int, source: str | None) -> str:
    """Reason why weights of the encoder ``name`` may not fit: another version or hash of its file; "" = none."""
    descriptor = host.get("encoders", name)
    if descriptor.version != version:
        return f"version {version}, here it is {descriptor.version}"
    source_hash = host.origin(descriptor).source_hash
    return "" if source_hash == source else f"a file of sha256 {str(source)[:12]}, here it is {str(source_hash)[:12]}"


def build_encoder(
    spec: RunSpec, host: Host, topology: Topology, name: str = "", settings: Mapping[str, Any] | None = None
) -> Encoder:
    """Return a new encoder of the run, from torch's current random state, or ``name`` with ``settings``.

    Raises:
        SkelbenchError: the encoder lacks an ability that the method requires.
    """
    if name:
        return bare_encoder(host, name, settings or {}, topology, grid_of(spec, topology))
    requires = frozenset(host.get("methods", spec.method).requires)
    if any(view["stream"] == "fused" for view in spec.views.values()):
        requires |= {"fuse-streams"}
    encoder = bare_encoder(host, spec.encoder, spec.encoder_config, topology, grid_of(spec, topology))
    if unknown := sorted(requires - ABILITIES.keys()):
        raise SkelbenchError(
            f"method {spec.method}: {did_you_mean(unknown[0], list(ABILITIES), 'ability of encoders')}"
        )
    if missing := sorted(requires - encoder.abilities):
        raise SkelbenchError(
            f"method {spec.method} needs an encoder that can {ABILITIES[missing[0]]} ({missing[0]}), "
            f"which {spec.encoder} cannot; choose another encoder or method"
        )
    with plugin_code(encoder.prepare, "(requires)"):
        encoder.prepare(requires)
    return encoder


class _WithoutDraws(TorchFunctionMode):
    """Skip drawing weights on the meta device: PyTorch would load its compiler, for seconds, to draw shapes."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") in ("normal_", "uniform_", "kaiming_normal_", "kaiming_uniform_"):
            weights: Tensor = args[0] if args else kwargs["tensor"]
            if weights.is_meta:
                return weights
        return func(*args, **kwargs)


def build_method(spec: RunSpec, host: Host, topology: Topology, device: torch.device | str = "cpu") -> Method:
    """The run's method, initialized from the run's seed alone.

    Weights are drawn on the CPU, so that they are the same for every device; ``device="meta"`` draws nothing.
    """
    descriptor = host.get("methods", spec.method)
    cls = host.subclass(descriptor, Method)
    settings = host.config(descriptor) if descriptor.config else cls.Config
    config = validated(settings, spec.method_config, "method")
    grid = grid_of(spec, topology)

    def target(name: str) -> type[MaskedTarget]:
        return host.subclass(host.get("targets", name), MaskedTarget)

    shapes: dict[str, list[int]] = {}

    def make_encoder(name: str = "", settings: Mapping[str, Any] | None = None) -> Encoder:
        encoder = build_encoder(spec, host, topology, name, settings)
        if not name and not shapes:
            shapes.update(_shapes(encoder))
        return encoder

    meta = str(device) == "meta"
    with torch.random.fork_rng(devices=[]), torch.device("meta" if meta else "cpu"), _WithoutDraws():
        context = Context(topology, grid, make_encoder, target=target, dimensions=spec.data.dimensions)
        torch.manual_seed(derive_seed(spec.seed, "init"))
        with plugin_code(cls, "(config, context)"):
            method = cls(config, context)
        if not shapes:  # the method built its own encoder
            make_encoder()
    if not getattr(method, "encoder", None):
        raise wrong(cls, "makes no self.encoder; write self.encoder = context.encoder()")
    with plugin_code(method.inference_encoder, "()"):
        encoder = method.inference_encoder()
    if odd := _unlike(_shapes(encoder), shapes):
        raise wrong(
            cls,
            f"gives an inference_encoder() {odd}, but what is probed is the run's encoder, {spec.encoder}; make it by "
            'context.encoder(), and choose another for the run: MethodSpec(recipe={"encoder": "NAME"})',
        )
    modules = dict(method.named_modules())
    if lost := next((name for name in method.roles if name not in modules), ""):
        raise wrong(cls, f"roles names {lost!r}, which is not a module of {cls.__name__}; correct roles")
    return method if meta else method.to(device)


_meta_methods: dict[str, Method] = {}
"""Cache of methods without weights, by run id and skeleton."""


def meta_method(spec: RunSpec, host: Host, topology: Topology, fresh: bool = False) -> Method:
    """Return the method on the meta device, cached in this process unless ``fresh``; copy it before you change it."""
    key = f"{spec.id} {topology.name}"
    if fresh or key not in _meta_methods:
        _meta_methods[key] = build_method(spec, host, topology, "meta")
    return _meta_methods[key]


def _shapes(encoder: torch.nn.Module) -> dict[str, list[int]]:
    """Shapes of the weights of ``encoder``, by name, and of the state that a method prepares."""
    prepared = getattr(encoder, "prepared_state", ())
    state = encoder.state_dict().items()
    return {name: list(x.shape) for name, x in state if isinstance(x, Tensor) and name not in prepared}


def _unlike(own: Mapping[str, list[int]], run: Mapping[str, list[int]]) -> str:
    """Difference between the weights of a method's inference encoder and the run's encoder; "" = none."""
    if names := sorted(own.keys() ^ run.keys()):
        return f"{'with' if names[0] in own else 'without'} {names[0]}"
    return next((f"with {name} {own[name]}" for name in own if own[name] != run[name]), "")


def phases_of(method: Method) -> list[tuple[str, float]]:
    """The method's phases as (name, fraction of the schedule at which it begins); an error if they are out of order."""
    with plugin_code(method.phases, "()"):
        phases = [(str(name), float(start)) for name, start in method.phases()]
    starts = [start for _, start in phases]
    if starts[:1] != [0.0] or starts != sorted(starts) or not starts[-1] <= 1 or len(dict(phases)) < len(phases):
        raise wrong(
            method.phases,
            f"returned {phases}; the first begins at 0, the others after it in order, 1 being the end of training, and "
            'each name stands once: [("warm", 0.0), ("main", 0.3)]',
        )
    return phases


def fake_views(spec: RunSpec, topology: Topology, clips: int, bodies: int = 1, device: str = "meta") -> dict[str, View]:
    """Views with the shapes of a real batch of ``clips`` clips with ``bodies`` present bodies each, for counting cost.

    Masks cover the mean fraction of tokens (the mean of the ratio's range times the probability of masking).
    """
    views: dict[str, View] = {}
    for name, view in view_specs(spec).items():
        count = view.count * (views[view.parent].count if view.parent else 1)
        rows = count * clips * bodies
        fields: dict[str, torch.Tensor] = {}
        if view.mask is not None:
            grid = grid_of(spec, topology).at(view.frames)
            hidden, visible = view.mask.expected(grid.tokens)
            fields["mask_RN"] = torch.zeros(rows, grid.tokens, dtype=torch.bool, device=device)
            if device != "meta":
                fields["mask_RN"][:, :hidden] = True
            fields["masked_I"] = torch.zeros(rows * hidden, dtype=torch.int64, device=device)
            if visible is not None:
                fields["keep_RK"] = torch.zeros(rows, visible, dtype=torch.int64, device=device)
        views[name] = View(
            x_RTJC=torch.zeros(rows, view.frames, topology.num_joints, 3, device=device),
            rows_R=torch.arange(rows, device=device),
            keys_R=torch.arange(rows, device=device),
            clips=clips,
            bodies=bodies,
            count=count,
            stream=view.stream,
            **fields,
        )
    return views


def parameters(method: Method) -> Mapping[str, int]:
    """Trainable parameters and all parameters of the method, and of its inference encoder."""
    encoder = method.inference_encoder()
    return {
        "trainable": sum(p.numel() for p in method.parameters() if p.requires_grad),
        "total": sum(p.numel() for p in method.parameters()),
        "encoder": sum(p.numel() for p in encoder.parameters()),
    }
