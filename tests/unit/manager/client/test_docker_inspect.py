"""Answers of the daemon in docker's shape, which docker's own client reads, too."""

from __future__ import annotations

import json
from typing import Any

import pytest

from ociruntime.manager.client import docker_inspect
from ociruntime.manager.client.format_option import formatted
from tests.support.docker_client import DockerClient
from tests.support.manager_stub import ID, record

IMAGE: dict[str, Any] = {
    "id": "sha256:" + "ef" * 32,
    "repo_tags": ["docker.io/library/busybox:latest"],
    "repo_digests": [],
    "created": "2024-01-02T03:04:05Z",
    "author": "",
    "architecture": "amd64",
    "os": "linux",
    "variant": "",
    "size": 1000,
    "config": {
        "Entrypoint": ["/entry"],
        "Cmd": ["serve"],
        "Env": ["A=1"],
        "Labels": {"from": "image"},
        "ExposedPorts": {"53/udp": {}},
    },
    "root_fs": {"type": "layers", "layers": ["sha256:" + "01" * 32]},
    "history": [{"created": "", "created_by": "x", "comment": "a comment", "size": 1000}],
}
DETAILS = {
    "image_id": IMAGE["id"],
    "env": ["A=1", "B=2"],
    "user": "0",
    "working_dir": "/srv",
    "hostname": "web1",
    "log_path": "/pods/logs/app.log",
    "mounts": [
        {
            "type": "bind",
            "name": "",
            "source": "/srv",
            "target": "/pages",
            "read_only": True,
            "propagation": "rslave",
        },
        {"type": "volume", "name": "d", "source": "/v/d", "target": "/d", "read_only": False},
    ],
    "networks": {
        "default": {
            "ip4": "172.16.28.2",
            "ip6": "",
            "prefix": 24,
            "gateway": "172.16.28.1",
            "mac": "42:97:ac:51:5f:6c",
        }
    },
}
PORT = {"host_port": 8080, "port": 80, "protocol": "tcp"}
SPEC = {
    "image": "busybox",
    "user": "7:8",
    "tty": True,
    "memory": 1 << 26,
    "cpus": 0.5,
    "pids_limit": 100,
    "network": "default",
    "volumes": [
        {"source": "/srv", "target": "/pages", "read_only": True},
        {"name": "d", "target": "/d"},
    ],
    "volumes_from": [{"container": "db"}, {"container": "web", "read_only": True}],
    "labels": {"tier": "front"},
    "ports": [PORT],
}
UP = record(
    details=DETAILS,
    spec=SPEC,
    ports=[PORT],
    labels={"tier": "front"},
    command=["/entry", "serve"],
    restart_policy={"name": "on-failure", "maximum": 3},
    pid=4711,
    stop_timeout=10.0,
)

