"""config.md: annotations, extensibility, valid values."""

from __future__ import annotations

from typing import Any

from conformance.bundle import Bundle, Json
from conformance.case import case, table
from conformance.context import Context

# A value as the image specification wants it for each key (config.md of the image format).
IMAGE_VALUES = {
    "architecture": "amd64",
    "author": "Somebody <somebody@example.com>",
    "created": "2024-02-29T23:59:59Z",
    "exposedPorts": "80/tcp,53/udp",
    "os": "linux",
    "os.features": "win32k",
    "os.version": "10.0.14393.1066",
    "stopSignal": "SIGTERM",
    "variant": "v8",
}
FILTER = {"defaultAction": "SCMP_ACT_ALLOW", "syscalls": []}
ERRNO_RULE = {"names": ["getcwd"], "action": "SCMP_ACT_ERRNO"}
NULL_DEVICE = {"path": "/dev/own", "type": "c", "major": 1, "minor": 3}


@table(("array", []), ("string", "a=b"), ("number", 5), ("true", True), ids="CFG-ANN-01")
def annotations_type(c: Context, name: str, value: object) -> None:
    """An annotations property that is not an object ({0}) is rejected."""
    bundle = c.bundle()
    bundle.config["annotations"] = value
    c.refused(bundle, f"annotations that are {name}")


@case("CFG-ANN-03")
def empty_key(c: Context) -> None:
    """An annotation with an empty key is rejected."""
    c.refused(c.bundle(annotations={"": "value"}), "an empty key")


def kept(c: Context, annotations: dict[str, str]) -> None:
    """Require that a container with these annotations runs and its state has them unchanged."""
    box = c.started(c.bundle("sleep", annotations=annotations))
    found = box.state().get("annotations") or {}
    c.equal({key: found.get(key) for key in annotations}, annotations, "annotations in the state")


@table(
    ("domain", "com.example.gpu-cores"),
    ("word", "plain"),
    ("blank", "two words"),
    ("upper case", "COM.EXAMPLE"),
    ("letters", "de.beispiel.größe"),
    ids=("CFG-ANN-04", "CFG-ANN-06"),
)
def unknown_key(c: Context, _name: str, key: str) -> None:
    """An annotation with an unknown key ({0}) is kept and has no effect."""
    kept(c, {key: "value"})


@case("CFG-ANN-05")
def image_keys(c: Context) -> None:
    """Annotations with the keys that the image specification defines are kept."""
    kept(c, {f"org.opencontainers.image.{key}": value for key, value in IMAGE_VALUES.items()})


@case("CFG-ANN-05", "CFG-ANN-06")
def reserved_key(c: Context) -> None:
    """An undefined key in the org.opencontainers namespace is not an error."""
    kept(c, {"org.opencontainers.conformance": "value"})


@table(
    ("number", 5), ("false", False), ("null", None), ("array", []), ("object", {}), ids="CFG-ANN-07"
)
def annotation_type(c: Context, name: str, value: object) -> None:
    """An annotation whose value is not a string ({0}) is rejected."""
    c.refused(c.bundle(annotations={"org.example.a": value}), f"a value that is {name}")


@case("CFG-ANN-07")
def empty_value(c: Context) -> None:
    """An annotation's value may be empty."""
    kept(c, {"org.example.empty": ""})


@table(("USR1",), ("SIGUSR1",), ("10",), ids="CFG-ANN-08")
def stop_signal(c: Context, word: str) -> None:
    """Kill without a signal sends the image's stop signal ({0})."""
    annotations = {"org.opencontainers.image.stopSignal": word}
    bundle = c.bundle("trap /out/signals 10 15", "sleep", annotations=annotations)
    box = c.started(bundle)
    notes = box.file("/out/signals")
    c.until(lambda: notes.exists() and notes.read_text(), "the program did not run")
    if not box.attempt("kill").ok:
        c.skip("the runtime's kill wants a signal to be named")
    c.until(lambda: len(notes.read_text().split()) > 1, "no signal arrived")
    c.equal(notes.read_text().split(), ["ready", "10"], "signals that arrived")


