"""Freed memory stays with the process where that was asked for, until it is given back."""

import platform
import subprocess
import sys

import pytest

WATCHED = """
import re
import numpy as np
from skelbench.core.malloc import give_back_memory, keep_freed_memory

def held():
    return int(re.search(r"RssAnon:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10  # MB

keep_freed_memory(1 << 30)
before = held()
arrays = [np.ones(40 << 20, np.uint8) for _ in range(4)]
full = held()
del arrays
kept = held()
give_back_memory()
print(full - before, kept - before, held() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="another C library")
def test_what_large_arrays_gave_back_stays_until_it_is_returned():
    said = subprocess.run([sys.executable, "-c", WATCHED], capture_output=True, text=True, check=True).stdout
    full, kept, after = map(int, said.split())
    assert full > 150 and kept > 150 and after < 16
