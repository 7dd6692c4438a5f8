"""Command lines of ``run`` and ``create``, and the resulting request."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from ociruntime.base.errors import HostError, UsageError
from ociruntime.commandline.parser import Arguments, parse
from ociruntime.images.model.reference import parse as image_reference
from ociruntime.manager.client.new_container import (
    SPEC_OPTIONS,
    absolute_image,
    environment,
    spec_of,
)
from ociruntime.manager.client.run_and_attach import variable


def asked(*words: str) -> dict[str, Any]:
    """Return the request that ``create WORDS`` sends."""
    arguments = Arguments()
    at = parse(list(words), (SPEC_OPTIONS,), arguments, mixed=False)
    rest = list(words[at:])
    image = "" if arguments.text("rootfs") else rest.pop(0)
    return spec_of(arguments, image, rest)


def test_an_image_alone() -> None:
    assert asked("busybox") == {"image": "busybox"}


def test_words_of_the_command_are_not_looked_at() -> None:
    words = ["--name=x", 'a/b "q" & $x', "\\", "'", "", "-e", "\n", "--"]
    assert asked("busybox", *words) == {"image": "busybox", "command": words}
    assert asked("--name", "y", "--", "busybox", *words)["command"] == words


def test_everything() -> None:
    assert asked(
        *("--name=web", "--entrypoint", "/bin/sh", "-e", "A=1=2", "-v", "/srv:/pages:ro"),
        *("-v", "data:/data", "--mount", "type=bind,src=/x,dst=/y,ro", "-p", "127.0.0.1:8080:80"),
        *("-w", "/tmp", "-u", "web:users", "--hostname", "h", "--network=none", "--dns", "9.9.9.9"),
        *("-m", "64M", "--cpus=0.5", "--pids-limit=10", "--cap-add", "NET_ADMIN"),
        *("--cap-drop=CHOWN", "--read-only", "-it", "-l", "a=b", "-l", "c"),
        *("--restart", "on-failure:3", "--stop-signal=INT", "--stop-timeout", "3"),
        *("--pull=always", "--insecure=image", "--insecure=tls", "--rm", "busybox"),
    ) == {
        "image": "busybox",
        "name": "web",
        "entrypoint": ["/bin/sh"],
        "env": {"A": "1=2"},
        "volumes": [
            {"source": "/srv", "target": "/pages", "read_only": True},
            {"name": "data", "target": "/data", "read_only": False},
            {"source": "/x", "target": "/y", "read_only": True},
        ],
        "ports": [{"host_ip": "127.0.0.1", "host_port": 8080, "port": 80, "protocol": "tcp"}],
        "working_dir": "/tmp",
        "user": "web",
        "group": "users",
        "hostname": "h",
        "network": "none",
        "dns": ["9.9.9.9"],
        "memory": 64 << 20,
        "cpus": 0.5,
        "pids_limit": 10,
        "cap_add": ["NET_ADMIN"],
        "cap_drop": ["CHOWN"],
        "read_only": True,
        "stdin": True,
        "tty": True,
        "labels": {"a": "b", "c": ""},
        "restart_policy": {"name": "on-failure", "maximum": 3},
        "stop_signal": "INT",
        "stop_timeout": 3,
        "pull_policy": "always",
        "insecure": ["image", "tls"],
        "auto_remove": True,
    }


def test_paths_are_ours(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert asked("--rootfs", "r", "/bin/sh", "-c", "x") == {
        "rootfs": f"{tmp_path}/r",
        "command": ["/bin/sh", "-c", "x"],
    }
    assert asked("oci:layout:tag")["image"] == f"oci:{tmp_path}/layout:tag"
    assert asked("dir:/srv")["image"] == "dir:/srv"
    assert asked("./x.aci")["image"] == f"{tmp_path}/./x.aci"
    assert asked("localhost:5000/x")["image"] == "localhost:5000/x"
    assert asked("-v", "./pages:/p", "x")["volumes"][0]["source"] == f"{tmp_path}/pages"


LOCAL_IMAGES = (
    *("oci:layout", "oci:layout:tag", "oci-archive:x.tar:v:1", "docker-archive:x.tar:a/b:1"),
    *("dir:tree", "dir:a:b", "tar:x", "aci:x", "oci:/srv/layout:tag", "dir:../tree"),
    *("/srv/x.tar", "./x", "./a:b", "../x", "../a:b", ".", "..", "file:x", "file:a:b", "file:./x"),
    *("file:///srv/x", "file://x", "file:/x"),
    *("x.aci", "x.tar", "x.tgz", "x.tar.gz", "x.tar.bz2", "x.tar.xz", "x.tar.zst", "a/.tar"),
)
OTHER_IMAGES = (
    *("busybox", "a/b", "busybox:1.36", "localhost:5000/x", "localhost:5000/x.tar", "x.aci:1"),
    *("docker://busybox", "docker://host/x.tar", "sha256:0123456", "0123456789ab", "x.tar.lz"),
)


@pytest.mark.parametrize("image", [*LOCAL_IMAGES, *OTHER_IMAGES])
def test_an_image_means_the_same_in_the_daemons_directory(
    image: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("ours", "daemons"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path / "ours")
    meant = image_reference(image)
    told = absolute_image(image, str(tmp_path / "ours"))
    monkeypatch.chdir(tmp_path / "daemons")
    assert image_reference(told).name == meant.name
    assert meant.is_local == (image in LOCAL_IMAGES)


@pytest.mark.parametrize("image", ["oci:", "oci::tag", "dir:", "tar:", "aci:", "file:", "file://"])
def test_an_image_without_its_path_is_not_the_directory_we_are_in(image: str) -> None:
    assert absolute_image(image, "/srv") == image


def test_a_directory_with_a_colon_would_be_taken_for_one_with_a_tag() -> None:
    with pytest.raises(UsageError, match="contains a colon"):
        absolute_image("oci:layout", "/srv/a:b")
    assert absolute_image("oci:/srv/layout:tag", "/srv/a:b") == "oci:/srv/layout:tag"
    assert absolute_image("dir:tree", "/srv/a:b") == "dir:/srv/a:b/tree"


def test_ports() -> None:
    (port,) = asked("-p", "[::1]:53:54/udp", "x")["ports"]
    assert port == {"host_ip": "::1", "host_port": 53, "port": 54, "protocol": "udp"}


def test_the_environment(tmp_path: Path) -> None:
    file = tmp_path / "env"
    file.write_text("# no\n\nA=file\nB=file=1\nHOME\n")
    own = {"HOME": "/root", "C": "ours"}
    assert environment([str(file)], ["A=word", "C", "GONE", "E="], own) == {
        "A": "word",
        "B": "file=1",
        "HOME": "/root",
        "C": "ours",
        "E": "",
    }
    with pytest.raises(HostError, match='read "/nope": no such file'):
        environment(["/nope"], [], {})
    file.write_bytes(b"\xff=1")
    with pytest.raises(UsageError, match="not valid UTF-8"):
        environment([str(file)], [], os.environ)


@pytest.mark.parametrize(
    ("words", "mount"),
    [
        (("-v", "/data"), {"target": "/data"}),
        (("-v", "a:/b:nocopy,ro"), {"name": "a", "no_copy": True, "read_only": True}),
        (("-v", "a:/b:Z"), {"name": "a"}),
        (("-v", "/a:/b:rslave"), {"source": "/a", "propagation": "rslave"}),
        (("--mount", "target=/b"), {}),
        (("--mount", "type=volume,dst=/b,volume-nocopy"), {"no_copy": True}),
        (("--mount", "src=a,destination=/b,volume-nocopy=false,ro=0"), {"name": "a"}),
        (
            ("--mount", "src=/a,dst=/b,bind-propagation=slave"),
            {"source": "/a", "propagation": "slave"},
        ),
        (("--mount", '"src=/a,1",dst=/b,readonly=1'), {"source": "/a,1", "read_only": True}),
    ],
)
def test_mounts(words: tuple[str, str], mount: dict[str, object]) -> None:
    (found,) = asked(*words, "x")["volumes"]
    assert found == {"target": "/b", "read_only": False, **mount}


def test_volumes_of_others() -> None:
    assert asked("--volumes-from", "web", "--volumes-from=db:ro", "x")["volumes_from"] == [
        {"container": "web", "read_only": False},
        {"container": "db", "read_only": True},
    ]


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("-e", "=1"), '"=1" has no name'),
        (("-v", "srv"), 'mount target "srv" must be'),
        (("-v", ""), '--volume: invalid volume ""'),
        (("-v", ":/a"), '--volume: invalid volume ":/a"'),
        (("-v", "a:"), '--volume: invalid volume "a:"'),
        (("-v", "/data:ro"), 'mount target "ro" must be'),
        (("-v", "a:/b:ro,rw"), '--volume: invalid volume "a:/b:ro,rw"'),
        (("-v", "/a:/b:rslave,private"), "--volume: invalid volume"),
        (("-v", "/a:/b:nocopy"), "nocopy applies"),
        (("-v", "/a:/b:rshared"), "cannot propagate"),
        (("--mount", "src=/a,dst=/b,bind-propagation=shared"), "cannot propagate"),
        (("-v", "a:/b:rslave"), "propagation applies"),
        (("-v", "/a:/b:x"), '--volume: invalid volume "/a:/b:x"'),
        (("-v", "/a:b"), 'mount target "b" must be'),
        (("--mount", "source=/a"), "source or target"),
        (("--mount", "from=/a"), '--mount: unknown key "from"'),
        (("--mount", "type=npipe,target=/b"), '--mount: unknown type "npipe"'),
        (("--mount", "type=bind,target=/b"), "source or target"),
        (("--mount", "type=volume,source=a"), "source or target"),
        (("--mount", "type=bind,src=/a,dst=/b,volume-nocopy"), 'to type "bind"'),
        (("--mount", "src=a,dst=/b,bind-propagation=slave"), 'to type "volume"'),
        (
            ("--mount", "src=/a,dst=/b,ro=maybe"),
            'false, not "maybe"',
        ),
        (("--mount", 'src="/a'), "--mount"),
        (("--volumes-from", ":ro"), '--volumes-from: invalid value ":ro"'),
        (("--volumes-from", "web:nocopy"), '--volumes-from: invalid value "web:nocopy"'),
        (("--mount", "type=volume,source=/a,target=/b"), 'type "volume" for source "/a"'),
        (("-p", "80:x"), '--publish: invalid port "80:x"'),
        (("-p", "0:80"), "--publish"),
        (("-p", "65536:80"), "--publish"),
        (("-p", "8080:80/sctp"), "--publish"),
        (("-p", "::1:8080:80"), "--publish"),
        (("--cpus", "many"), "--cpus: "),
        (("--cpus", "0"), "out of range"),
        (("--cpus", "1.x"), '"1.x"'),
        (("-m", "lots"), "invalid value for --memory"),
        (("--restart", "sometimes"), '--restart: unknown policy "sometimes"'),
        (("--restart", "always:3"), "--restart: unknown policy"),
        (("--restart", "on-failure:x"), "--restart: unknown policy"),
        (("--stop-signal", "SIGNOTHING"), 'unknown signal "SIGNOTHING"'),
    ],
)
def test_what_cannot_be_understood(words: tuple[str, ...], told: str) -> None:
    with pytest.raises(UsageError) as caught:
        asked(*words, "busybox")
    assert told in str(caught.value)


def test_variables_of_exec(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name without a value that is not set here is not set there, as with docker."""
    monkeypatch.setenv("SET", "here")
    monkeypatch.delenv("UNSET", raising=False)
    assert variable("A=1") == "A=1"
    assert variable("EMPTY=") == "EMPTY="
    assert variable("SET") == "SET=here"
    assert variable("UNSET") == ""
    with pytest.raises(UsageError, match="has no name"):
        variable("=x")


