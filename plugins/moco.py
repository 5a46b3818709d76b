"""MoCo on the recurrent family's views and encoder: the baseline of CMD, HaLP and PCM3, and HaLP's first stage.

Facts: anshulbshah/HaLP, moco/builder_single_modality_baseline.py.
"""

from skelbench_plugins._recipes import LONG_CONTRAST_NATIVE, LONG_CONTRAST_RECIPE, MOMENTUM_SPACE, RATES_SPACE

from skelbench.plugin import Log, MethodSpec, NativeProbe, hookimpl


@hookimpl
def skelbench_methods():
    return [
        MethodSpec(
            name="moco",
            spelling="MoCo",
            target="skelbench.methods.recurrent_contrast:RecurrentContrast",
            config="skelbench.methods.view_settings:DistortedContrastConfig",
            imports="skelbench.methods.recurrent_contrast:imported",
            probe=NativeProbe(protocol="linear@cmd", best_on_test=True, settings={"": {"lr": 0.005}}),
            summary="momentum contrast of two distorted crops (MoCo); the first stage of HaLP",
            citation="He et al., Momentum Contrast for Unsupervised Visual Representation Learning, CVPR 2020 (arXiv "
            "1911.05722), as in HaLP and CMD",
            readings="native: HaLP's first 200 epochs on NTU, at one rate (500 on PKU-MMD: --epochs 500); only written "
            "keys are negatives; clips are not cut to their first 300 frames; shared: a clip's present bodies averaged",
            recipe=LONG_CONTRAST_RECIPE,
            native=LONG_CONTRAST_NATIVE | {"train.epochs": 200, "schedule.milestones": ()},
            space=RATES_SPACE | MOMENTUM_SPACE | {"method.temperature": Log(0.03, 0.3)},
            variants={"bone": {"method.stream": "bone"}, "motion": {"method.stream": "motion"}},
        )
    ]
