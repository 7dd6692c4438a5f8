"""The container's process: identity, capabilities, limits, environment, program."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.support.bundle import PATH, Bundle
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer, Probe
from tests.support.runtime import Runtime

CAPABILITY = {
    "CAP_CHOWN": 0,
    "CAP_KILL": 5,
    "CAP_SETUID": 7,
    "CAP_NET_BIND_SERVICE": 10,
    "CAP_NET_RAW": 13,
    "CAP_AUDIT_WRITE": 29,
}
UNLIMITED = 2**64 - 1


def mask(*names: str) -> int:
    return sum(1 << CAPABILITY[name] for name in names)


def test_user_and_groups(probe: Probe, bundle: MakeBundle) -> None:
    """CFG-USER-01, -04."""
    one = bundle()
    one.process["user"] = {"uid": 1000, "gid": 1001, "additionalGids": [5, 60, 1001]}
    facts = probe(one)
    assert (facts["uid"], facts["euid"], facts["suid"]) == (1000, 1000, 1000)
    assert (facts["gid"], facts["egid"], facts["sgid"]) == (1001, 1001, 1001)
    assert sorted(facts["groups"]) == [5, 60, 1001]


def test_no_groups_are_inherited(bundle: MakeBundle, runtime: Runtime, probe: Probe) -> None:
    """CFG-USER-04: the caller's supplementary groups are dropped."""
    one = bundle("/bin/probe").save()
    groups = os.getgroups()
    os.setgroups([4, 20])
    try:
        assert probe(one)["groups"] == []
    finally:
        os.setgroups(groups)


@pytest.mark.parametrize(("given", "expected"), [(63, 0o077), (0, 0), (0o27, 0o27), (None, 0o022)])
def test_umask(probe: Probe, bundle: MakeBundle, given: int | None, expected: int) -> None:
    """CFG-USER-03; without one it is 0022 whatever the caller's is, as in the peers (A-14)."""
    one = bundle()
    if given is not None:
        one.process["user"]["umask"] = given
    before = os.umask(0o007)
    try:
        assert probe(one)["umask"] == expected
    finally:
        os.umask(before)


def test_working_directory(probe: Probe, bundle: MakeBundle) -> None:
    one = bundle()
    one.process["cwd"] = "/home/user"
    assert probe(one)["cwd"] == "/home/user"


def test_working_directory_is_made(probe: Probe, bundle: MakeBundle) -> None:
    """A-21."""
    one = bundle()
    one.process["cwd"] = "/not/yet/there"
    assert probe(one)["cwd"] == "/not/yet/there"


def test_working_directory_of_an_unprivileged_user(probe: Probe, bundle: MakeBundle) -> None:
    """A home that only its owner may enter."""
    one = bundle()
    home = one.rootfs / "home" / "user"
    os.chown(home, 1000, 1000)
    home.chmod(0o700)
    one.process["cwd"] = "/home/user"
    one.process["user"] = {"uid": 1000, "gid": 1000}
    assert probe(one)["cwd"] == "/home/user"


@deviates(crun="takes it")
def test_relative_working_directory(container: MakeContainer, bundle: MakeBundle) -> None:
    """CFG-PROC-06."""
    one = bundle()
    one.process["cwd"] = "tmp"
    container(one).create().failed()


def test_environment(probe: Probe, bundle: MakeBundle) -> None:
    """CFG-PROC-07: exactly the list, in order; HOME from passwd (A-20)."""
    one = bundle()
    listed = [PATH, "A=1", "B=x=y=z", "EMPTY=", "C=two words", "D=\u00e4\u2603"]
    one.process["env"] = listed
    got = probe(one, env={"PATH": os.environ["PATH"], "LEAK": "1"})["env"]
    assert [entry for entry in got if not entry.startswith("HOME=")] == listed
    assert "HOME=/root" in got


@pytest.mark.parametrize(
    ("uid", "home"), [(0, "/root"), (1000, "/home/user"), (4711, "/")], ids=["root", "user", "none"]
)
def test_home(probe: Probe, bundle: MakeBundle, uid: int, home: str) -> None:
    one = bundle()
    one.process["user"]["uid"] = uid
    assert f"HOME={home}" in probe(one)["env"]


