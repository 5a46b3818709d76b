import pytest
import torch

from skelbench.core import threads


@pytest.fixture(autouse=True)
def threads_as_before():
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def container(root, files):
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


V1, V2 = "3:cpuset:/\n2:cpu,cpuacct:/docker/ab\n1:cpuacct:/x\n", "0::/a/b\n"


@pytest.mark.parametrize(("files", "cores_"), [
    ({}, 64),
    ({"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "max 100000\n"}, 64),
    ({"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 2),
    ({"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "1000 100000\n"}, 1),
    ({"proc/self/cgroup": V2, "sys/fs/cgroup/a/b/cpu.max": "800000 100000",
      "sys/fs/cgroup/a/cpu.max": "300000 100000"}, 3),
    ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}, 4),
    ({"proc/self/cgroup": V1, "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "500000\n",
      "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 5),
    ({"proc/self/cgroup": V1, "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_quota_us": "-1\n",
      "sys/fs/cgroup/cpu/docker/ab/cpu.cfs_period_us": "100000\n"}, 64),
])  # fmt: skip
def test_usable_cores_respect_a_containers_limit(tmp_path, monkeypatch, files, cores_):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(64)), raising=False)
    assert threads.usable_cores(container(tmp_path, files)) == cores_


def test_usable_cores_respect_what_the_process_is_bound_to(tmp_path, monkeypatch):
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {1, 5}, raising=False)
    limit = {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "400000 100000\n"}
    assert threads.usable_cores(container(tmp_path, limit)) == 2


@pytest.mark.parametrize(("load", "free"), [(0.2, 8), (3.4, 8), (12.6, 3), (40.0, 1)])
def test_free_cores_are_those_that_others_leave(monkeypatch, load, free):
    """Of 16, of which this process may use 8."""
    monkeypatch.setattr("os.sched_getaffinity", lambda _: set(range(8)), raising=False)
    monkeypatch.setattr("os.cpu_count", lambda: 16)
    monkeypatch.setattr("os.getloadavg", lambda: (load, 0.0, 0.0))
    assert threads.free_cores() == free


@pytest.mark.parametrize(("named", "threads"), [(None, 1), ("2", 2)])
def test_threads_are_no_more_than_usable_cores_unless_the_user_says_so(monkeypatch, named, threads):
    monkeypatch.delenv("OMP_NUM_THREADS") if named is None else monkeypatch.setenv("OMP_NUM_THREADS", named)
    monkeypatch.setattr("os.sched_getaffinity", lambda _: {0}, raising=False)
    torch.set_num_threads(2)
    threads.limit_threads()
    assert torch.get_num_threads() == threads


@pytest.mark.parametrize(("seconds", "fastest", "tried"), [
    ({8: 1.0, 4: 1.9, 2: 3.8, 1: 7.6}, 8, {8, 4}),  # idle cores: more are faster
    ({8: 90.0, 4: 50.0, 2: 9.0, 1: 1.0}, 1, {8, 4, 2, 1}),  # all of them busy
    ({8: 1.4, 4: 0.9, 2: 0.85, 1: 1.2}, 4, {8, 4, 2, 1}),  # hardly a difference: the first
    ({8: 1.0, 4: 0.95, 2: 1.6, 1: 3.0}, 8, {8, 4, 2}),
])  # fmt: skip
def test_threads_are_as_many_as_make_work_fastest(monkeypatch, seconds, fastest, tried):
    clock, seen = [0.0], set()

    def work():
        seen.add(torch.get_num_threads())
        clock[0] += seconds[torch.get_num_threads()]

    monkeypatch.setattr(threads.time, "perf_counter", lambda: clock[0])
    torch.set_num_threads(8)
    assert threads.fastest_threads(work) == fastest == torch.get_num_threads()
    assert seen == tried


def test_little_work_is_done_by_one_thread_and_the_rest_by_all():
    torch.set_num_threads(2)
    with pytest.raises(ZeroDivisionError), threads.one_thread(256 * 48 * 60):
        assert torch.get_num_threads() == 1
        _ = 1 / 0
    assert torch.get_num_threads() == 2
    with threads.one_thread(256 * 12_800 * 60):
        assert torch.get_num_threads() == 2
