"""Control: an encoder that is evaluated as initialized. The gain of a method is its difference to this baseline."""

from skelbench.methods import Method
from skelbench.plugin import MethodSpec, hookimpl


class Untrained(Method):
    """The run's encoder and nothing else."""

    roles = {"encoder": "student"}

    def __init__(self, config, context):
        super().__init__(config, context)
        self.encoder = context.encoder()

    @classmethod
    def views(cls, config, grid):
        return {}


@hookimpl
def skelbench_methods() -> list[MethodSpec]:
    return [
        MethodSpec(
            name="untrained",
            target=":Untrained",
            summary="baseline: the encoder with initial weights, never trained",
            trains=False,
        )
    ]
