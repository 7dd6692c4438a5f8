"""Broken bundles whose fault only shows when the container is made or started."""

from __future__ import annotations

from tests.errors.changes import BIND, BrokenBundle, add, create, put

FOUND_BY_CREATING: tuple[BrokenBundle, ...] = (
    create("executable-missing", put("process", "args", to=["/bin/nothere"]),
           "/bin/nothere", "no such file or directory"),
    create("executable-not-in-path", put("process", "args", to=["nothere"]),
           "nothere", "executable file not found in $PATH"),
    create("executable-directory", put("process", "args", to=["/bin"]), '"/bin"'),
    create("executable-mode", put("process", "args", to=["/bin/plain"]),
           "/bin/plain", "permission denied", plain=("#!/bin/sh\n", 0o644)),
    create("bind-source-missing", add("mounts", item={**BIND, "source": "/does/not/exist"}),
           "mounts[7]", "/does/not/exist", "no such file or directory"),
    create("mount-option", add("mounts", item={
        "destination": "/data", "type": "tmpfs", "source": "tmpfs", "options": ["roo"]}),
        "mounts[7]", "roo"),
    create("mount-type", add("mounts", item={
        "destination": "/data", "type": "nosuchfs", "source": "x"}), "mounts[7]", "nosuchfs"),
    create("hook-missing", add("hooks", "createRuntime", item={"path": "/bin/nonesuch"}),
           "hooks.createRuntime[0]", "/bin/nonesuch", "no such file or directory"),
    create("hook-fails", add("hooks", "createRuntime", item={
        "path": "/bin/sh", "args": ["sh", "-c", "echo boom >&2; exit 3"]}),
        "hooks.createRuntime[0]", "/bin/sh", "3", "boom"),
    create("hook-timeout", add("hooks", "prestart", item={
        "path": "/bin/sleep", "args": ["sleep", "100"], "timeout": 1}),
        "hooks.prestart[0]", "/bin/sleep"),
    create("hook-container-fails", add("hooks", "createContainer", item={
        "path": "/bin/sh", "args": ["sh", "-c", "exit 4"]}), "hooks.createContainer[0]", "4"),
    create("namespace-path-missing", put("linux", "namespaces", 1, "path", to="/run/netns/nope"),
           "linux.namespaces[1]", "/run/netns/nope", "no such file or directory"),
    create("namespace-path-kind", put("linux", "namespaces", 1, "path", to="/proc/self/ns/ipc"),
           "linux.namespaces[1]"),
    create("namespace-path-file", put("linux", "namespaces", 1, "path", to="/etc/passwd"),
           "linux.namespaces[1]"),
    create("masked-root", put("linux", "maskedPaths", to=["/proc/keys", "/../."]),
           "linux.maskedPaths[1]: must not be the container's root directory"),
    create("read-only-root", put("linux", "readonlyPaths", to=["/"]),
           "linux.readonlyPaths[0]: must not be the container's root directory", "root.readonly"),
    create("memory-nodes-missing",
           put("linux", "memoryPolicy", to={"mode": "MPOL_BIND", "nodes": "1000-1023"}),
           "linux.memoryPolicy", "none of the nodes is online"),
    create("sysctl-missing", put("linux", "sysctl", to={"net.no.such.key": "1"}),
           "net.no.such.key"),
    create("sysctl-value", put("linux", "sysctl", to={"net.ipv4.ip_forward": "many"}),
           "net.ipv4.ip_forward"),
    create("terminal-without-socket", put("process", "terminal", to=True),
           "process.terminal", "--console-socket"),
    create("memory-too-low", put("linux", "resources", "memory", to={"limit": 4096}),
           "linux.resources.memory.limit", "4096"),
    create("cpu-not-there", put("linux", "resources", "cpu", to={"cpus": "900-901"}),
           "linux.resources.cpu", "900-901"),
    create("page-size-not-there", put("linux", "resources", "hugepageLimits",
                                      to=[{"pageSize": "3MB", "limit": 0}]),
           "linux.resources.hugepageLimits[0]"),
)  # fmt: skip

# The kernel looks for the interpreter when it starts the program.
FOUND_BY_STARTING: tuple[BrokenBundle, ...] = (
    BrokenBundle(
        "interpreter-missing",
        ("/bin/script", "no such file or directory"),
        put("process", "args", to=["/bin/script"]),
        stage="start",
        files={"rootfs/bin/script": ("#!/bin/nope\n", 0o755)},
    ),
)
