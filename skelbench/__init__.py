"""skelbench: compare self-supervised skeleton methods under one data set, token budget, probe and cost convention.

Importing this package is cheap: nothing here, nor in :mod:`skelbench.plugin`, imports torch.
"""

__version__ = "0.1.0"
