"""NOTIFY_SOCKET: sd_notify(3) of the container's program reaches the service manager."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.notify import Manager
from tests.support.peers import judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import needs_mount_api

pytestmark = judge_by("ociruntime")


@pytest.fixture
def manager(work: Path) -> Iterator[Manager]:
    made = Manager(work / "manager")
    yield made
    made.close()


def start(one: object, manager: Manager) -> subprocess.Popen[bytes]:
    words = one.runtime.command("start", one.id)  # type: ignore[attr-defined]
    return subprocess.Popen(words, env=manager.environment, stdin=subprocess.DEVNULL)


OWN = needs_mount_api("a directory that root of the user namespace cannot enter")


@pytest.mark.parametrize("users", ["same", pytest.param("own", marks=OWN)])
def test_start_waits_until_it_is_ready(
    container: MakeContainer, bundle: MakeBundle, manager: Manager, users: str
) -> None:
    """For any user of the program; messages that control the manager are dropped."""
    made = bundle()
    if users == "own":
        made.user_namespace()
        made.process["user"] = {"uid": 7, "gid": 8}
    made.shell(
        "read go; probe notify STATUS=begins MAINPID=1; "
        "probe notify 'READY=1\nMAINPID=77\nFDSTORE=1\nSTATUS=up' && sleep 100"
    )
    reader, writer = os.pipe()
    one = container(made)
    one.create(env=manager.environment, stdin=reader).silent()
    os.close(reader)
    starting = start(one, manager)
    assert processes.until(lambda: one.status == "running")
    time.sleep(0.2)
    assert starting.poll() is None
    os.write(writer, b"go\n")
    os.close(writer)
    assert manager.receive() == "STATUS=begins"
    assert manager.receive() == f"READY=1\nSTATUS=up\nMAINPID={one.pid}"
    assert manager.receive() == "BARRIER=1"
    assert starting.wait(20) == 0
    assert one.status == "running"
    one.delete("--force").silent()
    assert os.listdir(one.runtime.root) == [] or one.id not in os.listdir(one.runtime.root)


def test_start_ends_with_a_program_that_was_never_ready(
    container: MakeContainer, bundle: MakeBundle, manager: Manager
) -> None:
    one = container(bundle().shell("probe notify STOPPING=1"))
    one.create(env=manager.environment).silent()
    assert start(one, manager).wait(20) == 0
    assert manager.receive() == "STOPPING=1"
    assert manager.quiet()
    one.delete().silent()


def test_run_detached(container: MakeContainer, bundle: MakeBundle, manager: Manager) -> None:
    one = container(bundle().shell("probe notify READY=1; sleep 100"))
    one.bundle.save()
    words = ("run", "--detach", "--bundle", str(one.bundle.path))
    command = one.runtime.command(*words, "--pid-file", str(one.pid_file), one.id)
    running = subprocess.Popen(
        command, env=manager.environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
    )
    one.exists = True
    assert manager.receive() == f"READY=1\nMAINPID={one.pid}"
    assert manager.receive() == "BARRIER=1"
    assert running.wait(20) == 0
    assert one.status == "running"


def test_run_in_the_foreground(
    container: MakeContainer, bundle: MakeBundle, manager: Manager
) -> None:
    """The runtime is the service's process, and keeps forwarding messages."""
    one = container(
        bundle().shell("trap 'probe notify STOPPING=1; exit 3' TERM; probe notify READY=1; "
                       "while :; do sleep 0.1; done")
    )  # fmt: skip
    one.bundle.save()
    command = one.runtime.command("run", "--bundle", str(one.bundle.path), one.id)
    running = subprocess.Popen(command, env=manager.environment, stdin=subprocess.DEVNULL)
    assert manager.receive() == f"READY=1\nMAINPID={running.pid}"
    running.send_signal(signal.SIGTERM)
    assert manager.receive() == "STOPPING=1"
    assert running.wait(20) == 3


def test_abstract_socket(container: MakeContainer, bundle: MakeBundle) -> None:
    manager = Manager(f"@ociruntime-test-{os.getpid()}")
    one = container(bundle().shell("probe notify READY=1; sleep 100"))
    one.create(env=manager.environment).silent()
    starting = start(one, manager)
    assert manager.receive() == f"READY=1\nMAINPID={one.pid}"
    manager.close()  # and with it the barrier
    assert starting.wait(20) in (0, 1)


def test_nothing_of_the_host_is_visible(
    container: MakeContainer, bundle: MakeBundle, manager: Manager
) -> None:
    made = bundle().shell("env; ls -a /run/notify; touch /run/notify/x; grep notify /proc/mounts")
    made.process["env"].append("NOTIFY_SOCKET=/of/the/image")
    one = container(made)
    one.create(env=manager.environment).silent()
    start(one, manager).wait(20)
    said = one.output
    assert "NOTIFY_SOCKET=/run/notify/notify.sock\n" in said
    assert said.count("NOTIFY_SOCKET=") == 1
    assert "Read-only file system" in said
    assert "\n.\n..\nnotify.sock\n" in said
    assert " /run/notify " in said
    assert "ro,nosuid,nodev,noexec" in said


def test_without_a_manager_at_start(
    container: MakeContainer, bundle: MakeBundle, manager: Manager
) -> None:
    """An engine that removes the variable does not wait."""
    one = container(bundle().shell("sleep 100"))
    one.create(env=manager.environment).silent()
    one.start().silent()
    assert one.status == "running"


@pytest.mark.parametrize("value", ["vsock:2:1", "relative", "/none/such"])
def test_manager_that_is_not_there(container: MakeContainer, manager: Manager, value: str) -> None:
    one = container()
    one.create(env=manager.environment).silent()
    env = {**manager.environment, "NOTIFY_SOCKET": value}
    one.runtime("start", one.id, env=env).failed("NOTIFY_SOCKET", value)
    assert one.status == "created"
    one.start().silent()
