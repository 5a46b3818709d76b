"""ActCLR's augmentation of bone lengths. R rows (bodies), K of them changed, J joints."""

import torch
from pydantic import Field

from skelbench.errors import SkelbenchError
from skelbench.views import Augment

from .mixes import paths, root_of


class BoneShrink(Augment):
    """Each bone of a body gets a factor of its own, uniform in [lo, hi], and keeps its direction; the joint where the
    bone stream begins stays in its place (LanglandsLin/ActCLR, feeder/tools.py, rescale).

    >>> BoneShrink()
    BoneShrink(p=1.0, lo=0.0, hi=0.5)
    """

    kind = "bone-shrink"
    p: float = 1.0
    lo: float = Field(0.0, description="smallest factor")
    hi: float = Field(0.5, description="largest factor")

    def draw(self, draws):
        bones = draws.topology.bones
        start_JJ = torch.eye(len(bones), dtype=torch.float64)[list(bones)]
        bone_JJ = torch.eye(len(bones), dtype=torch.float64) - start_JJ
        factor_KJ = self.lo + draws.per_body(len(bones)) * (self.hi - self.lo)
        moved_KJJ = torch.einsum("ij,kj,jl->kil", paths(bones).double(), factor_KJ, bone_JJ)
        moved_KJJ[:, :, root_of(bones)] += 1
        return draws.linear(joints_KJJ=moved_KJJ.transpose(1, 2).float())

    def check(self, where):
        super().check(where)
        if not 0 <= self.lo <= self.hi:
            raise SkelbenchError(f"{where}: bones shrink by factors from {self.lo} to {self.hi}; give 0 <= lo <= hi")
