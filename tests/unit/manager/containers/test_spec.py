"""The request for a new container: every member, good and bad, and its arguments of ``ocipod``."""

from __future__ import annotations

import os
from typing import Any

import pytest

from ociruntime.base.errors import BadRequest
from ociruntime.manager.containers.spec import check_spec, fetch_args, global_args, pod_args
from ociruntime.pods.bundle.app_config import CAPABILITIES

WHOLE: dict[str, Any] = {
    "name": "web",
    "image": "docker.io/library/nginx:1",
    "command": ["a b", "", "---", "\n"],
    "entrypoint": ["/bin/sh"],
    "env": {"A": "1=2"},
    "working_dir": "/tmp",
    "user": "web",
    "group": "8",
    "volumes": [
        {"source": "/srv", "target": "/a", "read_only": True},
        {"name": "d", "target": "/b"},
    ],
    "ports": [{"host_ip": "::1", "host_port": 1, "port": 65535, "protocol": "udp"}],
    "network": "lan",
    "hostname": "web",
    "dns": ["9.9.9.9"],
    "memory": 1 << 26,
    "cpus": 0.5,
    "pids_limit": 10,
    "cap_add": ["net_admin"],
    "cap_drop": ["ALL"],
    "read_only": False,
    "tty": True,
    "stdin": True,
    "labels": {"a": ""},
    "restart_policy": {"name": "on-failure", "maximum": 3},
    "stop_signal": "SIGINT",
    "stop_timeout": 0.5,
    "auto_remove": False,
    "pull_policy": "never",
    "insecure": ["image", "tls"],
}


def test_everything_at_once() -> None:
    assert check_spec(WHOLE) == WHOLE


def test_null_is_as_good_as_nothing() -> None:
    assert check_spec({"image": "x", "rootfs": None, "name": None}) == {"image": "x"}


