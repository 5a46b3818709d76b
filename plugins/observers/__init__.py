"""Observers (further logs of a run): ``skelbench run METHOD --observe tensorboard``."""
