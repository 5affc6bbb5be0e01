"""Limits of control groups, as different machines lay them out."""

from __future__ import annotations

from runtime.platforms.cpu import cgroups

V2 = {
    "proc/self/cgroup": "0::/a/b\n",
    "sys/fs/cgroup/cgroup.controllers": "cpu memory\n",
    "sys/fs/cgroup/a/memory.max": "1000\n",
    "sys/fs/cgroup/a/memory.current": "700\n",
    "sys/fs/cgroup/a/memory.stat": "anon 500\ninactive_file 100\n",
    "sys/fs/cgroup/a/cpu.max": "150000 100000\n",
    "sys/fs/cgroup/a/b/memory.max": "max\n",
    "sys/fs/cgroup/a/b/cpu.max": "max 100000\n",
}
V1 = {
    "proc/self/cgroup": "4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
    "sys/fs/cgroup/memory/job/memory.limit_in_bytes": "2000\n",
    "sys/fs/cgroup/memory/job/memory.usage_in_bytes": "500\n",
    "sys/fs/cgroup/memory/job/memory.stat": "cache 9\ntotal_inactive_file 50\n",
    "sys/fs/cgroup/cpu/job/cpu.cfs_quota_us": "300000\n",
    "sys/fs/cgroup/cpu/job/cpu.cfs_period_us": "100000\n",
}


def test_version_2_takes_the_tightest_ancestor(machine):
    root = machine(V2)
    assert cgroups.memory_limit(root) == 1000
    assert cgroups.memory_left(root) == 400
    assert cgroups.cpu_quota(root) == 1.5


def test_version_1(machine):
    root = machine(V1)
    assert cgroups.memory_limit(root) == 2000
    assert cgroups.memory_left(root) == 1550
    assert cgroups.cpu_quota(root) == 3


def test_a_container_sees_its_group_at_the_mount(machine):
    root = machine(
        {
            "proc/self/cgroup": "0::/../../host/path\n",
            "sys/fs/cgroup/cgroup.controllers": "memory\n",
            "sys/fs/cgroup/memory.max": "300\n",
            "sys/fs/cgroup/memory.current": "400\n",
        }
    )
    assert cgroups.memory_limit(root) == 300
    assert cgroups.memory_left(root) == 0


def test_no_limits(machine):
    root = machine(
        {
            "proc/self/cgroup": "1:cpu:/\n0::/\n",
            "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n",
            "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
        }
    )
    assert cgroups.memory_limit(root) is None
    assert cgroups.memory_left(root) is None
    assert cgroups.cpu_quota(root) is None


def test_a_system_without_control_groups(tmp_path):
    assert cgroups.memory_limit(tmp_path) is None
    assert cgroups.cpu_quota(tmp_path) is None
