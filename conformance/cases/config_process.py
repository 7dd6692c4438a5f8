"""config.md: process (terminal, cwd, env, args, user), hostname, domainname."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from conformance.bundle import ABSENT, Bundle, Json
from conformance.case import case, table
from conformance.console import read_all
from conformance.context import Context

CONSOLE_SIZE = {"height": 33, "width": 77}


def terminal_bundle(c: Context, *actions: str, **process: Any) -> Bundle:
    """Return a bundle whose program has a terminal."""
    return c.bundle(*actions, process={"terminal": True, **process})


@case("CFG-PROC-02")
def terminal(c: Context) -> None:
    """If terminal is true, all three standard streams are connected to a terminal."""
    console = c.console()
    bundle = terminal_bundle(c, "to /out/facts", "facts")
    box = c.run(bundle, "--console-socket", str(console.path))
    facts = json.loads(box.file("/out/facts").read_text())
    c.expect(facts["terminal"], "standard input is no terminal")
    c.equal(facts["terminal"]["ttys"], [1, 1, 1], "isatty of the three")
    c.equal(facts["terminal"]["session"], facts["sid"], "session of the terminal")


@case("CFG-PROC-02")
def terminal_master(c: Context) -> None:
    """The program's terminal output can be read from the terminal that was sent."""
    console = c.console()
    c.started(terminal_bundle(c, "echo spoken", "sleep"), "--console-socket", str(console.path))
    master = console.receive()
    c.expect(b"spoken" in read_all(master), "the terminal's master did not say it")
    os.close(master)


@table(("absent", ABSENT), ("false", False), ids="CFG-PROC-02")
def no_terminal(c: Context, _name: str, value: object) -> None:
    """If terminal is {0}, the program has no terminal."""
    facts = c.probe(c.bundle(process={"terminal": value}))
    c.equal(facts["terminal"], None, "terminal")


@table(("absent", ABSENT), ("false", False), ids="CFG-PROC-03")
def console_size_unused(c: Context, _name: str, value: object) -> None:
    """If terminal is {0}, consoleSize is ignored."""
    process = {"terminal": value, "consoleSize": CONSOLE_SIZE}
    c.equal(c.probe(c.bundle(process=process))["terminal"], None, "terminal")


@case("CFG-PROC-04")
def console_size(c: Context) -> None:
    """The terminal has the size given by consoleSize."""
    console = c.console()
    bundle = terminal_bundle(c, "to /out/facts", "facts", consoleSize=CONSOLE_SIZE)
    box = c.run(bundle, "--console-socket", str(console.path))
    seen = json.loads(box.file("/out/facts").read_text())["terminal"]
    c.equal((seen["rows"], seen["columns"]), (33, 77), "rows and columns")


@table(("height",), ("width",), ids="CFG-PROC-04")
def console_size_incomplete(c: Context, missing: str) -> None:
    """A consoleSize without {0} is rejected."""
    size = {key: value for key, value in CONSOLE_SIZE.items() if key != missing}
    bundle = terminal_bundle(c, consoleSize=size)
    console = c.console()  # listens as long as it is referred to
    _, result = c.attempt_create(bundle, "--console-socket", str(console.path))
    c.failed(result, f"consoleSize {size}")


@case("CFG-PROC-05")
def no_cwd(c: Context) -> None:
    """A process without cwd is rejected."""
    c.refused(c.bundle(process={"cwd": ABSENT}), "no cwd")


@table(("name", "tmp"), ("dot", "./tmp"), ("empty", ""), ids="CFG-PROC-06")
def relative_cwd(c: Context, _name: str, path: str) -> None:
    """A cwd that is not absolute ({0}) is rejected."""
    c.refused(c.bundle(process={"cwd": path}), f"cwd {path!r}")


@case("CFG-PROC-05", "CFG-PROC-06")
def cwd(c: Context) -> None:
    """The program's working directory is cwd."""
    c.equal(c.probe(c.bundle(process={"cwd": "/var"}))["cwd"], "/var", "working directory")


def environment(c: Context, env: list[str]) -> list[str]:
    """Return the program's environment if the runtime itself is called with another one."""
    caller = {"PATH": "/usr/bin:/bin", "CALLER": "1"}
    return list(c.probe(c.bundle(process={"env": env}), env=caller)["env"])