FIELDS: dict[str, str] = {
    "{{.Id}}": ID,
    "{{.Name}}": "/web",
    "{{.Path}} {{.Args}} {{.RestartCount}}": "/entry [serve] 0",
    "{{.Image}} {{.LogPath}}": f"{IMAGE['id']} /pods/logs/app.log",
    "{{.State.Status}} {{.State.Running}} {{.State.Paused}} {{.State.Pid}}": (
        "running true false 4711"
    ),
    "{{.State.ExitCode}} {{.State.OOMKilled}} {{.State.Error}}|": "0 false |",
    "{{.State.StartedAt}} {{.State.FinishedAt}}": (
        "2026-11-22T10:00:01.000000000Z 0001-01-01T00:00:00Z"
    ),
    "{{.Config.Image}} {{.Config.Env}} {{.Config.User}}": (
        "docker.io/library/busybox:latest [A=1 B=2] 7:8"
    ),
    "{{.Config.Cmd}} {{.Config.Entrypoint}} {{.Config.WorkingDir}}": "[serve] [/entry] /srv",
    "{{.Config.Labels}} {{.Config.Hostname}} {{.Config.Tty}}": (
        "map[from:image tier:front] web1 true"
    ),
    "{{.Config.ExposedPorts}}": "map[53/udp:{} 80/tcp:{}]",
    "{{.Config.StopSignal}} {{.Config.StopTimeout}}": "SIGTERM 10",
    "{{.HostConfig.Memory}} {{.HostConfig.NanoCpus}} {{.HostConfig.PidsLimit}}": (
        "67108864 500000000 100"
    ),
    "{{.HostConfig.RestartPolicy.Name}}:{{.HostConfig.RestartPolicy.MaximumRetryCount}}": (
        "on-failure:3"
    ),
    "{{.HostConfig.Binds}} {{.HostConfig.NetworkMode}}": "[/srv:/pages:ro d:/d] default",
    "{{.HostConfig.VolumesFrom}}": "[db web:ro]",
    "{{range .Mounts}}{{.Destination}} {{.Propagation}};{{end}}": "/pages rslave;/d ;",
    "{{json .HostConfig.PortBindings}}": '{"80/tcp":[{"HostIp":"","HostPort":"8080"}]}',
    "{{.NetworkSettings.IPAddress}} {{.NetworkSettings.Gateway}}": "172.16.28.2 172.16.28.1",
    "{{range $name, $n := .NetworkSettings.Networks}}{{$name}} {{$n.IPAddress}}{{end}}": (
        "default 172.16.28.2"
    ),
    "{{.NetworkSettings.Networks.default.MacAddress}}": "42:97:ac:51:5f:6c",
    "{{json .NetworkSettings.Ports}}": (
        '{"53/udp":null,"80/tcp":[{"HostIp":"0.0.0.0","HostPort":"8080"}]}'
    ),
    '{{(index (index .NetworkSettings.Ports "80/tcp") 0).HostPort}}': "8080",
    "{{range .Mounts}}{{.Type}} {{.Name}} {{.Source}}:{{.Destination}} {{.RW}},{{end}}": (
        "bind  /srv:/pages false,volume d /v/d:/d true,"
    ),
    "{{.HostConfig.AutoRemove}} {{.HostConfig.ReadonlyRootfs}} {{.HostConfig.ShmSize}}": (
        "false false 67108864"
    ),
}


@pytest.mark.parametrize("text", FIELDS)
def test_a_container(text: str) -> None:
    assert formatted([docker_inspect.container(UP, IMAGE)], text) == f"{FIELDS[text]}\n"


def test_docker_finds_the_same_in_it() -> None:
    with DockerClient(docker_inspect.container(UP, IMAGE)) as docker:
        found = {text: docker.inspected(text).stdout.removesuffix("\n") for text in FIELDS}
    assert found == FIELDS


def test_own_names_are_found_too() -> None:
    shown = docker_inspect.container(UP, IMAGE)
    text = "{{.exit_code}} {{.Status}} {{.Pod}} {{.spec.network}} {{.Addresses.none}}"
    assert formatted([shown], text) == f" running {UP['pod']} default \n"
    assert formatted([shown], "{{.HostConfig.CapAdd}} {{json .HostConfig.CapAdd}}") == "[] null\n"
    assert "pod" not in json.loads(json.dumps(shown))


def test_a_container_that_has_ended() -> None:
    ended = UP | {"status": "stopped", "exit_code": 3, "pid": None, "finished_at": "2026-11-22T11Z"}
    shown = docker_inspect.container(ended, None)
    assert shown["State"]["Status"] == "exited"
    assert (shown["State"]["ExitCode"], shown["State"]["Pid"]) == (3, 0)
    assert shown["NetworkSettings"]["Ports"] == {}
    unknown = docker_inspect.container(ended | {"exit_code": None}, None)
    assert unknown["State"]["ExitCode"] == 255