def test_given_home_stays(probe: Probe, bundle: MakeBundle) -> None:
    one = bundle()
    one.process["env"].append("HOME=/elsewhere")
    env = probe(one)["env"]
    assert [entry for entry in env if entry.startswith("HOME=")] == ["HOME=/elsewhere"]


def test_home_ignores_a_passwd_that_leads_outside(
    probe: Probe, bundle: MakeBundle, work: Path
) -> None:
    """The container's file is read inside its root, through any link."""
    (work / "passwd").write_text("root:x:0:0::/from/the/host:/bin/sh\n")
    one = bundle()
    passwd = one.rootfs / "etc" / "passwd"
    passwd.unlink()
    passwd.symlink_to(work / "passwd")
    assert "HOME=/from/the/host" not in probe(one)["env"]


@pytest.mark.parametrize(
    ("kind", "soft", "hard"),
    [
        ("RLIMIT_NOFILE", 512, 1024),
        ("RLIMIT_CORE", 0, 0),
        ("RLIMIT_NPROC", 100, 200),
        ("RLIMIT_STACK", 1 << 20, UNLIMITED),
        ("RLIMIT_FSIZE", UNLIMITED, UNLIMITED),
        ("RLIMIT_CPU", 100, 200),
        ("RLIMIT_AS", 1 << 32, 1 << 33),
        ("RLIMIT_MSGQUEUE", 0, 4096),
    ],
)
def test_rlimit(probe: Probe, bundle: MakeBundle, kind: str, soft: int, hard: int) -> None:
    """CFG-RLIM-03 to -05."""
    one = bundle()
    one.process["rlimits"] = [{"type": kind, "soft": soft, "hard": hard}]
    assert probe(one)["rlimits"][kind] == [soft, hard]


def test_duplicate_rlimit(container: MakeContainer, bundle: MakeBundle) -> None:
    """The last one counts, like the peers', although CFG-RLIM-06 requires an error."""
    one = bundle().shell("ulimit -n; ulimit -Hn")
    first = {"type": "RLIMIT_NOFILE", "soft": 100, "hard": 200}
    one.process["rlimits"] = [first, {"type": "RLIMIT_NOFILE", "soft": 50, "hard": 90}]
    assert container(one).run().ok().out.split()[-2:] == ["50", "90"]


