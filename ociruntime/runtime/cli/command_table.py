"""The table of the commands of ``ociruntime``: their groups in the help, and their modules."""

from __future__ import annotations

from ociruntime.commandline.program import Groups

# Title in the help -> module -> its commands.
GROUPS: Groups = {
    "lifecycle": {
        "create": ("create",),
        "start": ("start",),
        "run": ("run",),
        "kill": ("kill",),
        "delete": ("delete",),
        "checkpoint_and_restore": ("checkpoint", "restore"),
    },
    "running containers": {
        "exec": ("exec",),
        "ps": ("ps",),
        "pause_and_resume": ("pause", "resume"),
        "update": ("update",),
        "mounts": ("mounts",),
    },
    "inspection": {"state": ("state",), "events": ("events",), "list": ("list",)},
    "bundles and this host": {
        "spec": ("spec",),
        "plan": ("plan",),
        "features": ("features",),
        "check": ("check",),
        "setup": ("setup",),
        "snapshot": ("snapshot",),
    },
}