def test_further_options_of_docker() -> None:
    assert asked(
        *("--add-host", "db:10.0.0.2", "--add-host=six:::1", "--dns-search", "a.example"),
        *("--dns-option=ndots:2", "--dns-opt", "rotate", "--shm-size=1m", "--ipc=host"),
        *("-c", "512", "--oom-score-adj=-5", "--group-add", "7", "--group-add=8", "--expose=80"),
        *("--security-opt=no-new-privileges", "--security-opt", "seccomp=unconfined"),
        *("--security-opt", "label:disable", "--no-healthcheck", "-v", "/a:/b:ro,z", "busybox"),
    ) == {
        "image": "busybox",
        "hosts": [{"name": "db", "address": "10.0.0.2"}, {"name": "six", "address": "::1"}],
        "dns_search": ["a.example"],
        "dns_options": ["ndots:2", "rotate"],
        "shm_size": 1 << 20,
        "ipc": "host",
        "cpu_shares": 512,
        "oom_score_adj": -5,
        "group_add": [7, 8],
        "no_new_privileges": True,
        "seccomp": "unconfined",
        "volumes": [{"source": "/a", "target": "/b", "read_only": True}],
    }


def test_further_limits() -> None:
    assert asked(
        *("-m", "1m", "--memory-swap=-1", "--memory-reservation=512k", "--cpu-quota=5000"),
        *("--cpu-period=10000", "--cpuset-cpus=0-1", "--cpuset-mems", "0", "busybox"),
    ) == {
        "image": "busybox",
        "memory": 1 << 20,
        "memory_swap": -1,
        "memory_reservation": 512 << 10,
        "cpu_quota": 5000,
        "cpu_period": 10000,
        "cpuset_cpus": "0-1",
        "cpuset_mems": "0",
    }
    assert asked("--memory-swap=0", "--cpu-quota=-1", "busybox") == {"image": "busybox"}


