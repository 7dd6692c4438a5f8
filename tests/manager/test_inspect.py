"""``ocictl inspect`` of a container with every setting."""

from __future__ import annotations

import json
from pathlib import Path

from tests.support import images
from tests.support.daemon import Daemon


def test_everything_of_a_container(daemon: Daemon, shell_root: str, work: Path) -> None:
    settings = {
        "Env": ["A=1"],
        "Entrypoint": ["/bin/busybox"],
        "Cmd": ["sleep", "1000"],
        "Labels": {"from": "image"},
        "ExposedPorts": {"53/udp": {}},
        "Volumes": {"/var": {}},
    }
    images.make_layout(work / "one", tree=Path(shell_root), config=settings)
    daemon.run(
        "c1",
        image=f"oci:{work}/one",
        network="default",
        ports=[{"host_ip": "127.0.0.1", "host_port": 47312, "port": 80}],
        volumes=[
            {"source": shell_root, "target": "/srv", "read_only": True},
            {"name": "data", "target": "/data"},
        ],
        env={"B": "2"},
        labels={"tier": "front"},
        memory=1 << 26,
    )
    (shown,) = json.loads(daemon.ctl("inspect", "c1").ok().out)
    record = daemon.get("c1")
    assert (shown["Id"], shown["Name"]) == (record["id"], "/c1")
    assert (shown["Path"], shown["Args"]) == ("/bin/busybox", ["sleep", "1000"])
    assert shown["State"]["Pid"] == record["pid"]
    config = shown["Config"]
    assert config["Env"] == ["A=1", f"HOSTNAME={record['id'][:12]}", "B=2"]
    assert (config["Entrypoint"], config["Cmd"]) == (["/bin/busybox"], ["sleep", "1000"])
    assert config["Labels"] == {"from": "image", "tier": "front"}
    assert shown["HostConfig"]["Memory"] == 1 << 26
    network = shown["NetworkSettings"]
    assert network["IPAddress"] == record["addresses"]["default"]
    assert network["Ports"] == {
        "80/tcp": [{"HostIp": "127.0.0.1", "HostPort": "47312"}],
        "53/udp": None,
    }
    (joined,) = network["Networks"].values()
    assert joined["Gateway"].rpartition(".")[0] == joined["IPAddress"].rpartition(".")[0]
    assert joined["MacAddress"].count(":") == 5
    mounts = {one["Destination"]: one for one in shown["Mounts"]}
    assert [(mounts[at]["Type"], mounts[at]["RW"]) for at in ("/srv", "/data", "/var")] == [
        ("bind", False),
        ("volume", True),
        ("volume", True),
    ]
    assert mounts["/data"]["Name"] == "data"
    assert Path(mounts["/var"]["Source"]).is_dir()
    assert Path(shown["LogPath"]).is_file()

    form = "{{.State.Status}} {{.exit_code}} {{.Status}}"
    daemon.ctl("stop", "-t", "0", "c1").ok()
    assert daemon.ctl("inspect", "-f", form, "c1").ok().out == "exited 137 stopped\n"
    # An image that is gone is no reason not to show its container.
    daemon.ctl("rmi", "--force", record["details"]["image_id"]).ok()
    assert daemon.ctl("inspect", "-f", "{{.Config.Labels}}", "c1").ok().out == "map[tier:front]\n"


