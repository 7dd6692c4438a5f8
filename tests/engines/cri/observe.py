"""Observe what a process in a container sees, without values that differ between containers."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from tests.engines.cri.pod import EXITED, Pod
from tests.support import processes

KINDS = ("net", "pid", "ipc", "uts", "user", "mnt", "cgroup")
VOLATILE = {"pid", "ppid", "pgid", "sid", "root_inode", "keyring", "namespaces"}
HASH = re.compile(r"\b[0-9a-f]{64}\b")


def namespaces_of(pid: int | str) -> dict[str, str]:
    """Return the inodes of a process's namespaces by type."""
    return {kind: os.readlink(f"/proc/{pid}/ns/{kind}") for kind in KINDS}


def whose(pod: Pod, names: dict[str, str]) -> dict[str, str]:
    """Return for each namespace whether it is the node's, the sandbox's or another one."""
    node, sandbox = namespaces_of("self"), namespaces_of(pod.cri.pid(pod.id))

    def owner(kind: str) -> str:
        if names[kind] == node[kind]:
            return "node"
        return "sandbox" if names[kind] == sandbox[kind] else "own"

    return {kind: owner(kind) for kind in KINDS}


def facts(pod: Pod, name: str = "facts", **how: Any) -> dict[str, Any]:  # noqa: ANN401 - as create()
    """Run the probe in a container of the pod; return its report (tests/probe/probe.c)."""
    container = pod.run(name, "probe", **how)
    ended = pod.await_state(container, EXITED)
    assert ended.exit_code == 0, (ended, pod.log(name))
    # The shim may have more to copy to the log when containerd knows of the exit.
    done = processes.until(lambda: bool(pod.log(name)) and pod.log(name)[-1] == "stdout }", 30)
    assert done, pod.log(name)
    return cleaned(pod, "\n".join(line.partition(" ")[2] for line in pod.log(name)))


def cleaned(pod: Pod, text: str) -> dict[str, Any]:
    """Return the probe's report with namespaces' owners, and without container-specific numbers."""
    seen: dict[str, Any] = json.loads(text)
    found = {key: value for key, value in seen.items() if key not in VOLATILE}
    found["fds"] = {key: re.sub(r"\d+", "N", value) for key, value in seen["fds"].items()}
    found["cgroup"] = HASH.sub("ID", seen["cgroup"])
    found |= {f"/dev/{name}": node for name, node in found.pop("devices").items()}
    found["whose"] = whose(pod, seen["namespaces"])
    return found


def mounts(pod: Pod, container: str) -> dict[str, str]:
    """Return {mount point: (type, options, propagation)} as seen in the container.

    A mount is ``ro`` if it or its filesystem is.
    """
    found = {}
    with open(f"/proc/{pod.cri.pid(container)}/mountinfo", encoding="utf-8") as file:
        for line in file:
            fields, _, tail = line.partition(" - ")
            parts = fields.split(" ")
            peers = " ".join(re.sub(r":\d+", "", one) for one in parts[6:])
            fstype, _, of_filesystem = tail.strip().split(" ", 2)
            options = parts[5]
            if of_filesystem.split(",")[0] == "ro":
                options = options.replace("rw,", "ro,", 1)
            found[parts[4]] = f"{fstype} {options} {peers}".strip()
    return found
