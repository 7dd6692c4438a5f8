"""Options common to `checkpoint` and `restore`."""

from __future__ import annotations

from ociruntime.base.errors import UsageError
from ociruntime.runtime.cli.container_options import caller_path
from ociruntime.runtime.lifecycle.checkpoint.criu_options import CriuOptions

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments

# Passed to CRIU unchanged, under nearly the same names.
SWITCHES = (
    *("tcp-established", "tcp-skip-in-flight", "tcp-close", "ext-unix-sk", "shell-job"),
    *("file-locks", "link-remap"),
)
PORTS = range(1, 65536)


def checkpoint_options(arguments: Arguments) -> CriuOptions:
    """The options, with every path taken from the caller's working directory on.

    Raises UsageError, HostError.
    """
    if not arguments.text("image-path"):
        arguments.texts["image-path"] = "checkpoint"
    image_path = caller_path(arguments, "image-path").rstrip("/") or "/"
    work_path = caller_path(arguments, "work-path").rstrip("/") or image_path
    for kind in arguments.list("empty-ns"):
        if kind != "network":
            raise UsageError(f"--empty-ns {kind}: no namespace that can be left empty", "network")
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
    """``ADDRESS:PORT``; an address of IPv6 may stand in brackets."""
    if not text:
        return None
    address, _, port = text.rpartition(":")
    address = address.removeprefix("[").removesuffix("]")
    if not (address and port.isascii() and port.isdigit() and int(port) in PORTS):
        raise UsageError(f"--page-server {text}: not an address with a port", "ADDRESS:PORT")
    return address, int(port)
