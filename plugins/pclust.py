"""Predict and Cluster: a deliberately weak decoder forces the encoder to describe the whole clip (Su et al., CVPR
2020).

Facts: shlizee/Predict-Cluster, NTU_demo.ipynb and ucla_demo.ipynb (TensorFlow) and ucla_github_pytorch. A recurrent
decoder starts from the encoder's feature. With a fixed state, its state is reset to the feature at every frame, and its
output is added to its previous frame. With fixed weights, it has no input and its GRU stays as initialized. R rows, T
frames, L numbers of a frame, in [-1, 1].
"""

from typing import Literal

import torch
from pydantic import Field, model_validator
from skelbench_plugins._recipes import AUTOENCODER_NATIVE, AUTOENCODER_RECIPE, LR_SPACE

from skelbench.methods import Method, SequenceConfig
from skelbench.models.optim.groups import one_group
from skelbench.models.recurrent import FrameDecoder, flattened, frame_mean, unit_range
from skelbench.plugin import MethodSpec, ProtocolSpec, hookimpl


class PClustConfig(SequenceConfig):
    """Defaults follow the notebook for NTU, except ``resize``."""

    decoder: Literal["fixed-state", "fixed-weights"] = Field(
        "fixed-state", description="what keeps the decoder weak: a fixed state or fixed weights"
    )
    freeze_decoder: bool = Field(
        False,
        description="keep the initial weights of the decoder's GRU (the paper's fixed weights; no released code does)",
    )
    target: Literal["next", "same"] = Field(
        "next",
        description="targets of a decoder with fixed state: the next frames, or the input frames (a bug of the PyTorch "
        "code)",
    )
    count_padding: bool = Field(
        False, description="sum errors in padding too, over the number of real frames: a bug of the PyTorch code"
    )

    @model_validator(mode="after")
    def _consistent(self):
        if self.target == "same" and self.decoder == "fixed-weights":
            raise ValueError("decoder=fixed-weights has no fixed state; target is for decoder=fixed-state")
        return self


class PClust(Method):
    """An autoencoder over frames, judged by its feature."""

    Config = PClustConfig
    roles = {"encoder": "student", "decoder": "decoder"}
    whole_batch = ""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()
        self.decoder = FrameDecoder(3 * context.grid.joints * self.encoder.bodies, context.summary_width)
        self.decoder.gru.requires_grad_(not config.freeze_decoder)

    @classmethod
    def views(cls, config, grid):
        return {"clip": config.view(grid)}

    def training_step(self, views, step):
        view, config = views["clip"], self.config
        encoded = self.encoder(view)
        x_RTL, real_RT = flattened(view, unit_range(view.x_RTJC, view.real_RT), encoded, self.encoder.bodies)
        state_RD = encoded.summary_RD
        if config.decoder == "fixed-weights":
            y_RTL = self.decoder(state_RD, torch.zeros_like(x_RTL))
        elif config.target == "same":
            y_RTL = self.decoder(state_RD, x_RTL[:, 0], x_RTL.shape[1])
        else:
            y_RTL = self.decoder(state_RD, x_RTL[:, 0], x_RTL.shape[1] - 1)
            x_RTL, real_RT = x_RTL[:, 1:], None if real_RT is None else real_RT[:, 1:]
        error_RT = (y_RTL.float() - x_RTL).abs().sum(2)
        loss_R = frame_mean(error_RT, real_RT)
        if config.count_padding and real_RT is not None:
            loss_R = error_RT.sum(1) / real_RT.sum(1).clamp(min=1)
        return {"loss": step.mean(loss_R.sum(), len(loss_R))}

    def optim_groups(self):
        """Return one group without weight decay, as in the codes."""
        return one_group(self)


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="pclust",
            spelling="P&C",
            target=":PClust",
            config=":PClustConfig",
            summary="Predict and Cluster (P&C): a weak recurrent decoder reconstructs a clip from its feature",
            citation="Su et al., Predict & Cluster: Unsupervised Skeleton Based Action Recognition, CVPR 2020 "
            "(arXiv 1911.12409)",
            readings="PyTorch's GRU, whose reset gate acts after the product, its matrices drawn as Xavier has them; "
            "coordinates are scaled by the range of the frames that are seen (the code: of the clip before it is "
            "sampled); clips are taken pass by pass (the code: with replacement); the first body is the one that the "
            "dataset puts first; frames in which it is missing are closed up or filled from its "
            "beginning (the code leaves them out). Shared: the feature is the class token, the decoder as wide, every "
            "present body a sequence",
            recipe=AUTOENCODER_RECIPE,
            native=AUTOENCODER_NATIVE,
            space=LR_SPACE,
            variants={
                "fixed-weights": {"method.decoder": "fixed-weights"},
                "frozen": {"method.decoder": "fixed-weights", "method.freeze_decoder": True},
            },
        )
    ]


@hookimpl
def skelbench_protocols():
    return [
        ProtocolSpec(
            name="knn@pclust",
            target="skelbench.evaluation.knn:Knn",
            summary="as knn, first body of whole clips; the authors chose k on test clips (9 on X-Sub: --set k=9)",
            defaults={"bodies": "first", "share": 1.0},
        )
    ]
