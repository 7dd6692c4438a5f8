"""Texts from containers, clients and other programs that try to forge lines of a log or table.

A line feed would forge a line, an escape sequence would rewrite the terminal, a bidirectional
override would reorder the text.
"""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from tests.support import processes
from tests.support.bundle import Bundle
from tests.support.daemon import OCICTL, Daemon
from tests.support.live_mounts import change, entry
from tests.support.ocipod import Ocipod
from tests.support.peers import deviates, judge_by
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.runtime import Runtime, execute

FORGED = "level=error msg=forged"
# Line feeds of every kind, escape sequences of 7 and 8 bits, a bidirectional override and isolate.
ODD = f"x\n{FORGED}\r\x1b[2J\x9b1m\u2028{FORGED}\u2029\u202e\u2066y"
ENTRY = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} [A-Z]+ ")
# What --debug says before there is a log.
STARTED = re.compile(r"ocid: started (from the snapshot|the interpreter: )")
ENCODED = (
    "%0A2026-01-01%2000:00:00,000%20INFO%20forged%0D%0Aforged"
    "%1B[2K%C2%9B1m%E2%80%A8forged%E2%80%AE%E2%81%A6%FF"
)
CHUNKED = b"POST /v1/containers HTTP/1.1\r\nHost: ocid\r\nTransfer-Encoding: chunked\r\n\r\n"


def lines_of(text: str) -> list[str]:
    """Split at line feeds only; fail if a line contains other separators or terminal controls."""
    lines = text.removesuffix("\n").split("\n")
    for line in lines:
        assert line.replace("\t", "").isprintable(), f"not escaped: {line!r}"
    return lines


def one_line(text: str) -> str:
    """Return the only line; fail if there are several."""
    (line,) = lines_of(text)
    return line


@pytest.mark.parametrize("option", ["bundle", "pid-file", "console-socket"])
@pytest.mark.parametrize("format", ["text", "json"])
@deviates(
    runc="writes the path to standard error as it is",
    crun="writes the path to standard error as it is",
)
def test_a_path_in_the_log(
    container: MakeContainer, bundle: MakeBundle, work: Path, format: str, option: str
) -> None:
    log = work / "log"
    one = container(bundle())
    one.bundle.process["terminal"] = option == "console-socket"
    one.bundle.save()
    paths = {"bundle": str(one.bundle.path), option: f"{work}/none/{ODD}"}
    words = [f"--{name}={path}" for name, path in paths.items()]
    done = one.runtime(f"--log={log}", f"--log-format={format}", "create", *words, one.id)
    one.exists = done.status == 0
    assert done.status == 1
    one_line(done.err)
    line = one_line(log.read_text())
    if format == "json":
        assert json.loads(line)["level"] == "error"


@pytest.mark.parametrize("command", ["create", "state", "start"])
@deviates(crun="writes the id to standard error as it is")
def test_a_container_id_on_standard_error(
    runtime: Runtime, bundle: MakeBundle, command: str
) -> None:
    made = bundle()
    made.save()
    words = [f"--bundle={made.path}"] if command == "create" else []
    done = runtime(command, *words, ODD)
    assert done.status == 1
    one_line(done.err)


@deviates(crun="passes on what the hook writes")
def test_the_output_of_a_failing_hook(container: MakeContainer, bundle: MakeBundle) -> None:
    made = bundle()
    octal = "".join(f"\\0{byte:03o}" for byte in ODD.encode() + b"\xff")
    hook = {"path": "/bin/sh", "args": ["sh", "-c", f"printf '%b' '{octal}' >&2; exit 1"]}
    made.hooks["createRuntime"] = [hook]
    done = container(made).create()
    assert done.status != 0
    assert "forged" in one_line(done.err)


