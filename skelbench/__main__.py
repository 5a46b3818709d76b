"""``python -m skelbench``: what ``torchrun -m skelbench`` starts."""

import os
import sys

from skelbench.cli.main import main
from skelbench.core.signals import several

if __name__ == "__main__":
    code = main()
    if code and several():  # nothing is tidied up that would wait for a process that is gone
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)
    sys.exit(code)
