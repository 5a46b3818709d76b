#!/bin/sh
# Wheels for a machine without network, to be carried there: everything that skelbench and its tests need.
#
#   benchmarks/wheels.sh FOLDER              all but PyTorch, for a machine that has it (2.9 or newer) with torchvision
#   benchmarks/wheels.sh FOLDER --torch      PyTorch and its CUDA libraries too: gigabytes
#
# To be run with the Python version and on the kind of machine that they are for (PYTHON=python3.12). There, in a copy of
# this repository: make gpu WHEELS=FOLDER
set -eu
folder=${1:?the folder that the wheels go to}
constraints=$(dirname "$0")/../constraints.txt
torch='^(torch|torchvision|triton|cuda-[a-z]+|nvidia-[a-z0-9-]+)=='
[ "${2:-}" = --torch ] && torch='^$'
grep -Ev "$torch" "$constraints" | ${PYTHON:-python3} -m pip wheel --no-deps --wheel-dir "$folder" \
    --requirement /dev/stdin 'setuptools>=77' wheel
