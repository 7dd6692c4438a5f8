"""runtime-linux.md: file descriptors and symbolic links in /dev."""

from __future__ import annotations

import os

from conformance.bundle import Bundle
from conformance.case import case, table
from conformance.context import Context
from conformance.driver import PATH

LINKS = (
    ("fd", "/proc/self/fd"),
    ("stdin", "/proc/self/fd/0"),
    ("stdout", "/proc/self/fd/1"),
    ("stderr", "/proc/self/fd/2"),
)


def _opened(c: Context, count: int) -> list[int]:
    files = [c.directory / f"passed{number}" for number in range(count)]
    return [os.open(file, os.O_RDWR | os.O_CREAT) for file in files]


def _keep_from_3(fds: list[int]) -> None:
    """Duplicate the descriptors to 3, 4 and so on.

    Called in the child process.
    """
    high = [os.dup2(fd, 500 + index) for index, fd in enumerate(fds)]
    for index, fd in enumerate(high):
        os.dup2(fd, 3 + index)
        os.close(fd)


@case("RTL-FD-01")
def standard_only(c: Context) -> None:
    """The program has the three standard descriptors and no others."""
    c.equal(sorted(map(int, c.probe()["fds"])), [0, 1, 2], "descriptors")


@table((3, 20), (200, 3), (1000, 2), ids="RTL-FD-01")
def leaked_by_caller(c: Context, first: int, count: int) -> None:
    """The program does not inherit open descriptors of create's caller, from {0} upwards."""
    fds = [os.dup2(fd, first + 300 + index) for index, fd in enumerate(_opened(c, count))]

    def before() -> None:
        for index, fd in enumerate(fds):
            os.dup2(fd, first + index)

    box = c.create(c.bundle().args("/bin/probe", "facts"), pass_fds=fds, before=before)
    box.start()
    box.wait()
    c.equal(sorted(map(int, box.reports[0]["fds"])), [0, 1, 2], "descriptors")


@case("RTL-FD-01")
def leaked_by_caller_of_start(c: Context) -> None:
    """The program does not inherit open descriptors of start's caller."""
    box = c.create(c.bundle().args("/bin/probe", "facts"))
    result = box.attempt("start", pass_fds=_opened(c, 5))
    c.expect(result.ok, f"start failed: {result.complaint}")
    box.wait()
    c.equal(sorted(map(int, box.reports[0]["fds"])), [0, 1, 2], "descriptors")


@case("RTL-FD-02")
def preserved(c: Context) -> None:
    """The program has the descriptors 3 and 4 if create has --preserve-fds 2."""
    fds = _opened(c, 3)
    box, result = c.attempt_create(
        c.bundle().args("/bin/probe", "facts"),
        "--preserve-fds",
        "2",
        pass_fds=fds,
        before=lambda: _keep_from_3(fds),
    )
    if not result.ok:
        box.deleted = True
        c.skip("create has no --preserve-fds")
    box.start()
    box.wait()
    found = box.reports[0]["fds"]
    c.equal(sorted(map(int, found)), [0, 1, 2, 3, 4], "descriptors")
    c.expect(found["3"].endswith("passed0") and found["4"].endswith("passed1"), f"{found}")


@case("RTL-FD-02")
def listening(c: Context) -> None:
    """The program has descriptor 3 if LISTEN_FDS=1 is in the environment of create's caller."""
    fds = _opened(c, 2)
    env = {"PATH": PATH, "LISTEN_FDS": "1"}

    def before() -> None:
        _keep_from_3(fds)
        # sd_listen_fds(3): it must be the pid of the process that is to have them.
        env["LISTEN_PID"] = str(os.getpid())

    bundle = c.bundle().args("/bin/probe", "facts")
    box = c.create(bundle, pass_fds=fds, env=env, before=before)
    box.start()
    box.wait()
    found = box.reports[0]["fds"]
    if len(found) == 3:
        c.skip("the runtime does not take LISTEN_FDS, as it may")
    c.equal(sorted(map(int, found)), [0, 1, 2, 3], "descriptors")
    c.expect(found["3"].endswith("passed0"), f"descriptor 3 is {found['3']}")


def _is_link(c: Context, bundle: Bundle, name: str, target: str) -> None:
    found = c.probe(bundle, f"stat=/dev/{name}")["stat"][f"/dev/{name}"]
    c.equal(found.get("link"), target, f"/dev/{name}")


@table(*LINKS, ids="RTL-LINK-01")
def link(c: Context, name: str, target: str) -> None:
    """/dev/{0} is a symbolic link to {1}."""
    _is_link(c, c.bundle(), name, target)


@table(*LINKS, ids="RTL-LINK-01")
def link_without_mount(c: Context, name: str, target: str) -> None:
    """/dev/{0} exists even if nothing is mounted on /dev."""
    c.need_root()
    bundle = c.bundle()
    bundle.config["mounts"] = [one for one in bundle.mounts if one["destination"] == "/proc"]
    _is_link(c, bundle, name, target)


@case("RTL-LINK-01")
def links_in_bound_directory(c: Context) -> None:
    """The symbolic links exist even if /dev is a bind mount."""
    c.need_root()
    bundle = c.bundle()
    source = c.directory / "dev"
    source.mkdir()
    bundle.config["mounts"] = [one for one in bundle.mounts if one["destination"] == "/proc"]
    bundle.bind(source, "/dev", "rbind")
    stats = c.probe(bundle, *(f"stat=/dev/{name}" for name, _ in LINKS))["stat"]
    missing = [path for path, found in stats.items() if "link" not in found]
    c.equal(missing, [], "missing links")


@case("RTL-LINK-01")
def no_link_without_source(c: Context) -> None:
    """A container without /proc can be created and started."""
    bundle = c.bundle("exit 7")
    bundle.config["mounts"] = [one for one in bundle.mounts if one["destination"] != "/proc"]
    c.equal(c.run(bundle).exit_status, 7, "exit status")
