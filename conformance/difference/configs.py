"""Random valid configs, as lists of edits of the plainest one, and smaller ones of them."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from conformance.bundle import Json, mount_entry

CAPABILITIES = "CAP_CHOWN CAP_FOWNER CAP_SETUID CAP_SETGID CAP_NET_RAW CAP_SYS_CHROOT".split()
SETS = ("bounding", "effective", "permitted", "inheritable", "ambient")
LIMITS = "RLIMIT_CORE RLIMIT_NOFILE RLIMIT_STACK RLIMIT_NPROC RLIMIT_MSGQUEUE".split()
PATHS = ("/proc/kcore", "/proc/sys", "/etc/passwd", "/etc", "/usr", "/proc/nothing", "/dev/null")
PLACES = ("/tmp", "/run", "/var/deep/er", "/dev/shm", "/mnt", "usr")
FLAGS = (
    *("nosuid", "nodev", "noexec", "ro", "relatime", "noatime", "strictatime", "sync", "dirsync"),
    *("nodiratime", "rw", "suid", "dev", "exec", "atime", "defaults", "lazytime", "nosymfollow"),
)
PROPAGATION = ("private", "rprivate", "slave", "rslave", "shared", "rshared", "unbindable")
TMPFS = ("size=64k", "size=1m", "mode=700", "mode=1777", "nr_inodes=100")
INHERITED = ("ipc", "uts", "network", "pid")
SYSCTLS = {"net.ipv4.ip_forward": "1", "kernel.msgmax": "4096", "fs.mqueue.msg_max": "20"}
CALLS = ("chmod", "mkdir", "personality", "sethostname", "mount", "io_uring_setup")
# What may be left out of an edit's value when it is made smaller.
OPTIONAL = frozenset({"options", "fileMode", "uid", "gid", "additionalGids", "umask", "errnoRet"})


@dataclass(frozen=True)
class Edit:
    """``action``: set the member at ``where``, append to the list there, or remove from a list
    the entries that have all members of the value.  ``text``: the value as JSON."""

    where: tuple[str, ...]
    action: str
    text: str

    @property
    def value(self) -> Any:
        """A new copy each time."""
        return json.loads(self.text)

    def apply(self, config: Json) -> None:
        """Change the config."""
        *parents, last = self.where
        place = config
        for key in parents:
            place = place.setdefault(key, {})
        value = self.value
        if self.action == "set":
            place[last] = value
        elif self.action == "append":
            place.setdefault(last, []).append(value)
        else:
            place[last] = [one for one in place[last] if not value.items() <= one.items()]

    def __str__(self) -> str:
        sign = {"set": "=", "append": "+=", "remove": "-="}[self.action]
        return f"{'.'.join(self.where)} {sign} {self.text}"


def edit(where: str, action: str, value: Any) -> Edit:
    """``where``: members with dots between."""
    return Edit(tuple(where.split(".")), action, json.dumps(value))


Edits = tuple[Edit, ...]
Random = random.Random
Maker = Callable[[Random], Edit]


def _set(where: str, *values: Any) -> Maker:
    return lambda chance: edit(where, "set", chance.choice(values))


def _append(where: str, make: Callable[[Random], Any]) -> Maker:
    return lambda chance: edit(where, "append", make(chance))


def _some(chance: Random, values: tuple[str, ...] | list[str], most: int) -> list[str]:
    return chance.sample(values, chance.randint(0, min(most, len(values))))


def _tmpfs(chance: Random) -> Json:
    options = [*_some(chance, FLAGS, 3), *_some(chance, TMPFS, 1), *_some(chance, PROPAGATION, 1)]
    return mount_entry(chance.choice(PLACES), "tmpfs", "tmpfs", *options)


def _bind(chance: Random) -> Json:
    source = chance.choice(("rootfs/etc", "rootfs/etc/passwd", "rootfs/out"))
    options = [*_some(chance, FLAGS, 3), *_some(chance, PROPAGATION, 1)]
    kind = chance.choice(("bind", "rbind"))
    target = "/mnt/file" if source.endswith("passwd") else chance.choice(("/mnt/dir", "/var"))
    return mount_entry(target, chance.choice(("bind", None)), source, kind, *options)


def _system(chance: Random) -> Json:
    kind, place = chance.choice((("sysfs", "/sys"), ("mqueue", "/dev/mqueue"), ("proc", "/mnt")))
    return mount_entry(place, kind, kind, *_some(chance, FLAGS[:5], 3))


def _device(chance: Random) -> Json:
    entry: Json = {"path": chance.choice(("/dev/one", "/dev/sub/two", "/out/three"))}
    entry |= chance.choice(
        (
            {"type": "c", "major": 1, "minor": 3},
            {"type": "p"},
            {"type": "u", "major": 1, "minor": 5},
        )
    )
    for key, value in (("fileMode", 0o640), ("uid", 5), ("gid", 6)):
        if chance.random() < 0.5:
            entry[key] = value
    return entry


def _limit(chance: Random) -> Json:
    soft = chance.choice((0, 64, 1000))
    return {"type": chance.choice(LIMITS), "soft": soft, "hard": soft + chance.choice((0, 24))}


def _user(chance: Random) -> Edit:
    user: Json = {"uid": chance.choice((0, 1, 1000, 54321)), "gid": chance.choice((0, 7, 1000))}
    if chance.random() < 0.5:
        user["additionalGids"] = chance.sample((0, 1, 8, 1000), 2)
    if chance.random() < 0.5:
        user["umask"] = chance.choice((0, 0o27, 0o777))
    return edit("process.user", "set", user)


def _capabilities(chance: Random) -> Edit:
    sets = {kind: sorted(_some(chance, CAPABILITIES, 4)) for kind in SETS}
    # What the kernel grants: effective and ambient within permitted and inheritable.
    sets["permitted"] = sorted({*sets["effective"], *sets["permitted"], *sets["ambient"]})
    sets["inheritable"] = sorted({*sets["inheritable"], *sets["ambient"]})
    sets["bounding"] = sorted({*sets["bounding"], *sets["permitted"], *sets["inheritable"]})
    return edit("process.capabilities", "set", sets)


def _seccomp(chance: Random) -> Edit:
    rule: Json = {"names": chance.sample(CALLS, 2), "action": "SCMP_ACT_ERRNO"}
    if chance.random() < 0.5:
        rule["errnoRet"] = 38
    profile = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": [rule]}
    return edit("linux.seccomp", "set", profile)


def _sysctl(chance: Random) -> Edit:
    name = chance.choice(sorted(SYSCTLS))
    return Edit(("linux", "sysctl", name), "set", json.dumps(SYSCTLS[name]))


MAKERS: tuple[Maker, ...] = (
    _append("mounts", _tmpfs),
    _append("mounts", _bind),
    _append("mounts", _system),
    _append("linux.devices", _device),
    _append("process.rlimits", _limit),
    _append("process.env", lambda chance: chance.choice(("A=1", "A=2", "HOME=/x", "EMPTY=", "B"))),
    _append("linux.maskedPaths", lambda chance: chance.choice(PATHS)),
    _append("linux.readonlyPaths", lambda chance: chance.choice(PATHS)),
    _append("linux.namespaces", lambda chance: {"type": chance.choice(("cgroup", "time"))}),
    _user,
    _capabilities,
    _seccomp,
    _sysctl,
    lambda chance: edit("linux.namespaces", "remove", {"type": chance.choice(INHERITED)}),
    _set("hostname", "box", "a.b.c", ""),
    _set("domainname", "domain"),
    _set("process.cwd", "/tmp", "/made/for/it", "/usr/../etc", "//var/"),
    _set("process.noNewPrivileges", True, False),
    _set("process.oomScoreAdj", 0, 100, 1000),
    _set("root.readonly", True, False),
    _set("linux.rootfsPropagation", "private", "slave", "shared", "unbindable", "rshared"),
    _set("linux.personality", {"domain": "LINUX32"}, {"domain": "LINUX"}),
    _set("linux.resources", {"pids": {"limit": 50}}, {"memory": {"limit": 1 << 27}}, {}),
    _set("process.ioPriority", {"class": "IOPRIO_CLASS_BE", "priority": 6}),
    _set("process.scheduler", {"policy": "SCHED_BATCH", "nice": 3}, {"policy": "SCHED_OTHER"}),
)


def generate(chance: Random) -> Edits:
    """A valid config's edits; at most one for each place that is set."""
    edits: dict[tuple[str, ...], Edit] = {}
    for make in chance.choices(MAKERS, k=chance.randint(2, 8)):
        one = make(chance)
        key = one.where if one.action == "set" else (*one.where, one.text)
        if one.where == ("process", "rlimits"):
            key = (*one.where, one.value["type"])
        edits[key] = one
    return tuple(edits.values())


def smaller(edits: Edits) -> Iterator[Edits]:
    """Every config that is one step simpler."""
    for place, one in enumerate(edits):
        before, behind = edits[:place], edits[place + 1 :]
        yield before + behind
        for value in _smaller_values(one.value):
            yield (*before, replace(one, text=json.dumps(value)), *behind)


def _smaller_values(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, member in value.items():
            if key in OPTIONAL:
                yield {name: one for name, one in value.items() if name != key}
            for less in _smaller_values(member):
                yield value | {key: less}
    elif isinstance(value, list):
        for place, member in enumerate(value):
            if len(value) > 1 or isinstance(member, str):
                yield value[:place] + value[place + 1 :]
            for less in _smaller_values(member):
                yield [*value[:place], less, *value[place + 1 :]]
