"""SkeletonCLR: MoCo v2 on skeletons (Li et al., CVPR 2021, the baseline of CrosSCLR).

Two views of a clip agree and differ from the keys of earlier clips in a queue; keys come from an encoder that follows
by moving average. Facts: LinguoLi/CrosSCLR, net/skeletonclr.py and feeder/tools.py.
"""

from skelbench_plugins._recipes import GRAPH_CONTRAST_NATIVE, GRAPH_CONTRAST_RECIPE, MOMENTUM_SPACE, RATES_SPACE

from skelbench.methods import MomentumContrast
from skelbench.models.contrast import info_nce, similarities
from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl


class SkeletonCLR(MomentumContrast):
    """Momentum contrast between two sheared and shifted views of a clip."""

    @classmethod
    def views(cls, config, grid):
        return {"query": config.view(grid), "key": config.view(grid)}

    def training_step(self, views, step):
        query_BE = self.queries(views["query"])
        key_BE, keys_nE = self.keys(views["key"], step)
        loss_B = info_nce(similarities(query_BE, key_BE, keys_nE, self.config.temperature))
        step.watch("query", query_BE)
        return {"loss": step.mean(loss_B.sum(), len(loss_B))}


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="skeletonclr",
            spelling="SkeletonCLR",
            target=":SkeletonCLR",
            version=2,
            config="skelbench.methods.momentum_contrast:MomentumContrastConfig",
            summary="momentum contrast of two views of a clip (MoCo v2)",
            citation="Li et al., 3D Human Action Representation Learning via Cross-View Consistency Pursuit, CVPR 2021 "
            "(arXiv 2104.14466)",
            readings="the learning rate of the shared setting (the code's, with batch norm, is ten times as large); "
            "crops are drawn before resampling and in continuous time; unfilled queue slots are skipped; the key "
            "encoder starts as a copy; a clip's present bodies are averaged (the code and --native: empty ones too)",
            recipe=GRAPH_CONTRAST_RECIPE,
            native=GRAPH_CONTRAST_NATIVE,
            imports="skelbench.methods.momentum_contrast:imported",
            probe=NativeProbe(protocol="linear@aimclr", best_on_test=True),
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.03, 0.3)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