@case("CFG-PROC-07")
def env(c: Context) -> None:
    """The program's environment has the listed variables, unchanged and in order."""
    listed = ["Z=1", "EMPTY=", "A=with=sign", "B=two words", "HOME=/out"]
    c.equal([one for one in environment(c, listed) if one in listed], listed, "variables")


@case("CFG-PROC-07")
def env_of_caller(c: Context) -> None:
    """The program does not inherit variables from the runtime's caller."""
    # Some add a home directory where none is listed; that is none of the caller's.
    names = {one.partition("=")[0] for one in environment(c, ["LISTED=1"])}
    c.equal(names - {"HOME"}, {"LISTED"}, "names of variables")


@table(("absent", ABSENT), ("empty", []), ids="CFG-PROC-08")
def no_args(c: Context, name: str, args: object) -> None:
    """A process whose args are {0} is rejected by create or by start."""
    c.refused(c.bundle(process={"args": args}), f"args {name}", or_start=True)


@case("CFG-PROC-08")
def args(c: Context) -> None:
    """The program gets args unchanged, including empty arguments and spaces."""
    words = ["/bin/probe", "facts", "two words", "", "$HOME"]
    box = c.run(c.bundle().args(*words))
    c.equal(box.reports[0]["argv"] if box.reports else None, words, "argv")


def tool_in(bundle: Bundle, directory: str, name: str = "tool", mode: int = 0o755) -> None:
    """Copy the probe into this directory of the root filesystem, with this mode."""
    place = bundle.rootfs / directory.lstrip("/")
    place.mkdir(exist_ok=True)
    (place / name).write_bytes(bundle.probe.read_bytes())
    (place / name).chmod(mode)


def exe_of(c: Context, bundle: Bundle, word: str) -> tuple[object, object]:
    """Run ``word`` as args[0]; return the path of the executed file and its argv[0]."""
    reports = c.run(bundle.args(word, "facts")).reports
    c.expect(reports, f"no program was found for {word}")
    return reports[0]["exe"], reports[0]["argv"][0]


@case("CFG-PROC-09")
def looked_up(c: Context) -> None:
    """A name without a slash is looked up in the PATH of env and remains argv[0]."""
    bundle = c.bundle(process={"env": ["PATH=/nowhere:/var/tools"]})
    tool_in(bundle, "/var/tools")
    c.equal(exe_of(c, bundle, "tool"), ("/var/tools/tool", "tool"), "program and argv[0]")


@case("CFG-PROC-09")
def looked_up_further(c: Context) -> None:
    """The PATH lookup skips files that are not executable."""
    bundle = c.bundle(process={"env": ["PATH=/var/first:/var/second"]})
    tool_in(bundle, "/var/first", mode=0o644)
    tool_in(bundle, "/var/second")
    c.equal(exe_of(c, bundle, "tool")[0], "/var/second/tool", "program")


@case("CFG-PROC-09")
def not_in_path(c: Context) -> None:
    """A name that is found only in the caller's PATH, or nowhere, is an error."""
    bundle = c.bundle("touch /out/ran", process={"env": ["PATH=/usr/bin"]})
    bundle.process["args"][0] = "tool"
    tool_in(bundle, "/var/tools")
    _, result = c.attempt_create(bundle, env={"PATH": "/var/tools:/usr/sbin:/usr/bin:/bin"})
    if result.ok:
        result = c.containers[-1].attempt("start")
    c.failed(result, "no such program in PATH")
    c.expect(not (bundle.rootfs / "out/ran").exists(), "the program ran")


@table(("from root", "/", "bin/probe"), ("dot", "/bin", "./probe"), ids="CFG-PROC-09")
def relative_program(c: Context, _name: str, cwd: str, word: str) -> None:
    """A name with a slash is resolved from cwd ({0})."""
    bundle = c.bundle(process={"cwd": cwd})
    c.equal(exe_of(c, bundle, word), ("/bin/probe", word), "program and argv[0]")


