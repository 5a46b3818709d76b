"""Campaigns: long runs that try to make skelbench lose, mangle or misread something, each a command of its own.

``python -m tests.campaign.NAME`` from the root of the repository; a short version of each runs with the tests.
"""

import sys
from pathlib import Path

if (tests := str(Path(__file__).parents[1])) not in sys.path:  # as pytest has it: fixtures are imported from there
    sys.path.append(tests)
