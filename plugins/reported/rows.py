"""Rows of table ``linear`` that figures of ``linear.csv`` stand beside."""

from skelbench.report.linear import GROUPS
from skelbench.report.study_rows import Printed, Row

_OTHERS, _CONTRASTIVE = GROUPS[:2]
_WEIGHTED = "0.6 joint + 0.6 bone + 0.4 motion (logits)"


def _row(method, group, spelling, stream="joint", variant=""):
    printed = Printed("reported-linear", spelling, stream)
    return Row(method=method, variant=variant, labels={"group": group}, printed=printed, expected=False, planned=False)


LINEAR = [
    _row("skeletonclr", _CONTRASTIVE, "SkeletonCLR"),
    _row("aimclr", _CONTRASTIVE, "AimCLR", "bone", "bone"),
    _row("aimclr", _CONTRASTIVE, "AimCLR", "motion", "motion"),
    _row("aimclr", _CONTRASTIVE, "AimCLR", _WEIGHTED),
    _row("umurl", _OTHERS, "UmURL", "joint + bone + motion (input)"),
]