def put(bundle: Bundle, path: str, value: object) -> Bundle:
    """Set the config value at a dotted path.

    A number in the path is a list index, as in ``process.args.0``; a last ``+`` appends to a list.
    """
    *steps, last = path.split(".")
    place: Any = bundle.config
    for step in steps:
        if isinstance(place, list):
            place = place[int(step)]
        else:
            place = place.setdefault(step, {})
    if last == "+":
        place.append(value)
    elif isinstance(place, list):
        place[int(last)] = value
    else:
        place[last] = value
    return bundle


def rich(c: Context, user_namespace: bool) -> Bundle:
    """Return a bundle whose config has at least one of every kind of object."""
    bundle = c.bundle()
    bundle.change(
        process={
            "rlimits": [{"type": "RLIMIT_CORE", "soft": 0, "hard": 0}],
            "consoleSize": {"height": 1, "width": 1},
        },
        hooks={"createRuntime": [{"path": str(bundle.probe), "args": ["probe", "exit", "0"]}]},
    )
    bundle.linux["seccomp"] = {**FILTER, "syscalls": [dict(ERRNO_RULE)]}
    if not c.host.root:
        return bundle
    bundle.linux["resources"] = {"pids": {"limit": 99}, "memory": {}, "cpu": {}}
    bundle.linux["devices"] = [] if user_namespace else [dict(NULL_DEVICE)]
    return bundle.user_namespace() if user_namespace else bundle


PLACES = (
    "process",
    "process.user",
    "process.consoleSize",
    "process.capabilities",
    "process.rlimits.0",
    "root",
    "mounts.0",
    "hooks",
    "hooks.createRuntime.0",
    "linux",
    "linux.namespaces.0",
    "linux.uidMappings.0",
    "linux.devices.0",
    "linux.resources",
    "linux.resources.memory",
    "linux.resources.cpu",
    "linux.resources.pids",
    "linux.seccomp",
    "linux.seccomp.syscalls.0",
)


@table(*[(place,) for place in PLACES], ids=("CFG-EXT-01", "CFG-EXT-02"))
def unknown_property(c: Context, place: str) -> None:
    """An unknown property in {0} is ignored."""
    if place.startswith(("linux.resources", "linux.devices")):
        c.need_root("ordinary users may have neither cgroups nor devices")
    bundle = rich(c, user_namespace="Mappings" in place)
    put(bundle, f"{place}.conformanceUnknown", {"a": [1, None]})
    box = c.run(bundle.does("exit 7"))
    c.equal(box.exit_status, 7, "exit status of the program")


@table(
    ("object", {"a": {}}),
    ("array", [1, "b"]),
    ("string", "text"),
    ("number", -1.5e300),
    ("null", None),
    ids=("CFG-EXT-01", "CFG-EXT-02"),
)
def unknown_top_level(c: Context, _name: str, value: object) -> None:
    """An unknown top-level property of the config ({0}) is ignored."""
    box = c.run(put(c.bundle("exit 7"), "conformanceUnknown", value))
    c.equal(box.exit_status, 7, "exit status of the program")


