"""Observers, which log a run elsewhere too: ``skelbench run METHOD --observe tensorboard``."""