def test_rlimit_soft_above_hard(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle()
    one.process["rlimits"] = [{"type": "RLIMIT_NOFILE", "soft": 99, "hard": 9}]
    container(one).create().failed()


@pytest.mark.parametrize("no_new_privileges", [True, False])
def test_capabilities_of_root(probe: Probe, bundle: MakeBundle, no_new_privileges: bool) -> None:
    """CFG-CAP-03: the five sets; for uid 0, execve(2) refills them from the bounding set."""
    one = bundle()
    one.process["noNewPrivileges"] = no_new_privileges
    one.process["capabilities"] = {
        "bounding": ["CAP_CHOWN", "CAP_KILL", "CAP_NET_RAW"],
        "permitted": ["CAP_CHOWN", "CAP_KILL"],
        "effective": ["CAP_CHOWN", "CAP_KILL"],
        "inheritable": [],
        "ambient": [],
    }
    sets = probe(one)["capabilities"]
    assert sets["bounding"] == mask("CAP_CHOWN", "CAP_KILL", "CAP_NET_RAW")
    kept = mask("CAP_CHOWN", "CAP_KILL") if no_new_privileges else sets["bounding"]
    assert sets["permitted"] == sets["effective"] == kept
    assert sets["inheritable"] == sets["ambient"] == 0


def test_capabilities_of_a_user(probe: Probe, bundle: MakeBundle) -> None:
    """Without ambient capabilities, none are left after execve(2)."""
    one = bundle().capabilities("CAP_KILL", "CAP_NET_RAW", ambient=("CAP_NET_RAW",))
    one.process["user"] = {"uid": 1000, "gid": 1000}
    sets = probe(one)["capabilities"]
    assert sets["bounding"] == mask("CAP_KILL", "CAP_NET_RAW")
    for kind in ("permitted", "effective", "inheritable", "ambient"):
        assert sets[kind] == mask("CAP_NET_RAW"), kind


def test_user_without_ambient_capabilities(probe: Probe, bundle: MakeBundle) -> None:
    one = bundle().capabilities("CAP_KILL")
    one.process["user"] = {"uid": 1000, "gid": 1000}
    sets = probe(one)["capabilities"]
    assert sets["bounding"] == mask("CAP_KILL")
    assert sets["permitted"] == sets["effective"] == sets["ambient"] == 0


@pytest.mark.parametrize("given", [None, {}], ids=["absent", "empty"])
@deviates(runc="keeps all of them when the object is absent")
def test_no_capabilities(probe: Probe, bundle: MakeBundle, given: object) -> None:
    """A-17: the safe interpretation of a missing object is that none are granted."""
    one = bundle()
    one.process["capabilities"] = given
    if given is None:
        del one.process["capabilities"]
    assert set(probe(one)["capabilities"].values()) == {0}


@deviates(crun="says nothing")
def test_unknown_capability_is_a_warning(
    container: MakeContainer, bundle: MakeBundle, work: Path
) -> None:
    """CFG-CAP-01, RT-WARN-01."""
    made = container(bundle("true").capabilities("CAP_KILL", "CAP_BOGUS"))
    made.runtime = made.runtime.logging_to(work / "log.json")
    made.run().ok()
    assert "CAP_BOGUS" in (work / "log.json").read_text()


@pytest.mark.parametrize("given", [True, False])
def test_no_new_privileges(probe: Probe, bundle: MakeBundle, given: bool) -> None:
    """CFG-NNP-01."""
    one = bundle()
    one.process["noNewPrivileges"] = given
    assert probe(one)["no_new_privs"] == int(given)


@pytest.mark.parametrize("score", [0, 100, 1000])
def test_oom_score_adj(probe: Probe, bundle: MakeBundle, score: int) -> None:
    """CFG-OOM-01."""
    one = bundle()
    one.process["oomScoreAdj"] = score
    assert probe(one)["oom_score_adj"] == str(score)


def test_oom_score_adj_is_inherited(container: MakeContainer, bundle: MakeBundle) -> None:
    """CFG-OOM-02: if unset, it is not changed."""
    one = container(bundle("cat", "/proc/self/oom_score_adj"))
    one.bundle.save()
    run = one.runtime.command("run", "--bundle", str(one.bundle.path), one.id)
    done = subprocess.run(
        ["sh", "-c", 'echo 321 > /proc/self/oom_score_adj; exec "$@"', "sh", *run],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "321\n"


# sigaction(2) for all, because the C library withholds 32 and 33.
IGNORING = """
import ctypes, os, signal, struct, sys
libc = ctypes.CDLL(None)
call = 13 if os.uname().machine == "x86_64" else 134
ignore = struct.pack("@PLPQ", 1, 0, 0, 0)
for number in range(1, 65):
    libc.syscall(call, number, ignore, None, 8)
signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGPIPE, 64])
os.execv(sys.argv[1], sys.argv[1:])
"""


@deviates(runc="passes them on", crun="passes them on")
def test_clean_signals(container: MakeContainer, bundle: MakeBundle) -> None:
    """Callers ignore and block some (conmon: SIGPIPE), here all; the program gets the defaults."""
    import json

    one = container(bundle("/bin/probe"))
    one.bundle.save()
    run = one.runtime.command("run", "--bundle", str(one.bundle.path), one.id)
    done = subprocess.run(
        ["/usr/bin/python3", "-c", IGNORING, *run], capture_output=True, text=True, check=True
    )
    facts = json.loads(done.stdout)
    assert facts["blocked"] == []
    assert facts["ignored"] == []


@pytest.mark.needs_call(reason="a filter of the tests is inherited")
def test_no_traces_of_the_runtime(probe: Probe) -> None:
    facts = probe()
    assert facts["argv"] == ["/bin/probe"]
    assert facts["exe"] == "/bin/probe"
    assert (facts["pdeathsig"], facts["subreaper"], facts["securebits"]) == (0, 0, 0)
    assert facts["seccomp"] == 0
    assert facts["dumpable"] == 1


@pytest.mark.needs_call("keyctl", reason="the probe looks at its keyring")
def test_session_keyring_is_new(probe: Probe, bundle: MakeBundle) -> None:
    """Unless --no-new-keyring keeps the caller's."""
    assert probe(bundle())["keyring"] != probe(bundle(), "--no-new-keyring")["keyring"]


def test_arguments_arrive_as_they_are(container: MakeContainer, bundle: MakeBundle) -> None:
    words = ["", "two words", "quo\"te'", "new\nline", "\u00e4"]
    script = 'for word in "$@"; do printf "<%s>" "$word"; done'
    result = container(bundle("sh", "-c", script, "sh", *words)).run().ok()
    assert result.out == "".join(f"<{word}>" for word in words)


@pytest.mark.parametrize("program", ["busybox", "/bin/busybox", "bin/busybox", "./bin/busybox"])
def test_program_lookup(container: MakeContainer, bundle: MakeBundle, program: str) -> None:
    """CFG-PROC-09: PATH of process.env, absolute, relative to the working directory."""
    assert container(bundle(program, "echo", "found")).run().ok().out == "found\n"


def test_program_is_found_in_the_container_s_path(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    one = bundle("tool", "echo", "found")
    place = one.rootfs / "opt" / "tools"
    place.mkdir(parents=True)
    (place / "tool").write_text('#!/bin/sh\nexec "$@"\n')
    (place / "tool").chmod(0o755)
    one.process["env"] = ["PATH=/nowhere:/opt/tools:/bin"]
    assert container(one).run().ok().out == "found\n"


@pytest.mark.parametrize(
    ("program", "words"),
    [
        ("nothere", ("nothere", "executable file not found in $PATH")),
        ("/bin/nothere", ("/bin/nothere", "no such file or directory")),
        ("bin/nothere", ("bin/nothere", "no such file or directory")),
        ("/etc", ("/etc", "is a directory")),
        ("/etc/passwd", ("/etc/passwd", "permission denied")),
    ],
)
@deviates(crun="capital letters")
def test_program_that_cannot_run(
    container: MakeContainer, bundle: MakeBundle, program: str, words: tuple[str, ...]
) -> None:
    """A-23: found by create; the message determines an engine's exit code (126, 127)."""
    if program == "/etc" and container().runtime.kind == "runc":
        words = ("/etc",)
    container(bundle(program)).create().failed(*words)


def test_user_who_may_not_run_the_program(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle("/bin/secret")
    (one.rootfs / "bin" / "secret").write_text("#!/bin/sh\n")
    (one.rootfs / "bin" / "secret").chmod(0o700)
    one.process["user"] = {"uid": 1000, "gid": 1000}
    container(one).create().failed("ermission denied")


def test_interpreter_that_is_missing(container: MakeContainer, bundle: MakeBundle) -> None:
    """Only execve(2) detects it: reported by create, or by start."""
    one = bundle("/bin/script")
    (one.rootfs / "bin" / "script").write_text("#!/no/such/interpreter\n")
    (one.rootfs / "bin" / "script").chmod(0o755)
    made = container(one)
    created = made.create()
    if made.runtime.kind == "ociruntime":
        result = created if created.status else made.start()
        result.failed("/bin/script")
        assert "no such file or directory" in result.err


def test_standard_streams_belong_to_the_user(
    container: MakeContainer, bundle: MakeBundle, runtime: Runtime
) -> None:
    """A-101: so that an unprivileged program can reopen /dev/stdout."""
    one = bundle().shell("echo again > /dev/stdout")
    one.process["user"] = {"uid": 1000, "gid": 1000}
    reader, writer = os.pipe()
    made = container(one)
    made.bundle.save()
    process = runtime.popen("run", "--bundle", str(one.path), made.id, stdout=writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        assert stream.read() == b"again\n"
    assert process.wait(20) == 0


def test_absent_process_can_be_created_not_started(
    container: MakeContainer, bundle: MakeBundle
) -> None:
    """RT-START-05: only start needs process (A-15); create may refuse it, too."""
    one: Bundle = bundle()
    del one.config["process"]
    made = container(one)
    created = made.create()
    if created.status == 0 and made.runtime.kind != "crun":
        assert made.start().status == 1


@pytest.mark.skipif(
    not os.path.exists("/proc/self/numa_maps"), reason="the kernel has no memory policies"
)
def test_memory_nodes_beyond_the_first_word(container: MakeContainer, bundle: MakeBundle) -> None:
    """LNX-MPOL-02: a list may include nodes that the host lacks."""
    one = bundle("grep", "-c", "bind:0", "/proc/self/numa_maps")
    one.linux["memoryPolicy"] = {"mode": "MPOL_BIND", "nodes": "0,64-130,1023"}
    assert int(container(one).run().ok().out) > 0
