"""The commands `checkpoint` and `restore`."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.parser import Arguments
from ociruntime.runtime.cli.container_options import (
    CONTAINER_OPTIONS,
    FOREGROUND_OPTIONS,
    caller_path,
    container_options,
)
from ociruntime.runtime.lifecycle.checkpoint.checkpoint import checkpoint
from ociruntime.runtime.lifecycle.checkpoint.criu_options import SWITCHES, CriuOptions
from ociruntime.runtime.lifecycle.checkpoint.restore import restore
from ociruntime.runtime.lifecycle.context import Context
from ociruntime.runtime.lifecycle.state_root import make_root

PORTS = range(1, 65536)


def checkpoint_options(arguments: Arguments) -> CriuOptions:
    """Return the parsed options of `checkpoint` or `restore`, with absolute paths.

    Raises UsageError for an invalid value, and HostError if the working directory was deleted.
    """
    if not arguments.text("image-path"):
        arguments.texts["image-path"] = "checkpoint"
    image_path = caller_path(arguments, "image-path").rstrip("/") or "/"
    work_path = caller_path(arguments, "work-path").rstrip("/") or image_path
    for kind in arguments.list("empty-ns"):
        if kind != "network":
            raise UsageError(
                f'--empty-ns "{kind}": not supported for this namespace', "use --empty-ns network"
            )
    return CriuOptions(
        image_path,
        work_path,
        program=arguments.text("criu"),
        switches={name.replace("-", "_"): arguments.flag(name) for name in SWITCHES},
        manage_cgroups_mode=arguments.text("manage-cgroups-mode"),
        network_lock=arguments.text("network-lock"),
        empty_network=bool(arguments.list("empty-ns")),
        auto_dedup=arguments.flag("auto-dedup"),
        lazy_pages=arguments.flag("lazy-pages"),
        leave_running=arguments.flag("leave-running"),
        pre_dump=arguments.flag("pre-dump"),
        parent_path=arguments.text("parent-path"),
        page_server=_page_server(arguments.text("page-server")),
        status_fd=arguments.number("status-fd", -1),
        lsm_profile=arguments.text("lsm-profile"),
        lsm_mount_context=arguments.text("lsm-mount-context"),
    )


def _page_server(text: str) -> tuple[str, int] | None:
    """Parse ``ADDRESS:PORT`` to (address, port); an IPv6 address may be in brackets.

    Returns None for "".  Raises UsageError if ``text`` has another form.
    """
    if not text:
        return None
    address, _, port = text.rpartition(":")
    address = address.removeprefix("[").removesuffix("]")
    if not (address and port.isascii() and port.isdigit() and int(port) in PORTS):
        raise UsageError(f'--page-server "{text}": invalid address', "use ADDRESS:PORT")
    return address, int(port)


def run_checkpoint(context: Context, arguments: Arguments) -> int:
    """Checkpoint a container; return 0."""
    checkpoint(context, arguments.positional[0], checkpoint_options(arguments))
    return 0


def run_restore(context: Context, arguments: Arguments) -> int:
    """Restore a container; return its program's exit status, or 0 with ``--detach``."""
    detach = arguments.flag("detach")
    options = container_options(arguments, arguments.positional[0], detach=detach)
    make_root(context)
    return restore(context, options, checkpoint_options(arguments))


CHECKPOINT_OPTIONS = (
    Option("image-path", "image directory (default: checkpoint)", "DIR"),
    Option("work-path", "directory for CRIU's logs (default: --image-path)", "DIR"),
    Option("tcp-established", "allow open TCP connections"),
    Option("ext-unix-sk", "allow external Unix sockets"),
    Option("shell-job", "allow shell jobs (a terminal from outside)"),
    Option("file-locks", "allow file locks"),
    Option(
        "manage-cgroups-mode", "how to handle cgroups", "soft|full|strict|ignore", kind="choice"
    ),
    Option("network-lock", "network locking method", "iptables|nftables|skip", kind="choice"),
    Option("empty-ns", "create the network namespace empty", "network", kind="list"),
    Option("auto-dedup", "deduplicate memory images"),
    Option("lazy-pages", "transfer memory pages on demand"),
)
_OF_RESTORE = ("bundle", "config", "console-socket", "pid-file", "no-pivot", "no-new-keyring")
RESTORE_OPTIONS = tuple(option for option in CONTAINER_OPTIONS if option.name in _OF_RESTORE)
COMMANDS = (
    Command(
        "checkpoint ID",
        "checkpoint a running container with CRIU",
        run_checkpoint,
        options=(
            *CHECKPOINT_OPTIONS,
            Option("leave-running", "leave the container running"),
            Option("pre-dump", "dump only the memory; leave the container running"),
            Option("parent-path", "previous images, relative to --image-path", "DIR"),
            Option("page-server", "send the memory to a CRIU page server", "ADDR:PORT"),
            Option(
                "status-fd", "descriptor to notify when --lazy-pages is ready", "FD", kind="number"
            ),
            Option("link-remap", "allow deleted files that are still open"),
            Option("tcp-skip-in-flight", "skip in-flight TCP connections"),
        ),
        details=(
            "The container is deleted afterwards; if CRIU (criu.org) fails, it keeps running.\n"
            "The root filesystem is not saved; tmpfs mounts of the container are."
        ),
        examples=(
            (
                "Checkpoint and delete the container",
                "ociruntime checkpoint --image-path web.images web",
            ),
            (
                "Checkpoint and leave it running",
                "ociruntime checkpoint --leave-running --image-path web.images web",
            ),
        ),
    ),
    Command(
        "restore ID",
        "restore a container from a checkpoint",
        run_restore,
        options=(
            *RESTORE_OPTIONS,
            *FOREGROUND_OPTIONS,
            *CHECKPOINT_OPTIONS,
            Option("tcp-close", "close open TCP connections"),
            Option("lsm-profile", "replace the LSM profile: apparmor:NAME", "TYPE:NAME"),
            Option("lsm-mount-context", "replace the SELinux label of mounts", "LABEL"),
        ),
        details=(
            "Processes come from the checkpoint; mounts, cgroup and limits from config.json.\n"
            "The exit status is that of `run`."
        ),
        examples=(
            ("Restore it", "ociruntime restore --detach --image-path web.images --bundle web web"),
        ),
    ),
)
