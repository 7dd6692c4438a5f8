"""The options of `checkpoint` and `restore`, and their translation for CRIU.

CRIU takes its options in the message criu_opts of rpc.proto.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ociruntime.base.linux import CLONE_NEWNET
from ociruntime.runtime.host.criu_messages import CGROUP_MODES, NETWORK_LOCKS
from ociruntime.runtime.spec.annotations import CRIU_OPTIONS, host_path

DUMP_LOG = "dump.log"
RESTORE_LOG = "restore.log"
LOG_LEVEL = 4
# Options without a value, each of which sets the field of the same name in criu_opts.
SWITCHES = (
    *("tcp-established", "tcp-skip-in-flight", "tcp-close", "ext-unix-sk", "shell-job"),
    *("file-locks", "link-remap"),
)

# Type of namespace -> (CRIU's name, key of its descriptor).  CRIU joins other types by path.
BY_DESCRIPTOR = {"network": ("net", "extRootNetNS"), "pid": ("pid", "extRootPidNS")}
BY_NAME = {"ipc": "ipc", "uts": "uts", "time": "time", "user": "user"}


class CriuOptions:
    """The options of a checkpoint or a restore.

    ``image_path`` is the directory of the images, ``work_path`` the directory of CRIU's logs; both
    paths are absolute.  ``parent_path`` is relative to ``image_path``, or "".  ``switches`` maps
    the boolean fields of criu_opts to the values of the options in
    ``cli/checkpoint_and_restore.py``.  ``page_server`` is (address, port) or None.  ``status_fd``
    is a descriptor, or -1.
    """

    __slots__ = (
        "auto_dedup",
        "empty_network",
        "image_path",
        "lazy_pages",
        "leave_running",
        "lsm_mount_context",
        "lsm_profile",
        "manage_cgroups_mode",
        "network_lock",
        "page_server",
        "parent_path",
        "pre_dump",
        "program",
        "status_fd",
        "switches",
        "work_path",
    )

    def __init__(
        self,
        image_path: str,
        work_path: str,
        *,
        program: str = "",
        switches: Mapping[str, bool] | None = None,
        manage_cgroups_mode: str = "",
        network_lock: str = "",
        empty_network: bool = False,
        auto_dedup: bool = False,
        lazy_pages: bool = False,
        leave_running: bool = False,
        pre_dump: bool = False,
        parent_path: str = "",
        page_server: tuple[str, int] | None = None,
        status_fd: int = -1,
        lsm_profile: str = "",
        lsm_mount_context: str = "",
    ) -> None:
        self.image_path = image_path
        self.work_path = work_path
        self.program = program  # the value of --criu; "" for the installed criu
        self.switches = dict(switches or {})
        self.manage_cgroups_mode = manage_cgroups_mode
        self.network_lock = network_lock
        self.empty_network = empty_network
        self.auto_dedup = auto_dedup
        self.lazy_pages = lazy_pages
        self.leave_running = leave_running
        self.pre_dump = pre_dump
        self.parent_path = parent_path
        self.page_server = page_server
        self.status_fd = status_fd
        self.lsm_profile = lsm_profile
        self.lsm_mount_context = lsm_mount_context


def common_options(options: CriuOptions, annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the criu_opts that a dump and a restore have in common.

    Raises ConfigError for an invalid annotation.
    """
    fields: dict[str, Any] = {
        "log_level": LOG_LEVEL,
        "notify_scripts": True,
        "evasive_devices": True,
        "orphan_pts_master": True,
        "manage_cgroups": True,
        **{name: True for name, enabled in options.switches.items() if enabled},
    }
    if options.manage_cgroups_mode:
        fields["manage_cgroups_mode"] = CGROUP_MODES[options.manage_cgroups_mode]
    if options.network_lock:
        fields["network_lock"] = NETWORK_LOCKS[options.network_lock]
    if options.empty_network:
        fields["empty_ns"] = CLONE_NEWNET
    if options.auto_dedup:
        fields["auto_dedup"] = True
    if options.lazy_pages:
        fields["lazy_pages"] = True
    if CRIU_OPTIONS in annotations:
        fields["config_file"] = host_path(annotations, CRIU_OPTIONS)
    return fields


def dump_options(
    options: CriuOptions,
    annotations: Mapping[str, str],
    *,
    pid: int,
    root: str,
    freezer: str,
    external: list[str],
) -> dict[str, Any]:
    """Return the criu_opts for a DUMP or PRE_DUMP request.

    ``pid``: the container's init.  ``root``: path of its root filesystem.  ``freezer``: the
    container's cgroup directory in the freezer hierarchy, or "".  ``external``: CRIU's keys for
    objects that belong to the host.  Raises ConfigError for an invalid annotation.
    """
    fields = common_options(options, annotations) | {
        "pid": pid,
        "root": root,
        "log_file": DUMP_LOG,
        "leave_running": options.leave_running,
        "external": external,
    }
    if freezer:
        fields["freeze_cgroup"] = freezer
    if options.pre_dump:
        fields["track_mem"] = True
    if options.parent_path:
        fields["parent_img"] = options.parent_path
    if options.page_server:
        fields["ps"] = {"address": options.page_server[0], "port": options.page_server[1]}
    if options.status_fd >= 0:
        fields["status_fd"] = options.status_fd
    return fields


def restore_options(
    options: CriuOptions,
    annotations: Mapping[str, str],
    *,
    root: str,
    external: list[str],
    cgroups: list[dict[str, str]],
    inherited: list[dict[str, Any]],
    joined: list[dict[str, str]],
) -> dict[str, Any]:
    """Return the criu_opts for a RESTORE request.

    ``root``: path of the root filesystem.  ``external``: CRIU's keys for objects of the host, each
    with the path of the object.  ``cgroups``, ``inherited`` and ``joined``: messages of the types
    cgroup_root, inherit_fd and join_namespace of rpc.proto.  Raises ConfigError for an invalid
    annotation.
    """
    fields = common_options(options, annotations) | {
        "root": root,
        "log_file": RESTORE_LOG,
        "rst_sibling": True,  # the init becomes our child, as with `run`
        "external": external,
        "cg_root": cgroups,
        "inherit_fd": inherited,
        "join_ns": joined,
    }
    if options.lsm_profile:
        fields["lsm_profile"] = options.lsm_profile
    if options.lsm_mount_context:
        fields["lsm_mount_context"] = options.lsm_mount_context
    return fields


def cgroup_roots(text: str) -> list[dict[str, str]]:
    """Return a cgroup_root message for each line of ``text``, the content of /proc/PID/cgroup."""
    roots = []
    for line in text.splitlines():
        _, _, entry = line.partition(":")
        controllers, _, path = entry.partition(":")
        roots.append({"ctrl": controllers, "path": path} if controllers else {"path": path})
    # CRIU applies the entry without a controller to all hierarchies; later entries override it.
    return sorted(roots, key=lambda root: "ctrl" in root)
