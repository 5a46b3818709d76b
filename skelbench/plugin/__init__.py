"""Plugin host: hooks, torch-free descriptors, discovery. ``from skelbench.plugin import hookimpl, MethodSpec``."""

from skelbench.plugin.announcement import hookimpl
from skelbench.plugin.descriptors import (
    ComponentSpec,
    DatasetSpec,
    EncoderSpec,
    EngineSpec,
    FigureSpec,
    MethodSpec,
    NativeProbe,
    ObserverSpec,
    ProtocolSpec,
    PublishedSpec,
    RowsSpec,
    Stage,
    StudySpec,
    SuiteSpec,
    TableSpec,
    TargetSpec,
    TopologySpec,
)
from skelbench.plugin.space import Linear, Log

__all__ = [
    "ComponentSpec",
    "DatasetSpec",
    "EncoderSpec",
    "EngineSpec",
    "FigureSpec",
    "Linear",
    "Log",
    "MethodSpec",
    "NativeProbe",
    "ObserverSpec",
    "ProtocolSpec",
    "PublishedSpec",
    "RowsSpec",
    "Stage",
    "StudySpec",
    "SuiteSpec",
    "TableSpec",
    "TargetSpec",
    "TopologySpec",
    "hookimpl",
]
