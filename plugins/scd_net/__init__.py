"""SCD-Net: what a clip is over time and over joints, each told from the clip as a whole (Wu et al., AAAI 2024).

Of two views of a clip, in which joints and stretches of frames may be missing, the embedding over time and that over
joints have the key of the whole as their positive, and the embedding of the whole has the key of either; nothing is
compared with its own kind. Facts: cong-wu/SCD-Net, scd/builder.py, pretraining.py, feeder/augmentations.py and
feeder_pretraining.py. B clips, E width of an embedding.
"""

from pydantic import Field
from skelbench_plugins._recipes import LONG_CONTRAST_NATIVE, LONG_CONTRAST_RECIPE, MOMENTUM_SPACE, RATES_SPACE

from skelbench.methods import DistortedContrastConfig, LevelContrast
from skelbench.models.contrast import info_nce, similarities
from skelbench.plugin import EncoderSpec, Log, MethodSpec, NativeProbe, hookimpl
from skelbench.views import AxisRotate, HideFrames, HideJoints, Mirror, Shear

PAIRS = (("time", "instance"), ("space", "instance"), ("instance", "time"), ("instance", "space"))
"""A level of the query, and the level whose keys it is compared with."""


class SCDNetConfig(DistortedContrastConfig):
    """Defaults are those of the authors' code, but for ``resize``."""

    queue: int = Field(8192, ge=1, description="keys in each queue")
    temperature: float = Field(0.2, gt=0, description="of the softmax over keys")


class SCDNet(LevelContrast):
    """Time and space against the whole, and the whole against either."""

    Config = SCDNetConfig

    @classmethod
    def views(cls, config, grid):
        missing = (AxisRotate(p=0.5), Mirror(reflect=False), Shear(p=0.5, amplitude=1.0), HideJoints(), HideFrames())
        return {name: config.view(grid, stream=config.stream, augment=missing) for name in ("query", "key")}

    def training_step(self, views, step):
        clips = views["query"].clips
        query, key, keys = self.embeddings(views, step)
        loss = {}
        for level, other in PAIRS:
            loss_B = info_nce(similarities(query[level], key[other], keys[other], self.config.temperature))
            loss[f"{level}_{other}"] = step.mean(loss_B.sum(), clips)
        return {"loss": sum(loss.values()), **{pair: x.detach() for pair, x in loss.items()}}


@hookimpl
def skelbench_encoders():
    return [
        EncoderSpec(
            name="scd-net",
            target="skelbench_plugins.scd_net.encoder:SCDNetEncoder",
            config="skelbench_plugins.scd_net.encoder:SCDNetEncoderConfig",
            summary="graph convolutions and a transformer layer over frames, others over joints of both bodies",
            presets={"small": {"dim": 64, "channels": 16}, "quick": {"dim": 48, "channels": 8}},
        )
    ]


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="scd-net",
            spelling="SCD-Net",
            target=":SCDNet",
            version=2,
            config=":SCDNetConfig",
            probe=NativeProbe(protocol="linear@hico", best_on_test=True),
            summary="what a clip is over time, and over joints, is told from the keys of whole clips and the other way "
            "round, with joints and stretches of frames missing",
            citation="Wu et al., SCD-Net: Spatiotemporal Clues Disentanglement Network for Self-supervised "
            "Skeleton-based Action Recognition, AAAI 2024 (arXiv 2309.05834)",
            requires=("time-and-space",),
            readings="bones and motion are made after augmenting (the code: before; the same but for what is missing); "
            "which of joints with as many walks are hidden is drawn (the code: as its sort leaves them); only keys "
            "that have been written are negatives (the code begins with random ones); "
            "shared: time is the maximum over patches of the tokens' mean over joints, space the maximum over joints "
            "of their mean over patches, the instance the class token, each a mean over the clip's bodies",
            recipe=LONG_CONTRAST_RECIPE,
            native=LONG_CONTRAST_NATIVE | {"encoder": "scd-net"},
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.05, 0.5)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