def test_namespaces() -> None:
    words = ("--pid=host", "--uts", "host", "--domainname=example.org", "--platform=linux/amd64")
    defaults = ("--cgroupns=private", "--userns=host", "--log-driver=json-file")
    assert asked(*words, *defaults, "busybox") == {
        "image": "busybox",
        "pid": "host",
        "uts": "host",
        "domainname": "example.org",
        "platform": "linux/amd64",
    }


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("--pid=container:web", "use exec to run a program in the container"),
        ("--pid=no", "supported: private, host"),
        ("--uts=container:web", "supported: private, host"),
        ("--cgroupns=host", "each container has a private cgroup namespace"),
        ("--userns=keep-id", "supported: host"),
        ("--log-driver=none", "the output is always logged"),
        ("--log-driver=fluentd", "supported: json-file"),
    ],
)
def test_reasons(word: str, reason: str) -> None:
    with pytest.raises(UsageError) as refused:
        asked(word, "busybox")
    assert str(refused.value).startswith(f"{word} is not supported")
    assert reason in str(refused.value)


def test_no_network_of_another_container() -> None:
    with pytest.raises(UsageError, match="--network=container:web is not supported"):
        asked("--network=container:web", "busybox")


def test_an_empty_entrypoint_removes_that_of_the_image() -> None:
    assert asked("--entrypoint=", "busybox", "id")["entrypoint"] == []


