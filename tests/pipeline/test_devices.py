"""Decisions on a GPU before anything runs on it: precision, the current device, deterministic algorithms."""

import os

import pytest
import torch
from small import tiny

from skelbench.pipeline import resolve as module
from skelbench.pipeline.request import Request
from skelbench.pipeline.resolve import resolve
from skelbench.pipeline.session import prepare
from skelbench.plugin.host import get_host


@pytest.mark.parametrize("device,usual", [("cpu", "fp32"), ("cuda:0", "bf16"), ("cuda:1", "fp32")])
def test_bf16_is_the_default_on_gpus_that_support_it(device, usual, data_root, monkeypatch):
    monkeypatch.setattr(module, "has_bf16", lambda device: device != "cuda:1")
    made = resolve(asked(), get_host(), data_root, device)
    assert made.spec.train.precision == usual


def asked(**fields):
    grid = {"dataset": "small", "preset": "paper", "clip_length": 32, "patch": 8, "epochs": 1, "batch_size": 4}
    return Request("mamp", sets=tiny("mamp"), **grid, **fields)


ALLOCATOR = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF"}


def leave_unset(*names, patch):
    """Variables that the code under test may set, which are then put back."""
    for name in names:
        patch.setenv(name, "")
        patch.delenv(name)


def test_a_named_gpu_becomes_current_and_deterministic_on_request(monkeypatch):
    said = []
    monkeypatch.setattr(torch.cuda, "set_device", said.append)
    monkeypatch.setattr(torch.backends.cuda, "enable_cudnn_sdp", lambda on: None)
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    monkeypatch.setattr(torch, "use_deterministic_algorithms", said.append)
    leave_unset("CUBLAS_WORKSPACE_CONFIG", *ALLOCATOR, patch=monkeypatch)
    for device in ("cpu", "cuda", "cuda:1"):
        prepare(device)
    assert said == ["cuda:1"] and "CUBLAS_WORKSPACE_CONFIG" not in os.environ
    assert not torch.backends.cudnn.allow_tf32  # convolutions in float32 are that
    monkeypatch.setenv("SKELBENCH_DETERMINISTIC", "1")
    for device in ("cpu", "cuda:1"):
        prepare(device)
    assert said == ["cuda:1", "cuda:1", True] and os.environ["CUBLAS_WORKSPACE_CONFIG"] == ":16:8"
