"""The contract between a method plugin and the harness (needs torch; descriptors do not).

A method says which views it wants, builds its modules, returns a dict with ``loss`` and moves its EMA after the step.
It never sees files, labels, devices, mixed precision, checkpoints or process groups. The design follows timm's
``TrainingTask``: an ``nn.Module`` whose training forward returns a dict. The methods in ``plugins/`` are examples:
masked autoencoders that drop tokens, momentum contrast, one encoder per stream, two encoders, two stages, a critic.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, Literal

import torch
from torch import Tensor, nn

from skelbench.core import distributed
from skelbench.core.component import Grown, Spec
from skelbench.models.encoder import Encoder
from skelbench.models.optim.groups import default_groups
from skelbench.plugin.plugin_errors import Mistake, lacking, plugin_code, where, wrong
from skelbench.views import View, ViewSpec
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import Topology

Config = Grown
"""Base class of a method's own settings: frozen pydantic, unknown fields are errors."""


@dataclass
class Context:
    """Facts about the run that a method is built for.

    >>> from skelbench.models.vit import ViT, ViTConfig
    >>> from skelbench.views.skeleton.topology import NTU25
    >>> grid = Grid(frames=64, patch=8, joints=25)
    >>> context = Context(NTU25, grid, lambda: ViT(ViTConfig(dim=16, depth=1, heads=2), NTU25, grid))
    >>> context.width, context.summary_width, context.grid.tokens
    (16, 16, 200)
    """

    topology: Topology
    grid: Grid
    """Grid of the full-length view (T, P_T, J)."""
    make_encoder: Callable[..., Encoder]
    """See :meth:`encoder`."""
    _width: int = 0
    _summary_width: int = 0
    target: Callable[[str], type] | None = None
    """``target(name)``: class of the prediction target at masked tokens (:mod:`skelbench.methods.target`)."""
    dimensions: Literal[2, 3] = 3
    """2: poses of the image plane, whose z is 0."""

    def encoder(self, *other: Any) -> Encoder:
        """Return a new, freshly initialized encoder of the run's family and size; ``encoder("agcn", {"base": 16})``:
        of another family, which need not have the abilities that the method requires."""
        encoder = self.make_encoder(*other)
        if not other:
            self._width, self._summary_width = encoder.width, encoder.summary_width
        return encoder

    @property
    def width(self) -> int:
        """D, width of the encoder's tokens."""
        self._state_widths()
        return self._width

    @property
    def summary_width(self) -> int:
        """Width of ``Encoded.summary_RD``: of the class token, or of the readout of an encoder that has none."""
        self._state_widths()
        return self._summary_width

    def _state_widths(self) -> None:
        """Read the widths from an encoder without weights if the method has made none yet; nothing is drawn."""
        if not self._width:
            with torch.random.fork_rng(devices=[]), torch.device("meta"):
                self.encoder()

    def __deepcopy__(self, memo: dict[int, Any]) -> Context:
        """Return this object: a copied method shares plugins, which ``encoder`` reaches, but has its own modules."""
        return self


