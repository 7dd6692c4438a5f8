"""Id-mapped mounts: the owners that a mount shows, and the owners of new files outside."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support import isolation
from tests.support.bundle import Bundle, Json
from tests.support.peers import deviates
from tests.support.plugin import MakeBundle, MakeContainer
from tests.support.refusal import needs_mount_api

ID_MAPS = needs_mount_api("id maps of mounts")

OWNERS = ("stat", "-c", "%u:%g", "/data/file", "/data/sub/file")


@pytest.fixture
def tree(work: Path) -> Iterator[Path]:
    """A tmpfs and another one below it, each with root's file; both support id mapping."""
    top = work / "tree"
    top.mkdir()
    for place in (top, top / "sub"):
        place.mkdir(exist_ok=True)
        isolation.mount("tmpfs", str(place), "tmpfs", data="mode=777")
        (place / "file").touch()
    yield top
    isolation.unmount(str(top))


def mapped(one: Bundle, uid: int, gid: int) -> Bundle:
    """Add maps to the last mount: ids 0 to 99,999 are shown as these."""
    mount: Json = one.config["mounts"][-1]
    mount["uidMappings"] = [{"containerID": 0, "hostID": uid, "size": 100000}]
    mount["gidMappings"] = [{"containerID": 0, "hostID": gid, "size": 100000}]
    return one


@pytest.mark.parametrize(
    ("word", "below"), [("idmap", "0:0"), ("ridmap", "1000:2000"), (None, "0:0")]
)
@deviates(runc="knows no id-mapped mounts", crun="has no maps of a mount without a user namespace")
@ID_MAPS
def test_maps_of_the_mount(
    container: MakeContainer, bundle: MakeBundle, tree: Path, word: str | None, below: str
) -> None:
    """CFG-MIDMAP-01, -02, -08; mappings without the word count as idmap."""
    one = bundle(*OWNERS).bind(tree, "/data", *([word] if word else []))
    shown = container(mapped(one, 1000, 2000)).run().ok().out
    assert shown.split() == ["1000:2000", below]
    assert (tree / "file").stat().st_uid == 0


@deviates(runc="knows no id-mapped mounts", crun="has no maps of a mount without a user namespace")
@ID_MAPS
def test_new_files_are_mapped_back(
    container: MakeContainer, bundle: MakeBundle, tree: Path
) -> None:
    one = bundle("touch", "/data/new").bind(tree, "/data", "bind", "idmap")
    one.process["user"] = {"uid": 1005, "gid": 2006}
    container(mapped(one, 1000, 2000)).run().ok()
    new = (tree / "new").stat()
    assert (new.st_uid, new.st_gid) == (5, 6)


@deviates(runc="knows no id-mapped mounts")
@pytest.mark.parametrize(("word", "below"), [("idmap", "65534:65534"), ("ridmap", "0:0")])
@ID_MAPS
def test_maps_of_the_container(
    container: MakeContainer, bundle: MakeBundle, tree: Path, word: str, below: str
) -> None:
    """CFG-MIDMAP-05: root's files of the host are those of the container's root."""
    script = f"{' '.join(OWNERS)}; touch /data/new"
    one = bundle().shell(script).bind(tree, "/data", word).user_namespace()
    assert container(one).run().ok().out.split() == ["0:0", below]
    assert (tree / "new").stat().st_uid == 0


@deviates(runc="knows no id-mapped mounts")
@ID_MAPS
def test_maps_of_the_mount_beside_those_of_the_container(
    container: MakeContainer, bundle: MakeBundle, tree: Path
) -> None:
    """CFG-MIDMAP-04: two maps in one container."""
    one = bundle(*OWNERS, "/own").user_namespace()
    one.bind(tree, "/data", "ridmap").bind(tree / "file", "/own", "bind", "idmap")
    shown = container(mapped(one, 100500, 100600)).run().ok().out
    assert shown.split() == ["0:0", "0:0", "500:600"]


@deviates(runc="knows no id-mapped mounts", crun="has no maps of a joined user namespace")
@ID_MAPS
def test_maps_of_a_joined_user_namespace(
    container: MakeContainer, bundle: MakeBundle, tree: Path
) -> None:
    owner = container(bundle().user_namespace()).created()
    one = bundle(*OWNERS).user_namespace()
    one.namespace("user", f"/proc/{owner.pid}/ns/user").bind(tree, "/data", "ridmap")
    del one.linux["uidMappings"], one.linux["gidMappings"]
    assert container(one).run().ok().out.split() == ["0:0", "0:0"]


@deviates(runc="knows no id-mapped mounts")
@ID_MAPS
def test_in_a_joined_pid_namespace(
    container: MakeContainer, bundle: MakeBundle, tree: Path
) -> None:
    """The short-lived process that holds the maps is a process of the host."""
    owner = container().created()
    one = bundle(*OWNERS).namespace("pid", f"/proc/{owner.pid}/ns/pid")
    one.bind(tree, "/data", "ridmap")
    shown = container(mapped(one, 1000, 2000)).run().ok().out
    assert shown.split() == ["1000:2000"] * 2


@deviates(runc="only bind mounts", crun="has no maps of a mount without a user namespace")
@ID_MAPS
def test_new_filesystem(container: MakeContainer, bundle: MakeBundle) -> None:
    one = bundle("stat", "-c", "%u:%g", "/data").mount("/data", "tmpfs", "t", "idmap")
    assert container(mapped(one, 1000, 2000)).run().ok().out == "1000:2000\n"


@deviates(runc="only bind mounts")
def test_new_filesystem_of_a_user_namespace(container: MakeContainer, bundle: MakeBundle) -> None:
    """It has the container's ids by itself."""
    one = bundle("stat", "-c", "%u:%g", "/data").user_namespace()
    one.mount("/data", "tmpfs", "t", "idmap")
    assert container(one).run().ok().out == "0:0\n"


@pytest.mark.parametrize("member", ["uidMappings", "gidMappings"])
def test_one_kind_of_mapping_alone(
    container: MakeContainer, bundle: MakeBundle, tree: Path, member: str
) -> None:
    """CFG-MIDMAP-03."""
    one = mapped(bundle().bind(tree, "/data", "idmap"), 1000, 1000)
    place = len(one.config["mounts"]) - 1
    del one.config["mounts"][-1][member]
    container(one).create().failed(f"mounts[{place}].{member}")


@deviates(runc="knows no id-mapped mounts", crun="says EPERM")
def test_nothing_to_map_by(container: MakeContainer, bundle: MakeBundle, tree: Path) -> None:
    """CFG-MIDMAP-06."""
    container(bundle().bind(tree, "/data", "idmap")).create().failed("has no mapping")


@deviates(runc="other words", crun="other words")
@ID_MAPS
def test_filesystem_without_id_maps(container: MakeContainer, bundle: MakeBundle) -> None:
    one = mapped(bundle().bind("/proc/sys", "/data", "idmap"), 1000, 1000)
    place = len(one.config["mounts"]) - 1
    container(one).create().failed(f"mounts[{place}]", "id-mapped")


@deviates(runc="knows no id-mapped mounts")
@ID_MAPS
def test_many_maps(container: MakeContainer, bundle: MakeBundle, tree: Path) -> None:
    """More bind mounts than the executor has slots: those with maps get the slots."""
    one = bundle("stat", "-c", "%u", *(f"/data{number}/file" for number in (0, 299)))
    one.user_namespace()
    for number in range(300):
        one.bind(tree / "sub", f"/data{number}", "bind", *(["idmap"] if number == 299 else []))
    os.chmod(tree.parent, 0o755)
    assert container(one).run().ok().out.split() == ["65534", "0"]
