"""Frozen encoders as ONNX models: from views of T frames to features of clips, for any number of clips."""

from __future__ import annotations

import contextlib
import importlib.util
import io
import logging
import warnings
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn

from skelbench.api.encoder import FrozenEncoder
from skelbench.core.errors import SkelbenchError
from skelbench.evaluation.features import read_out
from skelbench.plugin.status import one_line
from skelbench.views.crops import PADDED
from skelbench.views.view import View

PACKAGES = ("onnx", "onnxscript", "onnxruntime")
TOLERANCE = 1e-3
"""Largest difference of a feature that counts as rounding, in units of the largest feature; above it, an error."""


def need_onnx() -> None:
    """Raise SkelbenchError with what to install, if something is missing."""
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        raise SkelbenchError(
            f"an ONNX model needs {' and '.join(missing)}, which is not installed: pip install 'skelbench[onnx]'"
        )


class Features(nn.Module):
    """From ``clips``, float32 [B, M, T, J, 3], and ``present``, bool [B, M], to features, float32 [B, F]."""

    def __init__(self, encoder: FrozenEncoder) -> None:
        super().__init__()
        look = encoder.preprocessing
        if look.bodies not in ("valid", "all-slots"):
            raise SkelbenchError(
                f"an ONNX model cannot choose a body ({look.bodies}); export an encoder that sees all of them"
            )
        if look.resize in PADDED:
            raise SkelbenchError(
                f"an ONNX model cannot know which frames of a short clip are padding (resize {look.resize}); export it "
                "without --format onnx"
            )
        self.encoder, self.grid, self.stream = encoder.module, encoder.grid, look.stream
        self.readout, self.pooling, self.every_slot = look.readout, look.bodies_pool, look.bodies == "all-slots"

    def forward(self, clips: Tensor, present: Tensor) -> Tensor:
        """Return pooled features as :func:`skelbench.evaluation.features.pool_bodies` does, with every slot as a row:
        all sizes are the same for all clips."""
        count, slots = clips.shape[:2]
        clips = torch.where(present[:, :, None, None, None], clips, 0.0)
        rows_R = torch.arange(count * slots, device=clips.device)
        view = View(clips.flatten(0, 1), rows_R, clips=count, bodies=slots, stream=self.stream)
        encoded = read_out(self.encoder(view), self.readout, self.grid)
        pooled_RD = encoded.pooled_RD.float()
        if encoded.per_clip:
            return pooled_RD
        dense_BMD = pooled_RD.unflatten(0, (count, slots))
        counted_BM1 = (torch.ones_like(present) if self.every_slot else present)[:, :, None]
        dense_BMD = torch.where(counted_BM1, dense_BMD, 0.0)
        if self.pooling == "concat":
            return dense_BMD.flatten(1)
        sum_BD = dense_BMD.sum(1)
        if self.pooling == "valid-sum":
            return sum_BD
        return sum_BD / (slots if self.pooling == "all-mean" else counted_BM1.sum(1).clamp(min=1))


def write_onnx(encoder: FrozenEncoder, path: Path, clips: np.ndarray, present: np.ndarray) -> float:
    """Write the model to ``path``, and run it by onnxruntime on what :meth:`FrozenEncoder.prepare` made, one clip and
    all at once; the largest difference of a feature from PyTorch's, computed in float32.

    Raises:
        SkelbenchError: a package is missing, the encoder cannot be exported, or the features differ.
    """
    need_onnx()
    model, inputs = Features(encoder).eval(), (torch.from_numpy(clips), torch.from_numpy(present))
    batch = torch.export.Dim.DYNAMIC
    try:
        with torch.no_grad(), _quiet():
            program = torch.onnx.export(
                model,
                inputs,
                input_names=["clips", "present"],
                output_names=["features"],
                dynamic_shapes={"clips": {0: batch}, "present": {0: batch}},
                dynamo=True,
            )
        assert program is not None
        program.save(path, external_data=False)
        pairs = _both(model, path, *inputs)
    except Exception as error:  # the exporter raises many types of errors
        raise SkelbenchError(
            f"encoder {encoder.name} cannot be exported to ONNX: {one_line(error)[:300]}; in its forward the number "
            "of rows must stay open (x.shape[0], not len(x)); or export it without --format onnx"
        ) from error
    difference = max(float(np.abs(ours - exported).max()) for ours, exported in pairs)
    if not difference <= TOLERANCE * max(float(np.abs(ours).max()) for ours, _ in pairs):
        raise SkelbenchError(
            f"the ONNX model of encoder {encoder.name} gives other features than PyTorch, by up to {difference:.2g}, "
            "and was not written; export it without --format onnx"
        )
    return difference


def _both(model: nn.Module, path: Path, clips: Tensor, present: Tensor) -> list[tuple[np.ndarray, np.ndarray]]:
    """Features by PyTorch and by onnxruntime: of the first clip alone, and of all."""
    import onnxruntime

    session, pairs = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"]), []
    for count in (1, len(clips)):
        inputs = {"clips": clips[:count], "present": present[:count]}
        (features,) = session.run(["features"], {name: x.numpy() for name, x in inputs.items()})
        with torch.no_grad():
            pairs.append((model(**inputs).numpy(), features))
    return pairs


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Hide warnings and prints of the exporter."""
    disabled = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(disabled)
