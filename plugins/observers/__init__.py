"""Where else a run can be logged: ``skelbench run METHOD --observe tensorboard``."""
