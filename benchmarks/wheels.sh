#!/bin/sh
# Download wheels for a machine without network: everything that skelbench and its tests need.
#
#   benchmarks/wheels.sh FOLDER              all but PyTorch, for a machine that has it (2.9 or newer) with torchvision
#   benchmarks/wheels.sh FOLDER --torch      PyTorch and its CUDA libraries too: gigabytes
#
# Run it with the Python version of that machine (PYTHON=python3.12), on a similar machine. Then copy the folder and run
# in a copy of this repository there: make gpu WHEELS=FOLDER
set -eu
folder=${1:?name the folder for the wheels}
constraints=$(dirname "$0")/../constraints.txt
torch='^(torch|torchvision|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)=='
[ "${2:-}" = --torch ] && torch='^$'
grep -Ev "$torch" "$constraints" | ${PYTHON:-python3} -m pip wheel --no-deps --wheel-dir "$folder" \
    --requirement /dev/stdin 'setuptools>=77' wheel
