"""Plugin host: hooks, torch-free descriptors, discovery. ``from skelbench.plugin import hookimpl, MethodSpec``."""

from skelbench.plugin.descriptors import (
    API_VERSION,
    DatasetSpec,
    EncoderSpec,
    FigureSpec,
    MethodSpec,
    ProtocolSpec,
    PublishedSpec,
    RowsSpec,
    StudySpec,
    TableSpec,
    TargetSpec,
)
from skelbench.plugin.hookspecs import hookimpl

__all__ = [
    "API_VERSION",
    "DatasetSpec",
    "EncoderSpec",
    "FigureSpec",
    "MethodSpec",
    "ProtocolSpec",
    "PublishedSpec",
    "RowsSpec",
    "StudySpec",
    "TableSpec",
    "TargetSpec",
    "hookimpl",
]
