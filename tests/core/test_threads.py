"""Usable cores and numbers of threads."""

import pytest
import torch

from skelbench.core import threads


@pytest.mark.parametrize(("limits", "cores"), [
    ({}, 8),
    ({"a/b": "max 100000"}, 8),
    ({"a/b": "150000 100000"}, 2),
    ({"a/b": "1000 100000"}, 1),
    ({"a/b": "800000 100000", "a": "300000 100000"}, 3),
    ({"": "400000 100000"}, 4),
])  # fmt: skip
def test_usable_cores_respect_affinity_and_quota(tmp_path, monkeypatch, limits, cores):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    for group, text in {
        "proc/self/cgroup": "0::/a/b\n",
        **{f"sys/fs/cgroup/{k}/cpu.max": v for k, v in limits.items()},
    }.items():
        (tmp_path / group).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / group).write_text(text)
    assert threads.usable_cores(tmp_path) == cores


@pytest.mark.parametrize(("named", "number"), [(None, 1), ("2", 2)])
def test_threads_are_no_more_than_usable_cores_unless_the_user_names_a_number(monkeypatch, named, number):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if named:
        monkeypatch.setenv("OMP_NUM_THREADS", named)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)
    torch.set_num_threads(2)
    threads.limit_threads()
    assert torch.get_num_threads() == number


@pytest.mark.parametrize(("seconds", "fastest", "tried"), [
    ({8: 1.0, 4: 1.9, 2: 3.8, 1: 7.6}, 8, {8, 4}),  # idle cores
    ({8: 90.0, 4: 50.0, 2: 9.0, 1: 1.0}, 1, {8, 4, 2, 1}),  # busy cores
    ({8: 1.4, 4: 0.9, 2: 0.85, 1: 1.2}, 4, {8, 4, 2, 1}),  # hardly a difference: the first
])  # fmt: skip
def test_the_fastest_number_of_threads_is_chosen(monkeypatch, seconds, fastest, tried):
    clock, seen = [0.0], set()

    def work():
        seen.add(torch.get_num_threads())
        clock[0] += seconds[torch.get_num_threads()]

    monkeypatch.setattr(threads.time, "perf_counter", lambda: clock[0])
    torch.set_num_threads(8)
    assert threads.fastest_threads(work) == fastest == torch.get_num_threads()
    assert seen == tried


def test_small_operations_use_one_thread():
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError), threads.one_thread(256 * 48 * 60):
        assert torch.get_num_threads() == 1
        _ = 1 / 0
    assert torch.get_num_threads() == 2
    with threads.one_thread(256 * 12_800 * 60):
        assert torch.get_num_threads() == 2
