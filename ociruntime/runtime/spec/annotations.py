"""The table of the annotations in config.json that have an effect.

Each row is (name, effect, unsafe).  A name that ends with a dot is a prefix: all annotations whose
names begin with it have the effect.  ``unsafe`` is True if the annotation can affect the host or
other containers.  `features` reports the unsafe annotations to engines that accept annotations from
untrusted users.
"""

from __future__ import annotations

from collections.abc import Mapping

from ociruntime.base.errors import ConfigError

PROPERTY = "org.systemd.property."
SUBGROUP = "run.oci.systemd.subgroup"
KEEP_GROUPS = "run.oci.keep_original_groups"
HOOKS_STDOUT = "run.oci.hooks.stdout"
HOOKS_STDERR = "run.oci.hooks.stderr"
PIDFD_RECEIVER = "run.oci.pidfd_receiver"
CRIU_OPTIONS = "org.criu.config"
HANDLER = "run.oci.handler"
WASM_VARIANT = "module.wasm.image/variant"
KNOWN_CALLS_ONLY = "run.oci.seccomp_fail_unknown_syscall"

ANNOTATIONS: tuple[tuple[str, str, bool], ...] = (
    (PROPERTY, "an additional property of the systemd unit, as a GVariant value", True),
    (SUBGROUP, "name of a child cgroup of the unit, in which processes run", True),
    (KEEP_GROUPS, "1: keep the caller's supplementary groups", True),
    (HOOKS_STDOUT, "file to which the standard output of hooks on the host is appended", True),
    (HOOKS_STDERR, "file to which the standard error of hooks on the host is appended", True),
    (PIDFD_RECEIVER, "socket that receives a pidfd of the init, like --pidfd-socket", True),
    (CRIU_OPTIONS, "file with additional CRIU options, like /etc/criu/runc.conf", True),
    (HANDLER, "handler for a program that is not a Linux executable: docs/handlers.md", True),
    (WASM_VARIANT, "compat: run a WebAssembly module with the handler wasm", True),
    (
        KNOWN_CALLS_ONLY,
        "1: refuse system calls in linux.seccomp that libseccomp does not know",
        False,
    ),
)


def where(name: str) -> str:
    """Return the JSON path of the annotation ``name``."""
    return f'annotations["{name}"]'


def unsafe() -> list[str]:
    """Return the names of the unsafe annotations.

    `features` prints them as ``potentiallyUnsafeConfigAnnotations``.
    """
    return [name for name, _, affects_host in ANNOTATIONS if affects_host]


def host_path(annotations: Mapping[str, str], name: str) -> str:
    """Return the absolute path that the annotation ``name`` contains, or "" if it is not set.

    Raises ConfigError for a relative path.
    """
    path = annotations.get(name, "")
    if path and not path.startswith("/"):
        raise ConfigError(where(name), f'must be an absolute path, got "{path}"')
    return path


def hook_outputs(annotations: Mapping[str, str]) -> tuple[str, str]:
    """Return the paths of the files for the standard output and standard error of hooks.

    A path is "" if its annotation is not set.  Raises ConfigError for a relative path.
    """
    return host_path(annotations, HOOKS_STDOUT), host_path(annotations, HOOKS_STDERR)
