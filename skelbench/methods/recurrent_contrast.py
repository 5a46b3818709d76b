"""Shared parts of CMD's descendants: momentum contrast of one stream, and import of their files.

Facts: maoyunyao/CMD (moco/builder_cmd.py), anshulbshah/HaLP (moco/builder_single_modality_baseline.py) and
JHang2020/PCM3 (moco/builder_mask_recons.py), which agree in all of this. B clips, E width of an embedding, L numbers
of a frame.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from skelbench.core.errors import SkelbenchError
from skelbench.methods.contract import Config, Step
from skelbench.methods.imported import Imported, tensor_of
from skelbench.methods.momentum_contrast import MomentumContrast
from skelbench.methods.view_settings import DistortedContrastConfig
from skelbench.models.contrast import info_nce, similarities
from skelbench.models.heads import recurrent_head
from skelbench.views import View, ViewSpec
from skelbench.views.skeleton.grid import Grid


class RecurrentContrast(MomentumContrast):
    """Two distorted crops of a clip agree and differ from the keys of earlier clips: CMD with one stream.

    >>> views = RecurrentContrast.views(DistortedContrastConfig(stream="bone"), Grid(frames=64, patch=8, joints=25))
    >>> {name: view.stream for name, view in views.items()}
    {'query': 'bone', 'key': 'bone'}
    """

    Config: type[Config] = DistortedContrastConfig

    @classmethod
    def views(cls, config: Any, grid: Grid) -> dict[str, ViewSpec]:
        view = config.view(grid, stream=config.stream)
        return {"query": view, "key": view}

    def training_step(self, views: Mapping[str, View], step: Step) -> dict[str, Tensor]:
        return {"loss": self.contrast(views, step)[0]}

    def contrast(self, views: Mapping[str, View], step: Step) -> tuple[Tensor, Tensor, Tensor]:
        """InfoNCE of the step; queries and keys are unit vectors [B, E]."""
        query_BE = self.queries(views["query"])
        key_BE, keys_nE = self.keys(views["key"], step)
        loss_B = info_nce(similarities(query_BE, key_BE, keys_nE, self.config.temperature))
        step.watch("query", query_BE)
        return step.mean(loss_B.sum(), len(loss_B)), query_BE, key_BE

    def make_head(self, width: int) -> nn.Sequential:
        return recurrent_head(width, self.config.embedding)


def recurrent_encoders(state: Mapping[str, Tensor], encoders: Mapping[str, str], other: tuple[str, ...]) -> Imported:
    """The ``bigru`` encoders of a checkpoint of these codes: their names there -> ours. z is up in its clips, y here.

    ``other``: prefixes of tensors that only training needs.

    Raises:
        SkelbenchError: the file is of another model.
    """
    used = {name: x for name, x in state.items() if not name.startswith(other)}
    first, *more = (f"{released}.{FIRST}" for released in encoders)
    shape = tuple(tensor_of(used, first, FORM, _is_first).shape)
    for name in more:
        tensor_of(used, name, FORM, lambda s: s == shape)
    if strange := next((name for name in used if name.partition(".")[0] not in encoders), ""):
        raise SkelbenchError(f"its tensor {strange!r} is of another model")
    weights: dict[str, Tensor] = {}
    for prefix, ours in encoders.items():
        own = {name.partition(".")[2]: x for name, x in used.items() if name.partition(".")[0] == prefix}
        sizes, tensors = recurrent_weights(own)
        weights |= {f"{ours}.{name}": x for name, x in tensors.items()}
    settings = {f"encoder.{name}": size for name, size in sizes.items()}
    return Imported(settings, weights, tuple(name for name in state if name.startswith(other)))


FIRST, FORM = "encoder.gru.weight_ih_l0", "3 H x L"


def _is_first(shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and shape[1] % 6 == 0


def recurrent_weights(own: Mapping[str, Tensor], normed: bool = True) -> tuple[dict[str, int], dict[str, Tensor]]:
    """Sizes and weights of a ``bigru`` from the tensors of one in these codes, or in ISC's, which is not ``normed``.

    Raises:
        SkelbenchError: some are of another model.
    """
    first = tensor_of(own, FIRST, FORM, _is_first)
    number_L = torch.arange(first.shape[1]).view(-1, 3, 2)  # joint by joint its coordinates, bodies innermost
    from_L, sign_L = number_L[:, [0, 2, 1]].flatten(), torch.ones(number_L.shape)
    sign_L[:, 2] = -1.0  # our (x, y, z) is (x, z, -y) in the file
    weights, layers, sign_L = {}, set(), sign_L.flatten()
    for name, x in own.items():
        match = re.fullmatch(r"encoder\.gru\.(\w+?)_l(\d+)(_reverse)?|input_norm\.(\w+)", name)
        if match is None or (match[4] and not normed):
            raise SkelbenchError(f"its tensor {name!r} is of another model")
        part, layer, second, norm = match.groups()
        if norm:
            flipped = norm in ("weight", "running_mean")
            weights[name] = x if x.dim() == 0 else x[from_L] * (sign_L if flipped else 1.0)
            continue
        layers.add(layer)
        if (part, layer) == ("weight_ih", "0"):
            x = x[:, from_L] * (1.0 if normed else sign_L)  # in the norm's weights, if there is a norm
        weights[f"{'second' if second else 'first'}.{layer}.{part}_l0"] = x
    return {"hidden": first.shape[0] // 3, "depth": len(layers)}, weights


def imported(state: Mapping[str, Tensor], options: Mapping[str, Any]) -> Imported:
    """Return the encoder of a checkpoint of HaLP's or PCM3's code, or of their baselines."""
    skipped = ("encoder_k.", "encoder_q.fc.", "queue", "prototypes", "linear.", "recons_decoder.")
    prompts = tuple(f"{name}_prompt" for name in ("cl", "mp", "base", "mask", "recons", "mix"))
    return recurrent_encoders(state, {"encoder_q": "encoder"}, skipped + prompts)