@dataclass(frozen=True)
class Step:
    """State of training, and operations with the same result on one process and on many.

    >>> from skelbench.views.keyed import Keyed
    >>> step = Step(30, 120, 0.25, torch.Generator(), Keyed(seed=0, step=30).uniform)
    >>> step.fraction
    0.25
    >>> step.uniform(torch.tensor([4, 7]), 3).shape
    torch.Size([2, 3])
    """

    index: int
    total: int
    """Steps in the whole schedule; ``index`` runs from 0 to total - 1."""
    epoch: float
    generator: torch.Generator
    """On the device, seeded by (seed, step, rank): noise inside modules comes from here."""
    uniform: Callable[..., Tensor]
    """``uniform(view.keys_R, n, op=0)``: float32 [R, n] in [0, 1) on the device, keyed by body: the same whatever the
    batch and the rank. ``op`` separates draws for different purposes."""
    world: int = 1
    phase: str = "main"
    watch: Callable[..., None] = lambda name, key, view=None: None
    """``watch("masked", x_nD)`` logs the effective rank of features (or of what a function without arguments returns)
    as ``rank_masked``, ``watch("mfp", objective)`` the teacher entropy and prototype usage of a
    :class:`~skelbench.models.prototype_objective.PrototypeObjective`; a few times in a schedule, else it does nothing.
    ``watch("cl", objective, view)`` also the information of prototypes about the view's rows, or about its masked
    tokens. Class token and readout of the encoder are always watched."""
    turn: str = "main"
    """Name of the current one of the method's ``turns``."""
    batch: int = 0
    """Clips of the step in all processes; 0 outside a training loop. See :meth:`clips`."""
    pieces: int = 1
    """Number of equal micro-batches of this process's clips, one ``training_step`` each (``train.accumulate``)."""
    means: Callable[[Tensor, Tensor | float], Tensor] = distributed.global_mean
    """Function that :meth:`mean` calls."""
    held: dict[str, list[Tensor]] = field(default_factory=dict, repr=False)
    """Tensors given to :meth:`keep`, by name, one per micro-batch."""

    @property
    def fraction(self) -> float:
        """Fraction of the schedule that is done, in [0, 1)."""
        return self.index / max(1, self.total)

    def clips(self, view: View) -> int:
        """Return the number of clips of the step in all processes; ``view`` has the clips of this process."""
        return self.batch or view.clips * self.world * self.pieces

    def once(self, view: View, n: int = 1, op: int = 0) -> Tensor:
        """Uniform draws that all clips of the step share, float32 [n] in [0, 1) on the device of ``view``.

        >>> step = Step(0, 1, 0.0, torch.Generator(), lambda keys_R, n, op=0: torch.zeros(len(keys_R), n))
        >>> step.once(View.of(torch.zeros(2, 1, 8, 25, 3)), 3)
        tensor([0., 0., 0.])
        """
        return self.uniform(torch.zeros_like(view.rows_R[:1]), n, op=op)[0]

    def mean(self, total: Tensor, count: Tensor | float) -> Tensor:
        """Return sum / count over all ranks and micro-batches; averaging their gradients gives the right gradient."""
        return self.means(total, count)

    def keep(self, name: str, x: Tensor) -> None:
        """Keep ``x`` for ``after_step``, where :meth:`kept` returns it for all micro-batches of the step; no gradient.

        >>> step = Step(0, 1, 0.0, torch.Generator(), lambda keys_R, n, op=0: torch.zeros(len(keys_R), n))
        >>> step.keep("keys", torch.zeros(2, 8))
        >>> step.kept("keys").shape
        torch.Size([2, 8])
        """
        self.held.setdefault(name, []).append(x.detach())

    def kept(self, name: str) -> Tensor:
        """Return the tensors kept as ``name`` in this step, joined along dim 0."""
        return torch.cat(self.held[name])

    def gather(self, x: Tensor, gradient: bool = False) -> Tensor:
        """Concatenate ``x`` of all ranks along dim 0; equal sizes not required.

        Without ``gradient`` for queues and targets. With it for a loss of the global batch that every rank computes
        alike (VICReg, Barlow Twins, SimCLR): DDP's averaging then gives that loss's gradient.
        """
        return distributed.global_rows(x) if gradient else distributed.gather(x)


TAKEN = frozenset({"step", "epoch", "clips_seen", "clips_per_s", "seconds", "lr", "weight_decay"})
"""Names that the log adds at every step."""


WITHOUT_GRADIENT = "returned a loss that depends on no trainable parameter; look for a detach or no_grad on its way"


def _problem(reported: Any) -> str:
    """Problem of the result of ``training_step``; "" = none."""
    if not isinstance(reported, Mapping) or "loss" not in reported:
        names = f" of {sorted(map(str, reported))}" if isinstance(reported, Mapping) else ""
        return f"returned no 'loss' but {_kind(reported)}{names}; a dict with a scalar tensor \"loss\" is expected"
    if not isinstance(loss := reported["loss"], Tensor) or loss.dim():
        return f"returned {_kind(loss)} as 'loss'; a scalar tensor is expected: take its mean or sum"
    for name, value in reported.items():
        if name in TAKEN:
            return f"returned {name!r}, which the log writes itself; give it another name"
        if not isinstance(value, Real) and not (isinstance(value, Tensor) and value.numel() == 1):
            return f"returned {_kind(value)} as {name!r}; only numbers are logged: take its mean, or remove it"
    return ""


