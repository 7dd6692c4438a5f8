"""Description files for the guest agent, made from the OCI configurations of the pod's apps.

The file formats are those of ``csrc/guest``.
"""

from __future__ import annotations

from ociruntime.base.errors import PodError
from ociruntime.base.linux import CAPABILITIES
from ociruntime.pods.bundle.pod_context import SHARED_MEMORY
from ociruntime.pods.kvm.qemu import Share
from ociruntime.pods.manifest.limits import unified

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    Json = dict[str, Any]

# Flags of mount(2) by option.
_FLAGS = {"ro": 1, "nosuid": 2, "nodev": 4, "noexec": 8, "strictatime": 1 << 24}
_IGNORED = ("rw", "bind", "rbind", "private", "rprivate", "slave", "rslave")
_GROUP = "cgroup.procs"


class Description:
    """``apps``: one description per app; ``files``: files of the pod that apps need, numbered;
    ``shares``: host directories shared with the machine.
    """

    def __init__(self) -> None:
        self.apps: list[bytes] = []
        self.files: list[str] = []
        self.shares: list[Share] = []

    def share(self, path: str, read_only: bool) -> str:
        """Share a host directory; return its path in the guest."""
        for one in self.shares:
            if (one.path, one.read_only) == (path, read_only):
                return f"/share/{one.tag}"
        self.shares.append(Share(f"s{len(self.shares)}", path, read_only))
        return f"/share/{self.shares[-1].tag}"

    def file(self, path: str) -> str:
        """Copy a file of the pod into the machine; return its path in the guest."""
        if path not in self.files:
            self.files.append(path)
        return f"/files/{self.files.index(path)}"


def describe(configs: dict[str, Json], pod_path: str, directories: frozenset[str]) -> Description:
    """Describe the apps, given their OCI configurations by name.

    ``directories`` lists the mount sources that are directories.  Raises PodError for settings that
    a virtual machine does not support.
    """
    made = Description()
    for name, config in configs.items():
        made.apps.append(_app(made, name, config, pod_path, directories))
    return made


def _app(
    made: Description, name: str, config: Json, pod_path: str, directories: frozenset[str]
) -> bytes:
    process = config["process"]
    user = process["user"]
    words = ["r" + made.share(config["root"]["path"], False)]
    for mount in config["mounts"]:
        words += _mount(made, name, mount, pod_path, directories)
    linux = config.get("linux", {})
    words += [f"x{path}" for path in linux.get("maskedPaths", [])]
    words += [f"y{path}" for path in linux.get("readonlyPaths", [])]
    if config["root"].get("readonly"):
        words.append("o")
    for file, value in unified(linux.get("resources", {})):
        words += [f"l{file}", value]
    words += [f"u{user['uid']}", f"g{user['gid']}"]
    words += [f"G{number}" for number in user.get("additionalGids", [])]
    kept = process.get("capabilities", {}).get("bounding", [])
    words += [f"b{n}" for n, capability in enumerate(CAPABILITIES) if capability not in kept]
    if process.get("noNewPrivileges"):
        words.append("n")
    words.append(f"w{process['cwd']}")
    words += [f"e{variable}" for variable in process["env"]]
    words += [f"a{argument}" for argument in process["args"]]
    for word in words:
        if "\0" in word:
            raise PodError(f'app "{name}": settings must not contain NUL')
    return b"".join(word.encode("utf-8", "surrogateescape") + b"\0" for word in words)


def _mount(
    made: Description, name: str, mount: Json, pod_path: str, directories: frozenset[str]
) -> list[str]:
    source, kind = mount["source"], mount["type"]
    options = mount.get("options", [])
    flags = sum(_FLAGS.get(option, 0) for option in options)
    if kind != "bind":
        known = (*_FLAGS, *_IGNORED)
        data = ",".join(option for option in options if option not in known)
        return [f"m{source}", mount["destination"], kind, str(flags), data]
    if source == f"{pod_path}/{SHARED_MEMORY}":
        return ["m/shm", mount["destination"], kind, str(flags), ""]
    if source in directories:
        read_only = "ro" in options
        return [f"m{made.share(source, read_only)}", mount["destination"], kind, str(flags), ""]
    if source.startswith(f"{pod_path}/"):
        return [f"m{made.file(source)}", mount["destination"], kind, str(flags), ""]
    message = f'app "{name}": volume {source}: a virtual machine supports directories only'
    raise PodError(message)
