"""Exported encoders as models of timm: ``import skelbench.api.timm``, then ``timm.create_model``.

``timm.create_model("local-dir:FOLDER", pretrained=True)`` reads what ``skelbench export`` wrote,
``"hf-hub:OWNER/NAME"`` the same from the Hugging Face Hub. To name the files one by one:
``timm.create_model("skelbench_encoder", settings="FOLDER/config.json", checkpoint_path="FOLDER/model.safetensors")``.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from timm.models import load_pretrained, register_model
from torch import Tensor, nn

from skelbench.api.encoder import Clips, FrozenEncoder
from skelbench.api.exported import Settings, build_exported, read_settings, settings_of
from skelbench.api.plugins import use_plugins
from skelbench.core.errors import SkelbenchError


class SkeletonModel(nn.Module):
    """Clips in, features or class scores out, with gradient.

    ``forward`` takes what :meth:`skelbench.api.encoder.FrozenEncoder.embed` takes ([B, T', J, 3], [B, M, T', J, 3], a
    list of clips) and prepares them as the run's probes do. ``num_classes`` above 0 puts a linear layer behind.
    """

    def __init__(self, settings: Settings, num_classes: int = 0) -> None:
        super().__init__()
        self.encoder = build_exported(settings, use_plugins())
        self.settings, self.num_features, self.num_classes = settings, settings.features, num_classes
        self.head = self._head()
        self.pretrained_cfg: dict[str, Any] = {}
        self.default_cfg: dict[str, Any] = {}
        """Source of its weights, as timm records it."""

    @property
    def _device(self) -> torch.device:
        return next((parameter.device for parameter in self.parameters()), torch.device("cpu"))

    def _head(self) -> nn.Module:
        return nn.Linear(self.num_features, self.num_classes) if self.num_classes else nn.Identity()

    def reset_classifier(self, num_classes: int) -> None:
        """Another head, freshly initialized; 0 = none."""
        self.num_classes = num_classes
        self.head = self._head().to(self._device)

    def get_classifier(self) -> nn.Module:
        """The head."""
        return self.head

    def forward_features(self, clips: Clips) -> Tensor:
        """float32 [B, F]."""
        settings, modes = self.settings, [(module, module.training) for module in self.encoder.modules()]
        frozen = FrozenEncoder(self.encoder, settings.encoder, settings.preprocessing, "fp32", self._device)
        for module, mode in modes:  # a frozen encoder is in eval mode, this one may be training
            module.training = mode
        return torch.cat([frozen.features(view) for view in frozen.views(clips)])

    def forward_head(self, features: Tensor) -> Tensor:
        """[B, num_classes], or the features if there is no head."""
        return self.head(features)

    def forward(self, clips: Clips) -> Tensor:
        return self.forward_head(self.forward_features(clips))


@register_model
def skelbench_encoder(
    pretrained: bool = False,
    settings: Mapping[str, Any] | Path | str | None = None,
    pretrained_cfg: Any = None,
    pretrained_cfg_overlay: Any = None,
    cache_dir: Path | str | None = None,
    num_classes: int = 0,
    **others: Any,
) -> SkeletonModel:
    """Return an exported encoder. ``settings``: path or content of its config.json; timm passes the content."""
    if unknown := sorted(set(others) - {"pretrained_model_args"}):
        raise SkelbenchError(f"skelbench_encoder has no option {unknown[0]!r}; its options: settings, num_classes")
    if settings is None:
        raise SkelbenchError(
            'skelbench_encoder needs an export: timm.create_model("local-dir:FOLDER", pretrained=True), or '
            "settings=FOLDER/config.json and checkpoint_path=FOLDER/model.safetensors"
        )
    if isinstance(settings, Mapping):
        model = SkeletonModel(settings_of(settings), num_classes)
    else:
        model = SkeletonModel(read_settings(Path(settings).parent), num_classes)
    source = dict(pretrained_cfg or {}) | dict(pretrained_cfg_overlay or {})
    model.pretrained_cfg = model.default_cfg = source
    if pretrained:
        load_pretrained(model, source, num_classes=num_classes, strict=not num_classes, cache_dir=cache_dir)
    return model.eval()
