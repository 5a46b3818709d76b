"""Control: coordinates in place of features, no network. What an encoder adds is what it gains over this."""

from skelbench.methods import Method
from skelbench.models.encoder import Encoded, Encoder
from skelbench.plugin import EncoderSpec, MethodSpec, hookimpl


class Coordinates(Encoder):
    """T x J x 3 coordinates of a body, frame by frame and in it joint by joint: the view flattened, nothing more (of
    fused streams only the joints': the other streams are linear maps of it).

    The view is the run's own: resampled to T frames, with its origin and stream. Bodies of a clip become one as those
    of every encoder do: by default the mean of the bodies that are there. There are no tokens to average, so that
    protocols which do that see all of them as well.
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
