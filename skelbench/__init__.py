"""skelbench: compare self-supervised skeleton methods under one dataset, token budget, probe and cost convention.

Importing this package is cheap: nothing here imports torch. The functions of notebooks (``skelbench.run``,
``skelbench.load_encoder``, ...) are loaded on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from skelbench.core.errors import SkelbenchError as SkelbenchError
from skelbench.core.version import __version__ as __version__

if TYPE_CHECKING:
    from skelbench.api.datasets import ClipDataset as ClipDataset
    from skelbench.api.datasets import collate as collate
    from skelbench.api.datasets import dataset as dataset
    from skelbench.api.embedding import SkeletonEmbedding as SkeletonEmbedding
    from skelbench.api.encoder import FrozenEncoder as FrozenEncoder
    from skelbench.api.export import export as export
    from skelbench.api.load import load_encoder as load_encoder
    from skelbench.api.plugins import plugins as plugins
    from skelbench.api.reports import compare as compare
    from skelbench.api.reports import plot as plot
    from skelbench.api.reports import report as report
    from skelbench.api.reports import results as results
    from skelbench.api.runs import Evaluation as Evaluation
    from skelbench.api.runs import Run as Run
    from skelbench.api.runs import evaluate as evaluate
    from skelbench.api.runs import get_run as get_run
    from skelbench.api.runs import run as run
    from skelbench.api.runs import runs as runs

_API = {
    "datasets": ("ClipDataset", "collate", "dataset"),
    "embedding": ("SkeletonEmbedding",),
    "encoder": ("FrozenEncoder",),
    "export": ("export",),
    "load": ("load_encoder",),
    "plugins": ("plugins",),
    "reports": ("compare", "plot", "report", "results"),
    "runs": ("Evaluation", "Run", "evaluate", "get_run", "run", "runs"),
}
_PLACES = {name: f"skelbench.api.{module}" for module, names in _API.items() for name in names}


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module 'skelbench' has no attribute {name!r}")
    return getattr(import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted({*_PLACES, "SkelbenchError", *(name for name in globals() if name.startswith("__"))})