@deviates(crun="writes the path to standard error as it is")
def test_the_path_of_a_hook_that_is_missing(container: MakeContainer, bundle: MakeBundle) -> None:
    made = bundle()
    made.hooks["createRuntime"] = [{"path": f"/nowhere/{ODD}"}]
    done = container(made).create()
    assert done.status != 0
    one_line(done.err)


@deviates(runc="prints the path of a bundle as it is", crun="prints the path of a bundle as it is")
def test_the_path_of_a_bundle_in_the_list(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime
) -> None:
    made = bundle()
    odd = Bundle(made.path.rename(made.path.with_name(ODD)), ("sleep", "100"))
    one = container(odd)
    one.created()
    lines = lines_of(runtime("list").ok().out)
    assert [line.split()[0] for line in lines] == ["ID", one.id]


@pytest.mark.parametrize("column", ["comm", "args"])
@judge_by("ociruntime", "runc")  # crun hands nothing on to ps
@deviates(runc="prints what ps prints, which leaves U+202E as it is")
def test_the_name_of_a_process(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime, column: str
) -> None:
    octal = "".join(f"\\0{byte:03o}" for byte in "a\n\x1b[2J\u2028\u202e\x85".encode())
    script = f"printf '%b' '{octal}' >/proc/$$/comm; echo ready; while :; do sleep 1; done"
    made = bundle("sh", "-c", script, f"\u2028{'1' * 3} root forged{ODD}")
    one = container(made)
    one.started()
    one.wait_output("ready")
    env = {"LC_ALL": "C.UTF-8", "PATH": "/usr/bin:/bin"}
    done = runtime("ps", one.id, "-eo", f"pid,ppid,{column}", env=env).ok()
    for line in lines_of(done.out)[1:]:
        assert line.split()[0].isdigit(), done.out


@judge_by("ociruntime")
def test_a_bundle_that_is_examined(runtime: Runtime, bundle: MakeBundle) -> None:
    made = bundle("true", ODD)
    made.config["mounts"].append({"destination": f"/{ODD}", "type": "tmpfs", "source": ODD})
    bind = {"destination": "/mnt", "type": "bind", "source": f"/nowhere/{ODD}", "options": ["bind"]}
    made.config["mounts"].append(bind)
    made.config["annotations"] = {ODD: ODD}
    made.process["env"].append(f"X={ODD}")
    made.save()
    for command in ("plan", "check"):
        done = runtime(command, f"--bundle={made.path}")
        assert "forged" in done.out + done.err
        lines_of(done.out)
        lines_of(done.err)


@judge_by("ociruntime")
def test_words_of_a_container_in_tables_of_the_daemon(
    runtime: Runtime, daemon: Daemon, shell_root: str
) -> None:
    odd = ODD.replace("\r", "")
    daemon.create("odd", rootfs=shell_root, command=["/bin/echo", odd], labels={"a": odd})
    tables = (
        ("ps", "--all", "--no-trunc"),
        ("ps", "--all", "--format=table names,labels,command"),
        ("ps", "--all", "--format={{.Labels}} {{.Command}}"),
        ("container", "list"),
    )
    for words in tables:
        done = execute([str(OCICTL), f"--socket={daemon.socket}", *words]).ok()
        assert FORGED in done.out
        for line in lines_of(done.out):
            assert not line.startswith(FORGED)


@judge_by("ociruntime")
def test_references_to_pods_and_images(runtime: Runtime, ocipod: Ocipod) -> None:
    for words in (("rm", ODD), ("stop", ODD), ("image", "rm", ODD), ("fetch", f"./{ODD}")):
        for line in lines_of(ocipod(*words).err):
            assert line.startswith("ocipod: "), words


@judge_by("ociruntime")
def test_words_of_the_command_line_in_a_traceback(runtime: Runtime, ocipod: Ocipod) -> None:
    lines_of(ocipod("--debug", "status", ODD).err)
    lines_of(runtime("--debug", "state", ODD).err)