def _kind(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"a tensor of shape {list(value.shape)}"
    return "None" if value is None else f"a {type(value).__name__}"


class Method(nn.Module):
    """Base class of every method plugin. Subclasses make ``encoder`` and implement ``views`` and ``training_step``.

    >>> class Still(Method):
    ...     roles = {"encoder": "student"}
    ...
    ...     def __init__(self, config, context):
    ...         super().__init__(config, context)
    ...         self.encoder = context.encoder()
    ...
    ...     @classmethod
    ...     def views(cls, config, grid):
    ...         return {"whole": ViewSpec(frames=grid.frames)}
    ...
    ...     def training_step(self, views, step):
    ...         return {"loss": self.encoder(views["whole"]).pooled_RD.square().mean()}
    >>> Still.views(Config(), Grid(frames=64, patch=8, joints=25))["whole"].crop.kind
    'free'
    """

    encoder: Encoder

    Config: type[Spec] = Spec

    roles: Mapping[str, str] = {}
    """Attribute name -> role ("student", "teacher", "decoder", "target", "head"), for the cost tables."""

    turns: tuple[str, ...] = ("main",)
    """Turns of a step, in order: ``training_step`` is called once per turn, with ``step.turn``, and updates only the
    parameter groups of this turn (``"turn": "critic"``; none: the first turn) by an optimizer of their own."""
    min_clips: int = 1
    """Smallest number of clips in a step: 2 for losses that compare clips of a batch."""
    queue_fills: int = 1
    """Smallest number of times that a run's clips fill the queue; above 1 for a loss that needs a full queue."""
    exchangeable: Mapping[str, str] = {}
    """Settings of the method that name a plugin -> its kind, ``{"target": "targets"}``: versions enter the identity.
    "" names none. For a setting ``partner`` that names an encoder, ``partner_settings`` (a dict) holds its settings;
    the harness adds the sizes of the run's preset and the defaults."""

    def __init__(self, config: Any, context: Context) -> None:
        super().__init__()
        self.config = config
        self.context = context

    @property
    def whole_batch(self) -> str:
        """Reason why a step needs all of its clips at once, for example a norm over them; "" = none. Then all means are
        ``step.mean`` over counts proportional to the clips, and ``after_step`` reads tensors from ``step.keep`` only.
        Such a batch may be split into micro-batches (``train.accumulate``) with the same gradients. An attribute, or a
        property if settings decide."""
        return "it does not allow micro-batches (whole_batch)"

    @classmethod
    def views(cls, config: Any, grid: Grid) -> dict[str, ViewSpec]:
        """The views of one training step by name; parents come before the views cut from them."""
        place = where(cls) or cls.__qualname__
        raise Mistake(f"{place}: class {cls.__name__} has no views; give it a @classmethod views(cls, config, grid)")

    def forward(self, views: Mapping[str, View], step: Step) -> dict[str, Tensor]:
        """DDP wraps this; do not override. SkelbenchError if ``training_step`` fails or returns no loss to train on."""

        def hint(error: BaseException) -> str:
            missing = isinstance(error, KeyError) and not set(map(str, error.args)) <= views.keys()
            return f"the views are: {', '.join(views)}" if missing else ""

        with plugin_code(self.training_step, "(views, step)", hint):
            reported = self.training_step(views, step)
        if problem := _problem(reported):
            raise wrong(self.training_step, problem)
        if torch.is_grad_enabled() and not reported["loss"].requires_grad:
            raise wrong(self.training_step, WITHOUT_GRADIENT)
        return {name: torch.as_tensor(value) for name, value in reported.items()}

    def training_step(self, views: Mapping[str, View], step: Step) -> dict[str, Tensor]:
        """Return ``{"loss": scalar, ...}``; further scalars, tensors or numbers, are logged under their names."""
        raise lacking(self, "training_step(self, views, step)")

    def after_step(self, step: Step) -> None:
        """After the optimizer step: EMA, queues, centers. Default: nothing."""

    def inference_encoder(self) -> Encoder:
        """Return the encoder that is probed, costed and exported: ``encoder``; with an EMA teacher, the teacher."""
        return self.encoder

    def inference_encoders(self) -> Mapping[str, nn.Module]:
        """Return the encoders of streams ("bone", "motion") with an encoder of their own, of the run's family and
        size; ``inference_encoder`` reads every other stream. An encoder under another name may be of any family; it is
        a readout of the run (``skelbench eval RUN --readout NAME``)."""
        return {}

    def optim_groups(self) -> Iterator[dict[str, Any]]:
        """Parameter groups. Default: one group with weight decay, one without (biases, norms, other 1-D parameters).

        Keys besides ``params``: ``wd_scale`` and ``lr_scale`` multiply the schedules, ``frozen_until`` (fraction of the
        schedule) freezes the group, ``clip`` names the gradient-clipping group, ``turn`` the turn that updates it.
        """
        yield from default_groups(self)

    def phases(self) -> list[tuple[str, float]]:
        """Stages in order as (name, fraction of the schedule at which it begins); ``step.phase`` names the current one.

        A stage that begins together with the next, or at 1, is skipped.
        """
        return [("main", 0.0)]
