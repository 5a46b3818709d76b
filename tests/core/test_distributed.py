"""Shares of processes, GPUs of processes, and errors of other processes, without starting any."""

import pytest
import torch

from skelbench.core import distributed
from skelbench.core.errors import PeerLost, SkelbenchError


def test_shares_of_processes_are_complete_and_ordered(monkeypatch):
    for world in (1, 2, 3, 5):
        monkeypatch.setattr(distributed, "world", lambda world=world: world)
        for count in (0, 1, 7, 12):
            shares, pieces = [], []
            for rank in range(world):
                monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
                shares.append(list(range(count))[distributed.own_share(count)])
                starts, shared = distributed.own_pieces(count, 2)
                pieces.append([*starts])
            assert sum(shares, []) == list(range(count))
            assert max(map(len, shares)) - min(map(len, shares)) <= 1
            whole = list(range(0, count, 2))
            assert shared == (1 < world <= len(whole))
            assert sum(pieces, []) == whole if shared else pieces == [whole] * world


def test_each_process_has_its_own_gpu(monkeypatch):
    monkeypatch.setenv("LOCAL_RANK", "1")
    for count, own in ((1, 0), (8, 1)):  # a scheduler shows each process only its own GPU
        monkeypatch.setattr(torch.cuda, "device_count", lambda count=count: count)
        assert distributed._own_gpu() == own
    monkeypatch.setenv("LOCAL_RANK", "4")
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 4)
    with pytest.raises(SkelbenchError, match="process 5 on this machine has no GPU.*--nproc-per-node 4"):
        distributed._own_gpu()


def test_errors_of_other_processes_are_recognized(monkeypatch):
    monkeypatch.setattr(distributed, "active", lambda: True)
    for text in (
        "[../third_party/gloo/gloo/transport/tcp/pair.cc:538] Connection closed by peer [127.0.0.1]:41234",
        "[/pytorch/third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1000ms for recv",
        "NCCL communicator was aborted on rank 0.",
    ):
        with pytest.raises(PeerLost, match="has ended or does not respond"), distributed.reaching():
            raise RuntimeError(text)
    for error in (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), ValueError("NCCL")):
        with pytest.raises(type(error), match=str(error)), distributed.reaching():
            raise error