def _ask(daemon: Daemon, request: bytes) -> bytes:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(30)
        client.connect(str(daemon.socket))
        client.sendall(request)
        client.shutdown(socket.SHUT_WR)
        answer = b""
        while piece := client.recv(65536):
            answer += piece
        return answer


SPLITTING = "a\\rb\\013\\342\\200\\250c"  # for printf: what str.splitlines() splits at


@judge_by("ociruntime")
def test_a_renamed_directory_above_a_mount(container: MakeContainer, bundle: MakeBundle) -> None:
    """The kernel shows a mount point under the container's name, with only blanks escaped."""
    made = bundle().mount("/kept/b", "tmpfs", "tmpfs", "size=64k")
    one = container(made).started()
    one.exec("sh", "-c", f'mv /kept "/$(printf "{SPLITTING}")"').ok()
    room = entry("/mnt/room", "tmpfs", "tmpfs", "size=64k")
    change(one, "add", room).silent()
    change(one, "remove", room).silent()


@judge_by("ociruntime")
def test_a_mount_of_another_user_of_the_host(
    runtime: Runtime, bundle: MakeBundle, container: MakeContainer, work: Path
) -> None:
    """FUSE lets any user mount on a directory with any name: containers must still start."""
    one = container(bundle("echo", "started").save())
    script = f'''
        place="{work}/$(printf "{SPLITTING}")"
        mkdir "$place" && mount -t tmpfs -o size=64k none "$place" && exec "$@"
    '''
    command = [runtime.path, "--root", runtime.root, "run", "-b", one.bundle.path, one.id]
    shell = ["unshare", "-m", "sh", "-c", script, "sh"]
    assert execute([*shell, *map(str, command)]).ok().out == "started\n"


def _request(method: str, path: str, agent: bytes = b"test", body: bytes = b"") -> bytes:
    head = f"{method} {path} HTTP/1.1\r\nHost: ocid\r\nConnection: close\r\n".encode()
    kind = b"Content-Type: application/json\r\n" if body else b""
    size = f"Content-Length: {len(body)}\r\n".encode()
    return head + b"User-Agent: " + agent + b"\r\n" + kind + size + b"\r\n" + body


@judge_by("ociruntime")
@pytest.mark.parametrize("options", [(), ("--debug",)], ids=["info", "debug"])
def test_requests_in_the_log_of_the_daemon(
    runtime: Runtime, daemon: Daemon, options: tuple[str, ...]
) -> None:
    if options:
        daemon.stop()
        daemon.start(*options)
    body = json.dumps({"image": ODD, "name": ODD, "labels": {ODD: ODD}, ODD: ODD}).encode()
    requests = (
        _request("GET", f"/v1/containers/x{ENCODED}"),
        _request("DELETE", f"/v1/containers/x{ENCODED}?force={ENCODED}"),
        _request("GET", f"/v1/ping?x={ENCODED}", ODD.replace("\n", "").encode()),
        _request("GET", "/v1/ping", b"forged\x1b[2J\xff"),
        _request("POST", "/v1/containers", body=body),
        _request("POST", "/v1/images/pull", body=body),
        _request("POST", "/v1/containers", body=b'{"forged\n\x1b[2J\xff'),
        b"GET /v1/\x1b[2Jping\xe2\x80\xa8forged HTTP/1.1\r\nHost: ocid\r\n\r\n",
        b"FOR\x1bGED\r\n forged\r\n\r\n",
        CHUNKED + b"\x1b[2Jforged\r\n2026-01-01 00:00:00,000 INFO forged\r\n",
    )
    for request in requests:
        _ask(daemon, request)
    assert daemon("GET", "/v1/ping").status == 200
    assert processes.until(lambda: "/v1/containers/x" in daemon.log.read_text(), 20)
    for line in lines_of(daemon.log.read_bytes().decode()):
        own = STARTED.match(line) or ENTRY.match(line) or line.startswith("    ")
        assert own, f"no entry of its own: {line!r}"
        assert not line.startswith("2026-01-01"), line
