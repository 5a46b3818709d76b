"""A real SLURM on this machine, without root: two made-up nodes of one core, two partitions.

Debian's packages are downloaded and unpacked into a folder; nothing is installed. Jobs of partition ``high`` take the
place of those of ``low``, which are told 30 seconds before and go back into the queue.
"""

from __future__ import annotations

import os
import platform
import secrets
import shutil
import signal
import socket
import subprocess
import time
from contextlib import suppress
from getpass import getuser
from pathlib import Path

PACKAGES = (
    "slurmctld", "slurmd", "slurm-client", "slurm-wlm-basic-plugins", "munge", "libhwloc15", "libmunge2", "libjson-c5",
    "liblua5.1-0", "libnuma1",
)  # fmt: skip
CONFIG = """\
ClusterName=sandbox
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={run}/munge.sock,cred_expire=5
CredType=cred/munge
PluginDir={plugins}
StateSaveLocation={run}/state
SlurmdSpoolDir={run}/spool-%n
SlurmctldPidFile={run}/ctld.pid
SlurmdPidFile={run}/slurmd-%n.pid
SlurmctldLogFile={run}/ctld.log
SlurmdLogFile={run}/slurmd-%n.log
SlurmctldPort={ports[0]}
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
JobCompType=jobcomp/none
MpiDefault=none
ReturnToService=2
SchedulerParameters=batch_sched_delay=1,sched_interval=1
SlurmctldParameters=preempt_send_user_signal
SlurmdParameters=config_overrides
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
KillWait=5
MaxArraySize=11
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=1 RealMemory=8000 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[2]} CPUs=1 RealMemory=8000 State=UNKNOWN
PartitionName=low Nodes=ALL Default=YES MaxTime=INFINITE State=UP PriorityTier=1 PreemptMode=REQUEUE GraceTime=30
PartitionName=high Nodes=ALL MaxTime=INFINITE State=UP PriorityTier=10 PreemptMode=OFF
"""


class Absent(Exception):
    """The packages cannot be had here."""


class Sandbox:
    """``with Sandbox(folder) as slurm:`` it is up; :attr:`environment` is for ``sbatch`` and the others."""

    def __init__(self, folder: Path) -> None:
        self.root, self.run = folder / "root", folder / "run"
        library = self.root / f"usr/lib/{platform.machine()}-linux-gnu"
        self.plugins = library / "slurm-wlm"
        path = os.pathsep.join([f"{self.root}/usr/bin", f"{self.root}/usr/sbin", os.environ["PATH"]])
        self.environment = dict(os.environ) | {
            "PATH": path,
            "LD_LIBRARY_PATH": f"{self.plugins}:{library}",
            "SLURM_CONF": str(self.run / "slurm.conf"),
        }

    def __enter__(self) -> Sandbox:
        self.install()
        for name in ("state", "spool-n1", "spool-n2"):
            (self.run / name).mkdir(parents=True)
        self.run.chmod(0o700)
        key = self.run / "munge.key"
        key.write_bytes(secrets.token_bytes(128))
        key.chmod(0o400)
        places = {"host": socket.gethostname().partition(".")[0], "user": getuser(), "run": self.run}
        text = CONFIG.format(**places, plugins=self.plugins, ports=_ports(3))
        (self.run / "slurm.conf").write_text(text)
        try:
            files = [f"--{name}-file={self.run}/munge.{name}" for name in ("key", "log", "pid", "seed")]
            self.call("munged", "--force", "--num-threads=2", f"--socket={self.run}/munge.sock", *files)
            self.start_controller("-c")
            for node in ("n1", "n2"):
                self.call("slurmd-wlm", "-c", "-N", node, "-d", f"{self.root}/usr/sbin/slurmstepd-wlm")
            self.wait_for(lambda: self.call("sinfo", "-h", "-N", "-p", "low", "-t", "idle").count("\n") == 2)
        except BaseException:
            self.__exit__()
            raise
        return self

    def install(self) -> None:
        """Raises :class:`Absent` with the reason."""
        if self.plugins.is_dir():
            return
        if not all(map(shutil.which, ("apt-get", "dpkg"))):
            raise Absent("Debian's packages of SLURM need apt-get and dpkg")
        debs = self.root.with_name("deb")
        debs.mkdir(parents=True, exist_ok=True)
        got = subprocess.run(["apt-get", "download", *PACKAGES], cwd=debs, capture_output=True, text=True, timeout=300)
        if got.returncode:
            raise Absent(f"Debian's packages of SLURM cannot be downloaded: {got.stderr.strip().splitlines()[-1]}")
        for deb in debs.glob("*.deb"):
            subprocess.run(["dpkg", "-x", str(deb), str(self.root)], check=True)

    def call(self, *words: str) -> str:
        """What a command prints; AssertionError if it fails."""
        with open(self.run / "said", "wb") as said:  # a daemon would hold a pipe open
            done = subprocess.run(words, env=self.environment, stdout=said, stderr=said, timeout=60, check=False)
        text = (self.run / "said").read_text()
        assert done.returncode == 0, f"{' '.join(words)}: {text}"
        return text

    def start_controller(self, *options: str) -> None:
        self.call("slurmctld-wlm", *options)

    def restart_controller(self) -> None:
        """As after a crash: killed without warning, and started with what it has saved."""
        pid = int((self.run / "ctld.pid").read_text())
        os.kill(pid, signal.SIGTERM)
        self.wait_for(lambda: not Path(f"/proc/{pid}").exists())
        self.start_controller()

    def wait_for(self, condition, seconds: float = 60) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            with suppress(AssertionError):
                if condition():
                    return
            time.sleep(0.5)
        raise AssertionError("SLURM takes too long")

    def __exit__(self, *_: object) -> None:
        with suppress(AssertionError):
            self.call("scancel", "-u", getuser())
            self.wait_for(lambda: not self.call("squeue", "-h"), 30)
        for name in ("slurmd-n1.pid", "slurmd-n2.pid", "ctld.pid", "munge.pid"):
            with suppress(OSError, ValueError):
                os.kill(int((self.run / name).read_text()), signal.SIGTERM)


def _ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]
    finally:
        for each in sockets:
            each.close()
