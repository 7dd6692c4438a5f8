"""An app attacks its own /etc/hosts, which ``ocipod`` writes when another pod joins or leaves."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.pods.test_names import Pods, image, lan, pods
from tests.support import processes, static_program
from tests.support.images import make_layout
from tests.support.network_host import NetworkHost, namespaces, own_host
from tests.support.peers import judge_by

__all__ = ("image", "lan", "namespaces", "own_host", "pods")

pytestmark = judge_by("ociruntime")

HOSTILE = """
chmod 0 /etc/hosts; rm -f /etc/hosts; mv /etc/passwd /etc/hosts; ln -sf /etc/passwd /etc/hosts
ln /etc/hosts /tmp/link; mv /etc /tmp/etc; chown 7:7 /etc/hosts
while :; do echo 6.6.6.6 trap >> /etc/hosts || sleep 1; done
"""


def started(pods: Pods, *words: str) -> str:
    command = ("run", "--detach", "--net=lan", "--hostname=bad", pods.image, "--name=bad-app")
    return pods.ocipod(pods.local, *command, *words).ok().out.strip()


def test_an_app_that_writes_without_end(pods: Pods, host: NetworkHost) -> None:
    """Other pods can still start, join and leave."""
    powers = "--caps-retain=CAP_DAC_OVERRIDE,CAP_CHOWN,CAP_FOWNER,CAP_KILL"
    bad = started(pods, powers, "--exec=/bin/sh", "--", "-c", HOSTILE)
    path = pods.ocipod.path(bad) / "hosts"
    assert processes.until(lambda: b"6.6.6.6" in path.read_bytes())
    one = pods.start("a")
    assert pods.hosts(one) == ["10.7.0.2\tbad-app bad", "10.7.0.3\ta-app a"]
    other = pods.start("b")
    assert len(pods.hosts(one)) == 3
    assert path.is_file()
    assert not path.is_symlink()
    pods.end(host, other, bad, one)


@pytest.fixture(scope="session")
def lease(base: Path) -> bytes:
    return static_program.build(base / "lease", Path(__file__).with_name("lease.c")).read_bytes()


def test_an_app_with_a_lease(pods: Pods, host: NetworkHost, work: Path, lease: bytes) -> None:
    """With a lease, open(2) by another process waits up to 45 seconds."""
    make_layout(work / "lease", files={"bin/lease": lease})
    pods.image = f"oci:{work}/lease:latest"
    bad = started(
        pods,
        "--exec=/bin/busybox",
        "--",
        "sh",
        "-c",
        "cp /bin/lease /tmp; chmod 755 /tmp/lease; exec /tmp/lease",
    )
    log = pods.ocipod.path(bad) / "logs/bad-app.log"
    assert processes.until(lambda: log.exists() and "leased" in log.read_text())
    one = pods.start("a")
    assert pods.hosts(one) == ["10.7.0.2\tbad-app bad", "10.7.0.3\ta-app a"]
    # Had it waited, the kernel would have removed the lease.
    inode = (pods.ocipod.path(bad) / "hosts").stat().st_ino
    locks = Path("/proc/locks").read_text().splitlines()
    assert any("LEASE" in line and f":{inode} " in line for line in locks)
    pods.end(host, bad, one)
