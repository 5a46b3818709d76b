"""Baseline without a network: the coordinates are the features. A useful encoder is better than this."""

from skelbench.methods import Method
from skelbench.models.encoder import Encoded, Encoder
from skelbench.plugin import EncoderSpec, MethodSpec, hookimpl


class Coordinates(Encoder):
    """Coordinates of a body, flattened: T x J x 3, frame by frame, then joint by joint. Fused streams give the joint
    stream only, because the other streams are linear maps of it.

    The view is resampled to T frames, with the origin and stream of the run. Bodies are pooled as for every encoder, by
    default to the mean of the present bodies. There are no tokens, so protocols that average tokens get all
    coordinates too.
    """

    abilities = frozenset({"fuse-streams"})

    def __init__(self, config, topology, grid):
        super().__init__(config, topology, grid)
        self.width = self.features = 3 * grid.frames * grid.joints

    def forward(self, view, mask_RN=None, keep_RK=None):
        x_RD = view.x_RTJC.flatten(1)
        return Encoded(tokens_RND=x_RD.new_zeros(x_RD.shape[0], 0, self.width), pooled_RD=x_RD)


class Raw(Method):
    """The coordinates and nothing else."""

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()

    @classmethod
    def views(cls, config, grid):
        return {}


@hookimpl
def skelbench_encoders() -> list[EncoderSpec]:
    return [EncoderSpec(name="raw", target=":Coordinates", summary="coordinates, flattened; no weights (method raw)")]


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="raw",
            target=":Raw",
            summary="baseline: resampled coordinates, flattened; no network",
            recipe={"encoder": "raw"},
            trains=False,
            weights=False,
        )
    ]