VALUES: tuple[tuple[str, str, object], ...] = (
    ("ociVersion number", "ociVersion", 1.0),
    ("root string", "root", "rootfs"),
    ("root.path number", "root.path", 5),
    ("root.readonly string", "root.readonly", "true"),
    ("hostname number", "hostname", 5),
    ("domainname array", "domainname", []),
    ("mounts object", "mounts", {}),
    ("mount string", "mounts.+", "/tmp"),
    ("destination number", "mounts.0.destination", 5),
    ("options string", "mounts.0.options", "nosuid"),
    ("option number", "mounts.0.options", [5]),
    ("process array", "process", []),
    ("terminal string", "process.terminal", "false"),
    ("cwd array", "process.cwd", ["/"]),
    ("env object", "process.env", {"A": "1"}),
    ("env number", "process.env", [1]),
    ("args string", "process.args", "/bin/probe"),
    ("args number", "process.args", ["/bin/probe", 1]),
    ("user string", "process.user", "root"),
    ("uid string", "process.user.uid", "0"),
    ("uid negative", "process.user.uid", -1),
    ("uid fraction", "process.user.uid", 0.5),
    ("uid of 33 bits", "process.user.uid", 1 << 32),
    ("gid of 33 bits", "process.user.gid", 1 << 32),
    ("additionalGids number", "process.user.additionalGids", 5),
    ("additional gid negative", "process.user.additionalGids", [-1]),
    ("umask string", "process.user.umask", "0022"),
    ("umask negative", "process.user.umask", -1),
    ("rlimits object", "process.rlimits", {}),
    ("limit negative", "process.rlimits", [{"type": "RLIMIT_CORE", "soft": -1, "hard": 5}]),
    ("limit of 65 bits", "process.rlimits", [{"type": "RLIMIT_CORE", "soft": 0, "hard": 1 << 64}]),
    ("capabilities array", "process.capabilities", ["CAP_KILL"]),
    ("bounding string", "process.capabilities.bounding", "CAP_KILL"),
    ("noNewPrivileges number", "process.noNewPrivileges", 1),
    ("oomScoreAdj string", "process.oomScoreAdj", "0"),
    ("oomScoreAdj above", "process.oomScoreAdj", 1001),
    ("oomScoreAdj below", "process.oomScoreAdj", -1001),
    ("hooks array", "hooks", []),
    ("hook list object", "hooks.createRuntime", {"path": "/bin/true"}),
    ("hook string", "hooks.createRuntime", ["/bin/true"]),
    ("linux array", "linux", []),
    ("number in sysctl", "linux.sysctl", {"net.ipv4.ip_forward": 1}),
    ("namespaces object", "linux.namespaces", {"type": "mount"}),
    ("namespace type", "linux.namespaces.+", {"type": "nonsense"}),
    ("namespace without type", "linux.namespaces.+", {}),
    ("uidMappings object", "linux.uidMappings", {}),
    ("devices object", "linux.devices", {}),
    ("resources array", "linux.resources", []),
    ("cgroupsPath number", "linux.cgroupsPath", 5),
    ("sysctl array", "linux.sysctl", ["kernel.msgmax=1"]),
    ("sysctl number", "linux.sysctl", {"kernel.msgmax": 4321}),
    ("maskedPaths string", "linux.maskedPaths", "/proc/kcore"),
    ("readonlyPaths number", "linux.readonlyPaths", [5]),
    ("rootfsPropagation", "linux.rootfsPropagation", "nonsense"),
    ("seccomp array", "linux.seccomp", []),
    ("seccomp action", "linux.seccomp", {"defaultAction": "SCMP_ACT_NONSENSE"}),
    ("seccomp architecture", "linux.seccomp", {**FILTER, "architectures": ["SCMP_ARCH_NONSENSE"]}),
    ("personality", "linux.personality", {"domain": "NONSENSE"}),
)


@table(*VALUES, ids="CFG-VAL-01")
def bad_value(c: Context, _name: str, path: str, value: object) -> None:
    """A value that is invalid for its property ({0}) is rejected."""
    c.refused(put(c.bundle(), path, value), f"{path}: {value!r}")


GOOD: tuple[tuple[str, Json], ...] = (
    ("false", {"process": {"terminal": False}, "root": {"readonly": False}}),
    ("empty lists", {"process": {"rlimits": [], "user": {"additionalGids": []}}, "hooks": {}}),
    ("empty objects", {"annotations": {}, "linux": {"sysctl": {}, "resources": {}}}),
    ("32 bits", {"process": {"user": {"umask": 0}, "oomScoreAdj": 1000}}),
)


@table(*GOOD, ids="CFG-VAL-01")
def good_value(c: Context, _name: str, changes: Json) -> None:
    """Valid edge-case values ({0}) are accepted."""
    if not c.host.root:
        changes = {key: value for key, value in changes.items() if key != "linux"}
    c.equal(c.run(c.bundle("exit 7", **changes)).exit_status, 7, "exit status of the program")
