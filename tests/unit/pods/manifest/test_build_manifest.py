"""Build a manifest from a command line and images."""

from __future__ import annotations

from typing import Any

import pytest

from ociruntime.base.errors import PodError, UsageError
from ociruntime.pods.manifest.app_arguments import parse_pod_arguments, pod_request
from ociruntime.pods.manifest.app_names import name_of_image
from ociruntime.pods.manifest.app_options import APP_OPTIONS, PREPARE_OPTIONS, RUN_OPTIONS
from ociruntime.pods.manifest.build_manifest import Draft, build
from ociruntime.pods.manifest.ports import add_ports, check_network, forwarded_ports

POD = (*PREPARE_OPTIONS, *RUN_OPTIONS)
ID = "sha256:" + "1" * 64


class Image:
    def __init__(self, name: str = "busybox", **settings: Any) -> None:  # noqa: ANN401
        self.id = ID
        self.name = name
        self.config = {"os": "linux", "architecture": "amd64", "config": settings}


SHELL = Image(Cmd=["sh"], Env=["PATH=/bin", "A=image", "B=image"])


def draft(
    text: str,
    *images: Image,
    variables: dict[str, str] | None = None,
    inherited: dict[str, str] | None = None,
) -> Draft:
    words = parse_pod_arguments(text.split(), POD, APP_OPTIONS)
    given = list(images) or [SHELL] * len(words.apps)
    return build(pod_request(words), [*given], variables or {}, inherited or {})


def entries(text: str, *images: Image) -> list[dict[str, Any]]:
    apps: list[dict[str, Any]] = draft(text, *images).manifest["apps"]
    return apps


def test_names_come_from_images() -> None:
    found = entries("oci:/tmp/x/Busy_Box:latest registry:5000/team/web:2@sha256:ab docker://a/b:c")
    assert [entry["name"] for entry in found] == ["busy-box", "web", "b"]
    assert name_of_image("/srv/My.App.tar") == "my-app"
    assert name_of_image("///") == ""


def test_programs() -> None:
    both = Image(Entrypoint=["/entry"], Cmd=["default"])

    def program(text: str, image: Image) -> list[str]:
        found: list[str] = entries(text, image)[0]["app"]["exec"]
        return found

    assert program("i", both) == ["/entry", "default"]
    assert program("i -- other", both) == ["/entry", "other"]
    assert program("i --", both) == ["/entry"]
    assert program("i --exec /bin/x", both) == ["/bin/x"]
    assert program("i --exec /bin/x -- y", both) == ["/bin/x", "y"]


def test_environment_has_an_order() -> None:
    made = draft(
        "i --environment=B=app --environment=D=app",
        variables={"B": "pod", "C": "pod"},
        inherited={"A": "caller", "E": "caller"},
    )
    variables = made.manifest["apps"][0]["app"]["environment"]
    assert {one["name"]: one["value"] for one in variables} == {
        "PATH": "/bin",
        "A": "image",
        "B": "app",
        "C": "pod",
        "D": "app",
        "E": "caller",
    }


def test_volumes_of_an_image() -> None:
    image = Image(Cmd=["x"], Volumes={"/var/data": {}, "/cache/": {}, "/named": {}})
    made = draft(
        "--volume v,kind=host,source=/srv/../x --volume volume-named,kind=empty,mode=0700,uid=7 "
        "--mount volume=v,target=/all i --name a --mount volume=v,target=/cache",
        image,
    )
    assert made.manifest["volumes"] == [
        {"name": "v", "kind": "host", "source": "/x"},
        {"name": "volume-named", "kind": "empty", "mode": "0700", "uid": 7},
        {"name": "a-volume-var-data", "kind": "empty"},
    ]
    assert made.implicit == [("a-volume-var-data", "a", "/var/data")]
    assert len(made.warnings) == 1
    mounts = {mount["path"]: mount["volume"] for mount in made.manifest["apps"][0]["mounts"]}
    assert mounts == {
        "/all": "v",
        "/cache": "v",
        "/var/data": "a-volume-var-data",
        "/named": "volume-named",
    }