WRONG: tuple[tuple[dict[str, Any], str], ...] = (
    ({"nmae": "x"}, "nmae: unknown member (name, image,"),
    ({"image": None}, "image: either image or rootfs is required"),
    ({"rootfs": "/srv"}, "image: either image or rootfs is required"),
    ({"image": None, "rootfs": "/srv", "command": [], "entrypoint": None}, "command: required"),
    ({"image": None, "rootfs": "srv"}, 'rootfs: "srv" is not an absolute path'),
    ({"image": ""}, "image: must not be empty"),
    ({"image": "a b"}, 'image: "a b" is not an image reference'),
    ({"image": "--x"}, 'image: "--x" is not an image reference'),
    ({"image": 1}, "image: must be a string"),
    ({"name": "-x"}, "name: "),
    ({"name": 1}, "name: "),
    ({"command": "a"}, "command: must be a list"),
    ({"command": ["a", 1]}, "command[1]: must be a string"),
    ({"command": ["a\0"]}, "command[0]: must not contain NUL"),
    ({"env": []}, "env: must be an object"),
    ({"env": {"A=B": "1"}}, "env: 'A=B' is not a valid name"),
    ({"env": {"A": 1}}, "env.A: must be a string"),
    ({"working_dir": "tmp"}, 'working_dir: "tmp" is not an absolute path'),
    ({"volumes": [1]}, "volumes[0]: must be an object"),
    ({"volumes": [{"source": "/x"}]}, "volumes[0].target: required"),
    ({"volumes": [{"target": "/x"}]}, "volumes[0]: either source or name is required"),
    (
        {"volumes": [{"source": "/x", "target": "/y", "mode": "z"}]},
        "volumes[0].mode: unknown member",
    ),
    (
        {"volumes": [{"source": "/a,b", "target": "/x"}]},
        "volumes[0].source: the path must not contain a comma",
    ),
    (
        {"volumes": [{"name": "a", "target": "/a"}, {"source": "/no/such", "target": "/x"}]},
        "volumes[1].source: /no/such not found on this host (create it first",
    ),
    ({"volumes": [{"name": "../x", "target": "/x"}]}, '"../x" is not a valid volume name'),
    ({"volumes": [{"name": "a", "target": "a"}]}, 'volumes[0].target: "a" is not an absolute'),
    ({"ports": [{"port": 80, "host_port": 65536}]}, "ports[0].host_port: 65536 is not between"),
    ({"ports": [{"port": True, "host_port": 1}]}, "ports[0].port: must be an integer"),
    ({"ports": [{"host_port": 80}]}, "ports[0].port: required"),
    ({"ports": [{"host_port": 80, "port": 0}]}, "ports[0].port: 0 is not between 1 and 65535"),
    ({"ports": [{"host_port": 1.5, "port": 1}]}, "ports[0].host_port: must be an integer"),
    ({"ports": [{"host_port": 1, "port": 1, "protocol": "x"}]}, 'protocol: unknown value "x"'),
    (
        {"ports": [{"host_port": 1, "port": 1}], "network": "none"},
        "ports: network none cannot forward ports (leave out the ports, or use another network)",
    ),
    (
        {"ports": [{"host_port": 1, "port": 1}], "network": "host"},
        "ports: network host cannot forward",
    ),
    ({"memory": "1G"}, "memory: must be an integer"),
    ({"memory": True}, "memory: must be an integer"),
    ({"memory": 1}, "memory: 1 is not between 4096 and"),
    ({"cpus": 0}, "cpus: 0 is not between"),
    ({"cpus": "1"}, "cpus: must be a number"),
    ({"cap_add": ["CAP_FLY"]}, 'cap_add[0]: unknown capability "CAP_FLY"'),
    ({"read_only": "yes"}, "read_only: must be true or false"),
    ({"labels": ["a"]}, "labels: must be an object"),
    ({"restart_policy": "always"}, "restart_policy: must be an object"),
    ({"restart_policy": {}}, "restart_policy.name: required"),
    ({"restart_policy": {"name": "often"}}, 'restart_policy.name: unknown value "often"'),
    (
        {"restart_policy": {"name": "always", "maximum": 3}},
        "restart_policy.maximum: only valid with on-failure",
    ),
    ({"stop_timeout": -1}, "stop_timeout: -1 is not between"),
    ({"pull_policy": "new"}, 'pull_policy: unknown value "new"'),
    ({"stop_signal": "SIGNOTHING"}, "stop_signal: "),
    ({"insecure": ["x"]}, 'insecure[0]: unknown value "x"'),
    (
        {"auto_remove": True, "restart_policy": {"name": "always"}},
        "auto_remove: cannot be combined with a restart policy",
    ),
)


@pytest.mark.parametrize(("changes", "told"), WRONG)
def test_what_is_wrong_is_told_with_its_place(changes: dict[str, Any], told: str) -> None:
    with pytest.raises(BadRequest) as caught:
        check_spec({"image": "x", "command": ["x"], **changes})
    assert told in str(caught.value)


def test_no_object_at_all() -> None:
    with pytest.raises(BadRequest, match="spec of the container must be a JSON object"):
        check_spec([])


# --- translation ---

ID = "ab" * 32
IMAGE = {"image": "busybox"}


def arguments(**spec: Any) -> tuple[list[str], list[str]]:  # noqa: ANN401 - JSON
    given = check_spec(IMAGE | spec)
    return pod_args(given, ID, "sha256:1", lambda name: f"/volumes/{name}")


def sandbox(**spec: Any) -> list[str]:  # noqa: ANN401 - JSON
    return arguments(**spec)[0]


def add(**spec: Any) -> list[str]:  # noqa: ANN401 - JSON
    found = arguments(**spec)[1]
    assert found[:3] == ["sha256:1", "--name=app", f"--environment=HOSTNAME={ID[:12]}"]
    return found[3:]


def test_the_least() -> None:
    assert sandbox() == [
        *("app", "sandbox", "--detach", "--keep", "--on-failure=keep"),
        *(f"--annotation=ocid/container={ID}", "--net=default", f"--hostname={ID[:12]}"),
    ]
    assert add() == []


