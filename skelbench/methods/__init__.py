"""Imports for method plugins: the contract, and shared parts of families."""

from skelbench.methods.contract import Config, Context, Method, Step
from skelbench.methods.extreme_contrast import ExtremeContrast, ExtremeContrastConfig
from skelbench.methods.imported import Imported
from skelbench.methods.level_contrast import LEVELS, LevelContrast
from skelbench.methods.masked_autoencoder import MaskedAutoencoder, MaskedAutoencoderConfig, MaskedConfig, rotated_view
from skelbench.methods.momentum_contrast import MomentumContrast, MomentumContrastConfig, ShearedConfig
from skelbench.methods.multi_grained import MultiGrained, MultiGrainedConfig
from skelbench.methods.recurrent_contrast import RecurrentContrast
from skelbench.methods.self_distillation import (
    MultiCropConfig,
    PrototypeSettings,
    Teacher,
    embedded,
    match_views,
    other_views,
    predict_prototypes,
    self_distillation_groups,
)
from skelbench.methods.stream_contrast import STREAMS, StreamContrast
from skelbench.methods.target import Hidden, MaskedTarget
from skelbench.methods.view_settings import DistortedConfig, DistortedContrastConfig, SequenceConfig, StrongConfig

__all__ = [
    "Config", "Context", "DistortedConfig", "DistortedContrastConfig", "ExtremeContrast", "ExtremeContrastConfig",
    "Hidden", "Imported", "LEVELS", "LevelContrast", "MaskedAutoencoder", "MaskedAutoencoderConfig", "MaskedConfig",
    "MaskedTarget", "Method", "MomentumContrast", "MomentumContrastConfig",
    "MultiCropConfig", "MultiGrained", "MultiGrainedConfig", "PrototypeSettings", "RecurrentContrast",
    "STREAMS", "SequenceConfig", "ShearedConfig", "Step", "StreamContrast", "StrongConfig", "Teacher", "embedded",
    "match_views", "other_views", "predict_prototypes", "rotated_view", "self_distillation_groups",
]  # fmt: skip