def test_volumes_with_the_same_name() -> None:
    image = Image(Cmd=["x"], Volumes={"/a/b": {}, "/a-b": {}, "/": {}, "/a/./b": {}})
    made = draft("i --name a", image)
    assert made.manifest["apps"][0]["mounts"] == [
        {"volume": "a-volume-a-b", "path": "/a/b"},
        {"volume": "a-volume-a-b-2", "path": "/a-b"},
    ]
    assert [volume["name"] for volume in made.manifest["volumes"]] == [
        "a-volume-a-b",
        "a-volume-a-b-2",
    ]


def test_own_mounts_hide_those_of_all() -> None:
    text = (
        "--volume a,kind=empty --volume b,kind=empty --mount volume=a,target=/d "
        "i --name one --mount volume=b,target=/x/../d/ i --name two"
    )
    one, two = entries(text)
    assert one["mounts"] == [{"volume": "b", "path": "/d"}]
    assert two["mounts"] == [{"volume": "a", "path": "/d"}]


def test_ports() -> None:
    image = Image(Cmd=["x"], ExposedPorts={"80/tcp": {}, "53/udp": {}, "9/sctp": {}})
    made = draft("--port=80-tcp:8080 --port 53/udp:127.0.0.1:5353 --port 22/tcp:2222 i", image)
    assert forwarded_ports(made.manifest) == [
        {"name": "80-tcp", "protocol": "tcp", "port": 80, "hostPort": 8080, "hostIP": ""},
        {"name": "53-udp", "protocol": "udp", "port": 53, "hostPort": 5353, "hostIP": "127.0.0.1"},
        {"name": "22-tcp", "protocol": "tcp", "port": 22, "hostPort": 2222, "hostIP": ""},
    ]
    for network in ("none", "host"):
        with pytest.raises(UsageError, match="port forwarding"):
            check_network(made.manifest, [network])


def test_a_port_of_several_apps() -> None:
    """They share a network: one name with one number is one port."""
    image = Image(Cmd=["x"], ExposedPorts={"80/tcp": {}})
    made = draft("--port=80-tcp:8080 i --name a i --name b", image, image)
    [port] = forwarded_ports(made.manifest)
    assert (port["port"], port["hostPort"]) == (80, 8080)
    manifest = made.manifest | {"ports": []}
    for entry, number in zip(manifest["apps"], (80, 81), strict=True):
        entry["app"]["ports"] = [{"name": "www", "protocol": "tcp", "port": number}]
    with pytest.raises(UsageError, match=r'"www" .*80/tcp, 81/tcp'):
        add_ports(manifest, [{"name": "www", "hostPort": 1, "hostIP": ""}])


def test_users() -> None:
    image = Image(Cmd=["x"], User="web:staff")
    app = entries("i --name a i --name b --user 7", image, image)[0]["app"]
    assert (app["user"], app["group"]) == ("web", "staff")
    app = entries("i --user 7 --supplementary-gids 3,4", image)[0]["app"]
    assert (app["user"], app["group"], app["supplementaryGIDs"]) == ("7", "", [3, 4])


def test_the_terminal_is_for_one_app() -> None:
    assert entries("--interactive i")[0]["app"]["streams"]["stdin"] == "interactive"
    with pytest.raises(UsageError, match="this one has 2"):
        draft("--interactive i --name a i --name b")