@table(("uid",), ("gid",), ids="CFG-USER-01")
def incomplete_user(c: Context, missing: str) -> None:
    """A user without {0} is rejected."""
    c.refused(c.bundle(process={"user": {missing: ABSENT}}), f"user without {missing}")


@case("CFG-USER-01")
def user(c: Context) -> None:
    """The program has uid and gid as its real, effective and saved IDs."""
    c.need_root()
    facts = c.probe(c.bundle(process={"user": {"uid": 1234, "gid": 2345}}))
    kinds = ("uid", "euid", "suid", "gid", "egid", "sgid")
    c.equal([facts[kind] for kind in kinds], [1234] * 3 + [2345] * 3, "ids")


def ids_on_host(pid: int) -> Json:
    """Return ``Uid`` and ``Gid`` of /proc/PID/status, each as a set."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    fields = {line.partition(":")[0]: set(line.split()[1:]) for line in lines}
    return {name: fields[name] for name in ("Uid", "Gid")}


@case("CFG-USER-02")
def user_in_namespace(c: Context) -> None:
    """In a user namespace, uid and gid are the IDs inside, not those on the host."""
    c.need_root()
    bundle = c.bundle("facts", "sleep", process={"user": {"uid": 7, "gid": 8}})
    box = c.started(bundle.user_namespace())
    facts = box.wait_for_reports()[0]
    c.equal((facts["uid"], facts["gid"]), (7, 8), "ids inside")
    c.equal(ids_on_host(box.pid), {"Uid": {"100007"}, "Gid": {"100008"}}, "ids outside")


@table(("63", 0o77), ("0", 0), ids="CFG-USER-03")
def umask(c: Context, _name: str, value: int) -> None:
    """A umask of {0} is applied to the program."""
    caller = {"before": lambda: os.umask(0o26)}
    facts = c.probe(c.bundle(process={"user": {"umask": value}}), **caller)
    c.equal(facts["umask"], value, "umask")


@case("CFG-USER-03")
def umask_of_caller(c: Context) -> None:
    """Without a umask, the program inherits that of the runtime's caller."""
    facts = c.probe(c.bundle(), before=lambda: os.umask(0o26))
    c.equal(facts["umask"], 0o26, "umask")


@case("CFG-USER-04")
def additional_gids(c: Context) -> None:
    """The additionalGids are supplementary groups of the program."""
    c.need_root()
    facts = c.probe(c.bundle(process={"user": {"gid": 5, "additionalGids": [77, 6]}}))
    c.equal(set(facts["groups"]) - {5}, {6, 77}, "groups")
    c.equal(facts["gid"], 5, "gid")


@case("CFG-USER-04")
def groups_of_caller(c: Context) -> None:
    """Without additionalGids, the program inherits no groups from the runtime's caller."""
    c.need_root()
    facts = c.probe(c.bundle(), before=lambda: os.setgroups([4321]))
    c.equal(set(facts["groups"]) - {0}, set(), "groups")


def named(c: Context, name: str) -> tuple[str, str]:
    """Set hostname or domainname in a container; return it as seen inside and on the host."""
    bundle = c.bundle("facts", "sleep", **{name: "inside.example"})
    box = c.started(bundle)
    seen = box.wait_for_reports()[0][name]
    return str(seen), str(json.loads(c.probe_on_host().out)[name])


@case("CFG-HOST-01")
def hostname(c: Context) -> None:
    """The program sees the hostname of the config, and the host's does not change."""
    before = os.uname().nodename
    c.equal(named(c, "hostname"), ("inside.example", before), "inside and outside")


@case("CFG-HOST-02")
def domainname(c: Context) -> None:
    """The program sees the domain name of the config, and the host's does not change."""
    before = json.loads(c.probe_on_host().out)["domainname"]
    c.equal(named(c, "domainname"), ("inside.example", before), "inside and outside")


@case("CFG-PLAT-01")
def no_linux(c: Context) -> None:
    """A config with neither linux nor mounts runs a container."""
    c.need_root("as an ordinary user it needs a user namespace")
    box = c.run(c.bundle("touch /out/ran", linux=ABSENT, mounts=ABSENT))
    c.equal(box.exit_status, 0, "exit status")
    c.expect(box.file("/out/ran").exists(), "the program did not run in the root of the bundle")
