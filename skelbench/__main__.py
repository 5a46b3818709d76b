"""``python -m skelbench``: what ``torchrun -m skelbench`` starts."""

import sys

from skelbench.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