@pytest.mark.parametrize(
    ("text", "images", "message"),
    [
        ("", [], "at least one"),
        ("i i", [], "already has"),
        ("i --name=A", [], "invalid app name"),
        ("i", [Image()], "set a command"),
        ("i --exec=", [], "set a command"),
        ("--port=x:1 i", [], 'unknown port "x"'),
        ("--port=80-tcp:0 i", [], "invalid port"),
        ("--port=80-tcp:\N{SUPERSCRIPT ONE} i", [], "invalid port"),
        ("--port=80-tcp:zz:1 i", [], "invalid IP address"),
        ("--port=80-tcp:1 --port=81-tcp:127.0.0.1:1 i", [], "tcp port 1 of the host"),
        ("--volume=a i", [], '--volume a: kind: unknown value "" (use one of host, empty)'),
        ("--volume=a,kind=host i", [], "source: required"),
        ("--volume=a,kind=empty,mode=9 i", [], "must be octal"),
        ("--volume=a,kind=empty,mode=10000 i", [], "must be octal"),
        ("--volume=a,kind=empty,mode=000000000777777777777 i", [], "must be octal"),
        ("--volume=a,kind=empty,source=/x i", [], "source: unknown member"),
        ("--volume=a,kind=empty --volume=a,kind=empty i", [], "defined twice"),
        ("--volume=a,kind=empty,uid=x i", [], "--volume a,kind=empty,uid=x: uid: "),
        ("--volume=a,kind=empty,gid=4294967295 i", [], '"4294967295"'),
        ("--volume=a,kind=empty,readOnly=x i", [], "invalid boolean"),
        ("i --mount volume=a,target=/x", [], 'unknown volume "a"'),
        ("i --mount volume=a,target=x", [], "target: "),
        ("i --mount volume=a,target=/..", [], "target: "),
        ("--volume=a,kind=empty,kind=host i", [], '"kind" is given twice'),
        ("i --memory=9999999999T", [], '--memory: invalid size "9999999999T"'),
        ("i --seccomp=mode=keep,read", [], '--seccomp: mode: unknown value "keep"'),
        ("i --memory=4095", [], "--memory: 4095 is too small"),
        ("i --pids=many", [], "--pids: "),
        ("i --memory=1Q", [], "invalid size"),
        ("i --cpu=0", [], "out of range"),
        ("i --cpu=x", [], "--cpu: "),
        ("i --cpu-shares=1", [], "--cpu-shares: 1 is not between 2 and 262144"),
        ("i --oom-score-adj=1001", [], "1001 is not between -1000 and 1000"),
        ("i --caps-retain=CAP_KILL --caps-remove=CAP_CHOWN", [], "mutually exclusive"),
        ("i --caps-retain=CAP_NOTHING", [], "unknown capability"),
        ("i --seccomp=chmod", [], "--seccomp: mode: required"),
        ("i --seccomp=mode=retain,@x/y", [], "unknown set"),
        ("i --seccomp=mode=retain,errno=ENOTHING,read", [], "unknown errno"),
        ("i --environment=x", [], "--environment"),
        ("i --supplementary-gids=staff", [], '"staff"'),
        ("i --supplementary-gids=4294967295", [], '"4294967295"'),
        ("i --working-dir=x", [], '--working-dir: "x"'),
    ],
)
def test_refusals(text: str, images: list[Image], message: str) -> None:
    with pytest.raises((UsageError, PodError)) as refused:
        draft(text, *images)
    assert message in str(refused.value)


def test_isolators() -> None:
    text = "i --memory=64M --cpu=500m --pids=9 --caps-remove=net_raw,CAP_KILL"
    assert entries(text)[0]["app"]["isolators"] == [
        {"name": "resource/memory", "value": {"limit": str(64 << 20)}},
        {"name": "resource/cpu", "value": {"limit": "500m"}},
        {"name": "resource/pids", "value": {"limit": "9"}},
        {
            "name": "os/linux/capabilities-remove-set",
            "value": {"set": ["CAP_NET_RAW", "CAP_KILL"]},
        },
    ]


def test_an_image_that_gives_no_name() -> None:
    with pytest.raises(UsageError, match="app name") as refused:
        draft("...", Image(""))
    assert "--name" in refused.value.hint
