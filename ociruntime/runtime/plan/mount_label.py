"""``linux.mountLabel``: the SELinux context of the filesystems that the runtime mounts.

Relabelling bind sources is the engine's task, which alone knows the other users of a source.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from ociruntime.runtime.plan.compilation import Compilation

# The policy alone labels what these show.
UNLABELLED = ("cgroup", "cgroup2", "proc", "sysfs")

# Its root gets the label once it is there: in a user namespace it takes no context, and on
# older kernels nowhere.
ROOT_LABELLED = "mqueue"

# Labels of a mount's own, with which the kernel refuses a second context.
CONTEXTS = ("context", "defcontext", "fscontext")


def labels_of(job: Compilation, fstype: str, options: Sequence[str]) -> tuple[list[str], str]:
    """The option that gives all of a new filesystem the label; the label for its root alone."""
    label = job.linux["mountLabel"]
    own = any(option.partition("=")[0] in CONTEXTS for option in options)
    if own or fstype in UNLABELLED:
        return [], ""
    return ([], label) if fstype == ROOT_LABELLED else ([f"context={label}"], "")
