"""Rows of the tables that show the numbers of the CSV files here."""

from skelbench.reporting.linear import GROUPS
from skelbench.reporting.study_rows import Printed, Row

_OTHERS, _CONTRASTIVE, _MASKED = GROUPS[:3]
_WEIGHTED = "0.6 joint + 0.6 bone + 0.4 motion (logits)"


def _row(method, group, spelling, stream="joint", variant="", expected=False):
    printed = Printed("reported-linear", spelling, stream)
    labels = {"group": group}
    return Row(method=method, variant=variant, labels=labels, printed=printed, expected=expected, planned=False)


LINEAR = [
    _row("skeletonclr", _CONTRASTIVE, "SkeletonCLR"),
    # Its authors publish only three streams, and the paper's Table 1 lacks it: shown also without a run.
    _row("crosclr", _CONTRASTIVE, "CrosSCLR", "joint + bone + motion (logits)", expected=True),
    _row("aimclr", _CONTRASTIVE, "AimCLR", "bone", "bone"),
    _row("aimclr", _CONTRASTIVE, "AimCLR", "motion", "motion"),
    _row("aimclr", _CONTRASTIVE, "AimCLR", _WEIGHTED),
    _row("umurl", _OTHERS, "UmURL", "joint + bone + motion (input)"),
    # Joint stream, not in the paper's Table 1: shown also without a run.
    _row("umurl", _OTHERS, "UmURL", expected=True),
    _row("hico", _CONTRASTIVE, "HiCo", expected=True),
    _row("pcm3", _CONTRASTIVE, "PCM3", expected=True),
    _row("scd-net", _CONTRASTIVE, "SCD-Net", expected=True),
    _row("skeattnclr", _CONTRASTIVE, "SkeAttnCLR", expected=True),
    _row("isc", _CONTRASTIVE, "ISC", expected=True),
    _row("stars", _MASKED, "STARS", expected=True),
    # Published by others; no plugin implements them.
    _row("masksem", _MASKED, "MaskSem", expected=True),
    _row("skeleton2vec", _MASKED, "Skeleton2vec", expected=True),
    _row("ms-clr", _CONTRASTIVE, "MS-CLR", expected=True),
    _row("ha-cm", _CONTRASTIVE, "HA-CM", expected=True),
    _row("tranclr", _CONTRASTIVE, "TranCLR", expected=True),
    _row("usdrl-plus", _OTHERS, "USDRL+", expected=True),
]


def _column(table, method, spelling, column, printed, variant="", stream="joint"):
    labels = {"column": column, "stream": stream}
    return Row(method=method, variant=variant, labels=labels, planned=False, printed=Printed(table, spelling, printed))


SEMI = [_column("reported-semi", "macdiff", "MacDiff", f"semi@{share}", f"{share}%") for share in (1, 10)]
RETRIEVAL = [
    _column("reported-retrieval", "scd-net", "SCD-Net", "accuracy", "joint"),
    # Next to the older results that the paper prints.
    _column(
        "reported-retrieval", "umurl", "UmURL", "accuracy", "joint+bone+motion", "repository", "joint + bone + motion"
    ),
]
