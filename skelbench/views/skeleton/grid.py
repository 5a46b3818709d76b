"""The token grid: how a view of T frames and J joints is cut into N = P * J tokens."""

from __future__ import annotations

from typing import NamedTuple

from skelbench.core.errors import SkelbenchError

# The paper's token budgets (Table "Token-budget configurations"): N_T -> (T, P_T).
BUDGETS: dict[int, tuple[int, int]] = {8: (64, 8), 15: (120, 8), 30: (120, 4)}


class Grid(NamedTuple):
    """``frames`` = T, ``patch`` = P_T (frames per temporal token), ``joints`` = J; joint patch size is 1.

    >>> grid = Grid(frames=64, patch=8, joints=25)
    >>> grid.times, grid.tokens, grid.at(16).tokens
    (8, 200, 50)
    """

    frames: int
    patch: int
    joints: int

    @property
    def times(self) -> int:
        """Temporal tokens P (the paper's N_T)."""
        return self.frames // self.patch

    @property
    def tokens(self) -> int:
        """N = P * J; token n is temporal index n // J, joint n % J."""
        return self.times * self.joints

    def at(self, frames: int) -> Grid:
        """The grid of a view with another number of frames (local views)."""
        if frames < self.patch or frames % self.patch:
            raise SkelbenchError(
                f"a view of {frames} frames cannot be cut into patches of {self.patch} frames; "
                f"choose a view length that is a multiple of the patch"
            )
        return self._replace(frames=frames)
