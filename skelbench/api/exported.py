"""An exported encoder on disk: weights as safetensors, and its description as JSON.

``config.json`` has the form that timm and the Hugging Face Hub read; the key ``model_args.settings`` holds
:class:`Settings`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import Field
from safetensors.torch import load as load_tensors
from torch import Tensor

from skelbench.api.encoder import FrozenEncoder
from skelbench.core.component import Spec
from skelbench.core.errors import SkelbenchError
from skelbench.core.files import check_regular, read_json
from skelbench.core.spec import GridSpec
from skelbench.evaluation.preprocessing import Preprocessing
from skelbench.models.encoder import Encoder
from skelbench.plugin.host import Host
from skelbench.records.schema import facts_of
from skelbench.training.build import bare_encoder, other_encoder
from skelbench.views.skeleton.grid import Grid
from skelbench.views.skeleton.topology import Topology

FORMAT = 1
CONFIG, WEIGHTS, CARD, ONNX = "config.json", "model.safetensors", "README.md", "model.onnx"
ARCHITECTURE = "skelbench_encoder"
PREFIX = "encoder."
"""Prefix of the names of tensors, as in a timm model whose encoder is one of its parts."""


class Settings(Spec):
    """Description of an exported encoder."""

    format: int = FORMAT
    written_by: str
    encoder: str
    encoder_version: int
    encoder_source: str | None = Field(None, description="hash of the file of a single-file plugin")
    encoder_config: dict[str, Any]
    features: int = Field(ge=1, description="width F of the features of a clip")
    grid: GridSpec
    skeleton: Topology = Field(description="the topology itself, so that an export needs no plugin for it")
    preprocessing: Preprocessing
    precision: Literal["fp32", "bf16"]
    run: str = Field(description="name of the run, with its checkpoint")


def is_exported(folder: Path) -> bool:
    """Whether ``folder`` looks like an exported encoder."""
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def build_exported(settings: Settings, host: Host) -> Encoder:
    """The encoder, freshly initialized.

    Raises:
        SkelbenchError: no plugin announces it, or one of another version.
    """
    if how := other_encoder(host, settings.encoder, settings.encoder_version, settings.encoder_source):
        raise SkelbenchError(
            f"encoder {settings.encoder} is not the one that was exported ({how}); use the skelbench or the plugin "
            "file that wrote the export"
        )
    topology = settings.skeleton
    grid = Grid(settings.grid.frames, settings.grid.patch, topology.num_joints)
    return bare_encoder(host, settings.encoder, settings.encoder_config, topology, grid)


def load_exported(folder: Path, host: Host, device: str = "cpu") -> FrozenEncoder:
    """The encoder in ``folder``.

    Raises:
        SkelbenchError: a file is damaged or the weights do not fit; names it.
    """
    settings = read_settings(folder)
    module = build_exported(settings, host)
    weights = {name.removeprefix(PREFIX): x for name, x in _read_weights(folder / WEIGHTS).items()}
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:
        raise SkelbenchError(f"{folder / WEIGHTS} does not fit {folder / CONFIG}; export the encoder again") from error
    return FrozenEncoder(module, settings.encoder, settings.preprocessing, settings.precision, device, settings.run)


def read_settings(folder: Path) -> Settings:
    """Return the settings in ``config.json`` of an export; SkelbenchError if it is damaged or newer."""
    path = folder / CONFIG
    try:
        content = read_json(path)
        if content["architecture"] != ARCHITECTURE:
            raise ValueError(f"it is of a {content['architecture']}, no encoder of skelbench")
        return settings_of(content["model_args"]["settings"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SkelbenchError(
            f"{path} is not a description of an exported encoder ({error}); export it again"
        ) from error


def settings_of(values: Mapping[str, Any]) -> Settings:
    """Raise ValueError if they are not valid, SkelbenchError if a later skelbench wrote them."""
    if isinstance(values.get("format"), int) and values["format"] > FORMAT:
        raise SkelbenchError(
            f"the export has format {values['format']}, newer than this skelbench reads ({FORMAT}); upgrade skelbench"
        )
    return facts_of(Settings, values)


def config_json(settings: Settings) -> str:
    """``config.json``, which ``timm.create_model("local-dir:FOLDER", pretrained=True)`` reads."""
    content = {
        "architecture": ARCHITECTURE,
        "num_classes": 0,
        "num_features": settings.features,
        "pretrained_cfg": {"num_classes": 0},
        "model_args": {"settings": settings.model_dump(mode="json")},
    }
    return json.dumps(content, indent=1) + "\n"


def _read_weights(path: Path) -> dict[str, Tensor]:
    try:
        check_regular(path)
        return load_tensors(path.read_bytes())
    except Exception as error:  # the reader raises whatever its parts do
        raise SkelbenchError(f"weights {path} are missing or damaged; export the encoder again") from error