def test_of_the_pod() -> None:
    ports = [
        {"host_port": 8080, "port": 80},
        {"host_ip": "::1", "host_port": 53, "port": 53, "protocol": "udp"},
    ]
    found = sandbox(network="lan", hostname="web", dns=["9.9.9.9", "1.1.1.1"], ports=ports)
    assert found[-6:] == [
        *("--net=lan", "--hostname=web", "--dns=9.9.9.9", "--dns=1.1.1.1"),
        *("--port=port-0:tcp:80::8080", "--port=port-1:udp:53:[::1]:53"),
    ]


def test_the_host_name_is_exported() -> None:
    assert "--environment=HOSTNAME=web" in arguments(hostname="web")[1]
    assert "--environment=HOSTNAME=own" in arguments(hostname="web", env={"HOSTNAME": "own"})[1]
    shared = arguments(network="host")
    assert f"--hostname={os.uname().nodename}" in shared[0]
    assert f"--environment=HOSTNAME={os.uname().nodename}" in shared[1]


def test_of_the_app() -> None:
    volumes = [
        {"source": "/srv", "target": "/data", "read_only": True},
        {"name": "db", "target": "/db"},
    ]
    found = add(
        env={"A": "1=2", "B": ""},
        working_dir="/srv",
        user="7:8",
        volumes=volumes,
        memory=1 << 20,
        cpus=1.5,
        pids_limit=9,
        stop_signal="quit",
        read_only=True,
        stdin=True,
    )
    assert found == [
        *("--environment=A=1=2", "--environment=B=", "--working-dir=/srv", "--memory=1048576"),
        *("--cpu=1.5", "--pids=9", "--stop-signal=quit", "--user=7", "--group=8"),
        *("--stdin=stream", "--readonly-rootfs"),
        "--mnt-volume=name=volume-0,kind=host,source=/srv,target=/data,readOnly=true",
        "--mnt-volume=name=volume-1,kind=host,source=/volumes/db,target=/db",
    ]
    assert add(tty=True, stdin=True) == ["--stdin=tty", "--stdout=tty", "--stderr=tty"]


@pytest.mark.parametrize(
    ("spec", "program"),
    [
        ({"command": ["a", "--", "b"]}, ["--", "a", "--", "b"]),
        ({"command": []}, []),
        ({"entrypoint": ["e", "1"], "command": ["2"]}, ["--exec=e", "--", "1", "2"]),
        ({"entrypoint": ["e"]}, ["--exec=e", "--"]),
        ({"entrypoint": [], "command": ["c", "1"]}, ["--exec=c", "--", "1"]),
        ({"image": None, "rootfs": "/r", "command": ["/c", "/"]}, ["--exec=/c", "--", "/"]),
    ],
)
def test_programs(spec: dict[str, Any], program: list[str]) -> None:
    assert add(**spec) == program


def retained(**spec: Any) -> set[str]:  # noqa: ANN401 - JSON
    (word,) = add(**spec)
    return set(word.removeprefix("--caps-retain=").split(",")) - {""}


def test_capabilities() -> None:
    usual = set(CAPABILITIES)
    assert retained(cap_add=["sys_admin"]) == usual | {"CAP_SYS_ADMIN"}
    assert retained(cap_drop=["CAP_KILL"]) == usual - {"CAP_KILL"}
    assert retained(cap_drop=["ALL"]) == set()
    assert retained(cap_drop=["ALL"], cap_add=["chown"]) == {"CAP_CHOWN"}
    assert retained(cap_add=["ALL"], cap_drop=["KILL"]) > usual - {"CAP_KILL"}


def test_fetching() -> None:
    assert fetch_args(IMAGE) == ["fetch", "--full", "--pull-policy=new", "busybox"]
    assert fetch_args(IMAGE | {"pull_policy": "always"})[2] == "--pull-policy=update"
    assert fetch_args({"rootfs": "/r"}) == ["fetch", "--full", "--pull-policy=update", "dir:/r"]
    both = ["--insecure-options=image,tls"]
    assert global_args({"insecure": ["tls"]}, ("image",), ("http", "tls")) == both
    # Allowed by the daemon that made the container, and not by this one.
    assert global_args({"insecure": ["tls"]}, ("image",)) == ["--insecure-options=image"]
    assert global_args({}) == []
