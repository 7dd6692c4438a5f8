"""Users are looked up only in the image."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from ociruntime.base.errors import PodError
from ociruntime.base.open_below_root import open_inside
from ociruntime.pods.bundle.users import account


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "root"
    (root / "etc").mkdir(parents=True)
    (root / "etc/passwd").write_text(
        "root:x:0:0::/root:/bin/sh\nbroken:x:y:z::\nweb:x:33:34:w:/srv:/bin/ash\n"
    )
    (root / "etc/group").write_text("root:x:0:\nwww:x:34:\nextra:x:90:a,web\n")
    (tmp_path / "outside").write_text("web:x:666:666::/:/evil\n")
    return root


def test_names_and_numbers(root: Path) -> None:
    web = account(str(root), "web", "", [])
    assert (web.uid, web.gid, web.additional) == (33, 34, [34, 90])
    assert (web.name, web.home, web.shell) == ("web", "/srv", "/bin/ash")
    same = account(str(root), "33", "extra", [5])
    assert (same.uid, same.gid, same.additional, same.name) == (33, 90, [5, 90], "web")
    unknown = account(str(root), "4000", "", [])
    assert (unknown.uid, unknown.gid, unknown.name, unknown.home) == (4000, 0, "4000", "/")


def test_owner_of_a_path(root: Path) -> None:
    mine = account(str(root), "/etc/passwd", "/etc/group", [])
    assert (mine.uid, mine.gid) == (os.getuid(), os.getgid())
    with pytest.raises(PodError, match="no such file"):
        account(str(root), "/etc/none", "", [])


@pytest.mark.parametrize(("user", "group"), [("joe", ""), ("0", "joe"), ("-1", ""), ("", "")])
def test_unknown(root: Path, user: str, group: str) -> None:
    with pytest.raises(PodError, match=r"look up .*not found"):
        account(str(root), user, group, [])


@pytest.mark.parametrize("link", ["../../outside", "../../../../../../../..{}", "{}"])
def test_links_do_not_lead_outside(root: Path, link: str) -> None:
    (root / "etc/passwd").unlink()
    (root / "etc/passwd").symlink_to(link.format(root.parent / "outside"))
    with pytest.raises(PodError, match='look up user "web": not found'):
        account(str(root), "web", "", [])


def test_links_inside_are_followed(root: Path) -> None:
    (root / "usr").mkdir()
    (root / "etc/passwd").rename(root / "usr/passwd")
    (root / "etc/passwd").symlink_to("/usr/passwd")
    assert account(str(root), "web", "", []).uid == 33


def test_circles_and_pipes_end(root: Path) -> None:
    (root / "a").symlink_to("b")
    (root / "b").symlink_to("a")
    os.mkfifo(root / "pipe")
    fd = os.open(root, os.O_PATH)
    try:
        for name in ("a", "pipe"):
            with pytest.raises(OSError, match=r"levels of symbolic|Invalid"):
                open_inside(fd, name, os.O_RDONLY)
    finally:
        os.close(fd)