def test_labels_of_a_file(tmp_path: Path) -> None:
    file = tmp_path / "labels"
    file.write_text("# comment\n\na=1\nb=2\n")
    labels = asked(f"--label-file={file}", "--label=b=3", "busybox")["labels"]
    assert labels == {"a": "1", "b": "3"}
    with pytest.raises(HostError, match="--label-file: read "):
        asked(f"--label-file={file}-", "busybox")


def test_devices() -> None:
    device = {"source": "/dev/a", "target": "/dev/b", "access": "rw"}
    assert asked("--privileged", "--init", "--device=/dev/a:/dev/b:rw", "busybox") == {
        "image": "busybox",
        "devices": [device],
        "privileged": True,
    }


def test_kernel_settings() -> None:
    assert asked(
        *("--ulimit=nofile=64:128", "--ulimit", "core=-1", "--sysctl", "net.core.somaxconn=9"),
        *("--tmpfs=/run", "--tmpfs", "/tmp:rw,size=1m,mode=1777"),
        *("--mount", "type=tmpfs,dst=/t,tmpfs-size=2m,tmpfs-mode=700,readonly", "busybox"),
    ) == {
        "image": "busybox",
        "ulimits": [
            {"name": "nofile", "soft": 64, "hard": 128},
            {"name": "core", "soft": -1, "hard": -1},
        ],
        "sysctls": {"net.core.somaxconn": "9"},
        "tmpfs": [
            {"target": "/run", "options": []},
            {"target": "/tmp", "options": ["rw", "size=1m", "mode=1777"]},
            {"target": "/t", "options": ["size=2m", "mode=700", "ro"]},
        ],
    }


def ports(text: str) -> list[tuple[str, int, int, str]]:
    found = asked("-p", text, "busybox")["ports"]
    names = ("host_ip", "host_port", "port", "protocol")
    return [tuple(one[name] for name in names) for one in found]


def test_forms_of_ports() -> None:
    assert ports("8080:80/udp") == [("", 8080, 80, "udp")]
    assert ports("[::1]:8080:80") == [("::1", 8080, 80, "tcp")]
    assert ports("8000-8001:80-81") == [("", 8000, 80, "tcp"), ("", 8001, 81, "tcp")]
    for text, address in (("80", ""), ("127.0.0.1::80", "127.0.0.1"), (":80", "")):
        ((found, host_port, port, _),) = ports(text)
        assert (found, port) == (address, 80)
        assert host_port > 1023
    assert len({one[1] for one in ports("80-82")}) == 3


@pytest.mark.parametrize(
    "words",
    [
        *(("-p", text) for text in ("8000-8001:80", "81-80", "a:80", "::1:8080:80", "1:2:3:4")),
        ("--add-host=db",),
        ("--group-add=wheel",),
        ("--security-opt=apparmor=mine",),
        ("-v", "/a:/b:ro,rw"),
        ("-v", "/a:/b:shared"),
        *(("--ulimit", text) for text in ("nofile", "nofile=", "nofile=a", "=1", "nofile=1:2:3")),
        *(("--sysctl", text) for text in ("a", "=1")),
        ("--tmpfs=run",),
        *(("--device", text) for text in ("sda", "/a:b", "/a:/b:x", "/a:/b:", "/a:/b:r:w", "/a:")),
        ("--mount=type=tmpfs,source=/a,target=/b",),
        ("--mount=type=tmpfs,tmpfs-size=1m",),
        ("--mount=type=tmpfs,target=/b,tmpfs-size",),
    ],
)
def test_values_that_are_refused(words: tuple[str, ...]) -> None:
    with pytest.raises(UsageError):
        asked(*words, "busybox")
