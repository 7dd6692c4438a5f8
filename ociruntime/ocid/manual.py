"""What the manual page and completions of ``ocid`` say beyond its table of options."""

from __future__ import annotations

DESCRIPTION = (
    "ocid keeps containers: it makes them from images or directories, starts and stops them, "
    "starts them again if they are to run always, and knows how they ended. ocictl(1) is how "
    "people speak with it; programs use its HTTP interface on a Unix socket.\n\n"
    "A container is a pod of ocipod(1) with one app, whose monitor is a process of its own. "
    "Nothing runs in ocid: it may end at any moment, however it ends, and takes all containers up "
    "again when it starts, with what they have written and how they have ended meanwhile.\n\n"
    "It stays in the foreground, logs on standard error who has asked for what, and ends on "
    "SIGTERM or SIGINT. Only one can run for a directory. It takes its socket over from systemd "
    "if that has opened one (LISTEN_FDS), and tells it when it is ready."
)

ARGUMENTS: tuple[tuple[str, str, str], ...] = ()
LISTED: dict[str, str] = {}
COMPLETED_BY = {"DIR": "directory", "FILE": "file"}
NOT_COMPLETED: tuple[tuple[str, str], ...] = ()
NEW_CONTAINER: tuple[str, ...] = ()

EXIT_STATUS = (
    ("0", "it was asked to end"),
    ("1", "it could not start; standard error has one line that says why"),
)
OWN_EXIT_STATUS: dict[str, tuple[tuple[str, str], ...]] = {}

FILES = (
    ("/run/ocid/ocid.sock", "where it listens, for root and the group of --group"),
    ("/var/lib/ociruntime/manager", "what it notes of containers, and events.jsonl"),
    ("/var/lib/ociruntime", "pods and images, which ocipod knows as well"),
)
EXAMPLES: dict[str, tuple[tuple[str, str], ...]] = {
    "": (
        ("For root alone", "ocid &"),
        ("For the members of a group", "ocid --group=containers"),
        ("As a service", "systemctl enable --now ocid.socket"),
    ),
}
SECTIONS = (("EXIT STATUS", EXIT_STATUS), ("FILES", FILES))

_MORE = {
    "group": "Who may use the socket can do what root can.",
    "root": "A second ocid with the same directory refuses to start.",
    "dir": "Images and pods of one directory are not seen from another.",
    "runtime": "It is called as runc and crun are, which can be used as well.",
}
MORE = {("", option): text for option, text in _MORE.items()}


def more(command: str, option: str) -> str:
    """The remark on an option, or ""."""
    return MORE.get((command, option), "")
