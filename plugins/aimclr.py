"""AimCLR: extreme augmentations taught by normal ones (Guo et al., AAAI 2022).

SkeletonCLR, whose softmax over keys is also taught to a strongly augmented view, once as it is and once with its most
energetic features gone; in the second half the nearest keys of all three count as positives. Facts: Levigty/AimCLR,
net/aimclr.py, net/st_gcn.py, feeder/tools.py.
"""

from pydantic import Field
from skelbench_plugins._recipes import GRAPH_CONTRAST_NATIVE, GRAPH_CONTRAST_RECIPE, MOMENTUM_SPACE, RATES_SPACE

from skelbench.methods import ExtremeContrast, ExtremeContrastConfig
from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl


class AimCLRConfig(ExtremeContrastConfig):
    """Defaults are those of the authors' code."""

    mining_from: float = Field(0.5, ge=0, le=1, description="share of the schedule without positives among the keys")


class AimCLR(ExtremeContrast):
    """Momentum contrast, and a strongly augmented view that learns the normal one's distribution over keys."""

    Config = AimCLRConfig

    @classmethod
    def views(cls, config, grid):
        return {"strong": config.view(grid, *config.strong()), "query": config.view(grid), "key": config.view(grid)}

    def phases(self):
        return [("contrast", 0.0), ("mining", self.config.mining_from)]

    def training_step(self, views, step):
        return self.contrast(views["strong"], views["query"], views["key"], step, step.phase == "mining")


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="aimclr",
            spelling="AimCLR",
            target=":AimCLR",
            version=2,
            config=":AimCLRConfig",
            summary="a strongly augmented view learns a normal one's similarities to keys; near keys become positives",
            citation="Guo et al., Contrastive Learning from Extremely Augmented Skeleton Sequences for Self-supervised "
            "Action Recognition, AAAI 2022 (arXiv 2112.03590)",
            requires=("cells",),
            readings="as skeletonclr; what is dropped is made up for over the batch of all processes; an empty body "
            "slot has no noise (--native: the code's has); on an encoder with a class token the head sees it beside "
            "the mean of all tokens, the dropped ones among them at 0",
            recipe=GRAPH_CONTRAST_RECIPE,
            native=GRAPH_CONTRAST_NATIVE,
            imports="skelbench.methods.momentum_contrast:imported",
            probe=NativeProbe(protocol="linear@aimclr", best_on_test=True),
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.03, 0.3)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