@pytest.mark.parametrize(
    ("spec", "entrypoint", "command"),
    [
        ({}, ["/entry"], ["serve"]),
        ({"command": ["a"]}, ["/entry"], ["a"]),
        ({"entrypoint": ["b"]}, ["b"], None),
        ({"entrypoint": ["b"], "command": ["a"]}, ["b"], ["a"]),
        ({"entrypoint": []}, None, None),
    ],
)
def test_program_and_arguments(
    spec: dict[str, Any], entrypoint: list[str] | None, command: list[str] | None
) -> None:
    config = docker_inspect.container(record(spec=spec), IMAGE)["Config"]
    assert (config["Entrypoint"] or None, config["Cmd"] or None) == (entrypoint, command)


def test_settings_of_the_container() -> None:
    shown = docker_inspect.container(record(spec={"domainname": "lan", "publish_all": True}), IMAGE)
    assert (shown["Config"]["Domainname"], shown["HostConfig"]["PublishAllPorts"]) == ("lan", True)
    shown = docker_inspect.container(record(spec={}), IMAGE)
    assert (shown["Config"]["Domainname"], shown["HostConfig"]["PublishAllPorts"]) == ("", False)


def test_a_corrupt_container() -> None:
    corrupt = record(status="corrupt", command=[], created_at=None, started_at=None, error="bad")
    shown = docker_inspect.container(corrupt)
    assert (shown["State"]["Status"], shown["State"]["Error"], shown["Path"]) == ("dead", "bad", "")


def test_an_image() -> None:
    shown = docker_inspect.image(IMAGE)
    text = "{{.Id}} {{index .RepoTags 0}} {{.Config.Labels.from}} {{.Config.User}}|{{.Os}}"
    assert formatted([shown], text) == (
        f"{IMAGE['id']} docker.io/library/busybox:latest image |linux\n"
    )
    assert formatted([shown], "{{.repo_tags}} {{len .RootFS.Layers}} {{.Comment}}") == (
        "[docker.io/library/busybox:latest] 1 a comment\n"
    )


@pytest.mark.parametrize("wrong", ["x", ["x"], [{}], 7, True, None, {"x": {"y": []}}])
def test_an_image_with_settings_of_the_wrong_type(wrong: object) -> None:
    """The maker of the image has chosen them."""
    names = ("Env", "Cmd", "Entrypoint", "Labels", "ExposedPorts", "Volumes", "User", "WorkingDir")
    for config in (wrong, dict.fromkeys(names, wrong)):
        hostile = IMAGE | {"config": config}
        for shown in (docker_inspect.container(UP, hostile), docker_inspect.image(hostile)):
            json.dumps(shown)
            assert formatted([shown], "{{.Config}}{{json .}}").count("\n") == 1


def test_a_volume() -> None:
    answer = {"name": "d", "mountpoint": "/v/d", "containers": ["web"]}
    text = "{{.Name}} {{.Driver}} {{.Mountpoint}} {{.Containers}} {{.Labels}}"
    assert formatted([docker_inspect.volume(answer)], text) == "d local /v/d [web] \n"


def test_a_network() -> None:
    answer = {
        "name": "back",
        "driver": "bridge",
        "created_at": "2026-11-24T00:00:00Z",
        "internal": False,
        "labels": {"a": "1"},
        "subnets": [
            {"subnet": "10.89.0.0/24", "gateway": "10.89.0.1"},
            {"subnet": "fd00:1::/64", "gateway": "fd00:1::1"},
        ],
        "containers": ["db", "web"],
        "addresses": {"web": "10.89.0.2"},
    }
    shape = docker_inspect.network(answer)
    text = (
        '{{.Name}} {{.EnableIPv6}} {{(index .IPAM.Config 0).Gateway}} {{index .Labels "a"}}'
        "{{range .Containers}} {{.Name}}={{.IPv4Address}}{{.IPv6Address}}{{end}}"
    )
    assert formatted([shape], text) == "back true 10.89.0.1 1 web=10.89.0.2/24\n"
    none = answer | {"subnets": [], "created_at": None, "addresses": {}, "labels": {}}
    assert (
        formatted([docker_inspect.network(none)], "{{len .Containers}}{{.EnableIPv4}}")
        == "0false\n"
    )