def test_what_a_name_means(daemon: Daemon, shell_root: str, work: Path) -> None:
    images.make_layout(work / "one", tree=Path(shell_root))
    daemon.ctl("pull", f"oci:{work}/one").ok()
    daemon.ctl("tag", f"oci:{work}/one", "same").ok()
    daemon.ctl("volume", "create", "same").ok()
    of_image = daemon.ctl("inspect", "same", "-f", "{{.RepoTags}}").ok().out
    assert "docker.io/library/same:latest" in of_image
    daemon.create("same", rootfs=shell_root, command=["/bin/true"])
    assert daemon.ctl("inspect", "same", "-f", "{{.State.Status}}").ok().out == "created\n"
    words = ("inspect", "--type", "volume", "same", "-f", "{{.Driver}}")
    assert daemon.ctl(*words).ok().out == "local\n"
    for name in ("nope", "No/such:name!", "../x"):
        result = daemon.ctl("inspect", name, "same")
        assert result.status == 1
        assert f'inspect "{name}": no container, image, network or volume' in result.err
        assert [one["Name"] for one in json.loads(result.out)] == ["/same"]
    network = daemon.ctl("inspect", "--type=network", "default", "-f", "{{.Name}}")
    assert network.ok().out == "default\n"
    missing = daemon.ctl("inspect", "nope", "--type=image")
    assert (missing.status, missing.out) == (1, "[]\n")


def test_tables_with_names_of_docker(daemon: Daemon, shell_root: str) -> None:
    daemon.run("c1", rootfs=shell_root, command=["/bin/sleep", "1000"], labels={"com.x.tier": "a"})
    form = 'table {{.ID}}\\t{{.Names}}\\t{{.State}}\\t{{.Label "com.x.tier"}}'
    head, line = daemon.ctl("ps", "--format", form).ok().out.splitlines()
    assert head.split() == ["CONTAINER", "ID", "NAMES", "STATE", "tier"]
    assert line.split() == [daemon.get("c1")["id"][:12], "c1", "running", "a"]
    heads = [daemon.ctl("ps", *words).ok().out.split()[:3] for words in ((), ("--format=table",))]
    assert heads[0] == heads[1]
    (row,) = daemon.ctl("ps", "--format", "{{json .}}").ok().out.splitlines()
    assert json.loads(row)["Labels"] == "com.x.tier=a"
    usage = daemon.ctl("stats", "--no-stream", "--format", "{{.Name}} {{.PIDs}}").ok().out
    assert usage == "c1 1\n"
    daemon.ctl("volume", "create", "d").ok()
    volumes = daemon.ctl("volume", "ls", "--format", r"table {{.Name}}\t{{.Driver}}").ok().out
    assert volumes.split() == ["VOLUME", "NAME", "DRIVER", "d", "local"]
    (image,) = (
        daemon.ctl("images", "--format", "{{.Repository}} {{.ID}} {{.Size}}").ok().out.splitlines()
    )
    assert image.startswith("dir:")


def test_disk_space(daemon: Daemon, shell_root: str) -> None:
    up = ["/bin/sleep", "1000"]
    daemon.run("c1", rootfs=shell_root, command=up, volumes=[{"name": "d", "target": "/d"}])
    daemon.create("c2", rootfs=shell_root, command=up)
    (daemon.root / "volumes" / "d" / "file").write_bytes(b"x" * 100_000)
    daemon.ctl("volume", "create", "unused").ok()
    # A loop of links must not be followed.
    (daemon.root / "volumes" / "unused" / "loop").symlink_to("/")
    (found,) = json.loads(daemon.ctl("system", "df", "--format=json").ok().out)
    counts = {kind: (one["count"], one["active"]) for kind, one in found.items()}
    assert counts == {"images": (1, 1), "containers": (2, 1), "volumes": (2, 1)}
    assert found["images"]["reclaimable"] == 0
    assert 100_000 <= found["volumes"]["size"] < 1_000_000
    assert found["volumes"]["reclaimable"] < found["volumes"]["size"]
    assert 0 < found["containers"]["reclaimable"] < found["containers"]["size"]
    lines = daemon.ctl("system", "df").ok().out.splitlines()
    assert lines[0].split() == ["TYPE", "TOTAL", "ACTIVE", "SIZE", "RECLAIMABLE"]
    assert lines[3].startswith("Local Volumes  2 ")
    form = "table {{.Type}}\\t{{.TotalCount}}"
    assert daemon.ctl("system", "df", "--format", form).ok().out.split()[:2] == ["TYPE", "TOTAL"]
