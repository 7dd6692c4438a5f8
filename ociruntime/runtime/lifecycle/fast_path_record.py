"""The file ``entry`` in a state directory: the data of the fast path.

The program ``ociruntime`` handles the usual cases of `state`, `start`, `kill`, `delete`, `pause`,
`resume` and `ps` itself (csrc/fast_path/), and leaves everything else to Python.  The file repeats
what state.json and cgroup.json contain after the creation.  If it is missing or has another
version, Python runs all commands.

    ociruntime-entry 1
    pid PID                     the init's pid
    started TICKS               the init's start time
    freezer FILE                the file with the freezer's state; may be empty
    own-pid-namespace 0|1       1: all processes exit with the init
    start 0|1                   1: the fast path may run `start`: there is a process, and no
                                poststart hook, seccomp agent or notify socket
    delete 0|1                  1: the fast path may run `delete`: no poststop hook, and nothing to
                                remove but cgroups that `create` made (so no systemd unit, adopted
                                cgroup, notify socket, resctrl group or root on the host)
    owner UID                   owner of the state directory
    cgroup DIRECTORY            one line for each cgroup made for the container
    parent DIRECTORY            one line for each parent that was created, deepest first
                                (an empty line)
    TEXT NUL TEXT NUL TEXT      the output of `state`, with NUL in place of the pid and the status
"""

from __future__ import annotations

from typing import Any

from ociruntime.base.errors import HostError
from ociruntime.base.files import write_new
from ociruntime.base.json_text import dump
from ociruntime.runtime.cgroups.cgroup import Cgroup
from ociruntime.runtime.spec.state_document import state_output

NAME = "entry"
FIRST_LINE = "ociruntime-entry 1"


class Removal:
    """The cgroup directories that `delete` removes: all of ``own``, then all of ``parents``."""

    __slots__ = ("own", "parents")

    def __init__(self, own: list[str], parents: list[str]) -> None:
        self.own = own
        self.parents = parents


def removal(cgroup: Cgroup) -> Removal:
    """Return the directories of ``cgroup`` that `create` makes and `delete` must remove."""
    made = [directories for each in cgroup.placements if (directories := each.made())]
    return Removal(
        [directories[-1] for directories in made],
        [parent for directories in made for parent in reversed(directories[:-1])],
    )


def write_entry(
    directory: str, facts: dict[str, Any], cgroups: Removal | None, uid: int, owner: str
) -> None:
    """Write the file ``entry`` for the fast path to the state directory ``directory``.

    ``facts``: the content of state.json.  ``cgroups``: None leaves `delete` to Python.  ``uid`` and
    ``owner``: id and name of the state directory's owner.  Raises HostError.
    """
    content = entry_text(facts, cgroups, uid, owner)
    try:
        write_new(f"{directory}/{NAME}", content.encode("utf-8", "surrogateescape"))
    except OSError as error:
        raise HostError(f'write "{directory}/{NAME}"', error) from None


def entry_text(facts: dict[str, Any], cgroups: Removal | None, uid: int, owner: str) -> str:
    """Return the content of ``entry``, or "" if its format cannot express the facts.

    The parameters are those of ``write_entry``.
    """
    hooks = facts["hooks"]
    unusual = hooks.get("poststart") or facts["seccompAgent"] or facts["notified"]
    may_start = facts["startSteps"] and not unusual
    may_delete = cgroups is not None and not hooks.get("poststop")
    lines = [
        FIRST_LINE,
        f"pid {facts['pid']}",
        f"started {facts['processStart']}",
        f"freezer {facts['freezer']}",
        f"own-pid-namespace {int(facts['ownPidNamespace'])}",
        f"start {int(bool(may_start))}",
        f"delete {int(may_delete)}",
        f"owner {uid}",
    ]
    if cgroups is not None:
        lines += [f"cgroup {own}" for own in cgroups.own]
        lines += [f"parent {parent}" for parent in cgroups.parents]
    if any("\n" in line for line in lines):
        return ""  # a line break in a path: Python runs the commands, from state.json
    return "\n".join([*lines, "", _state_text(facts, owner)])


def _state_text(facts: dict[str, Any], owner: str) -> str:
    """Return the output of `state`, with a NUL in place of the pid and of the status."""
    # An id contains no quotes, so the first matches are the members "pid" and "status".
    text = dump(state_output(facts, "", 0, owner), 2) + "\n"
    head, _, rest = text.partition('"pid": 0')
    middle, _, tail = rest.partition('"status": ""')
    return f'{head}"pid": \0{middle}"status": "\0"{tail}'
