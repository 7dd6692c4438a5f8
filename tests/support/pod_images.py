"""An image for tests of pods, and the output of its apps."""

from __future__ import annotations

import re
import tarfile
from pathlib import Path
from typing import Any

from tests.support.images import make_layout, member
from tests.support.ocipod import PodResult

PASSWD = "root:x:0:0:root:/root:/bin/sh\nweb:x:33:34:web:/srv:/bin/ash\n"
GROUP = "root:x:0:\nwww:x:34:\nextra:x:90:web\n"


def busybox(work: Path, name: str = "busybox", **config: Any) -> str:  # noqa: ANN401
    """A reference of busybox with a user ``web``, their ``/data`` (mode 0750), and a link to it."""
    if not (work / name).exists():
        files: dict[str, Any] = {
            "data/": member(tarfile.DIRTYPE, mode=0o750, uid=33, gid=34),
            "data/seed": "from the image\n",
            "link": member(tarfile.SYMTYPE, linkname="/data"),
            "etc/passwd": PASSWD,
            "etc/group": GROUP,
        }
        make_layout(work / name, files=files, config=config)
    return f"oci:{work / name}:latest"


def lines(result: PodResult, app: str = "busybox") -> list[str]:
    """Return the app's output in the foreground, without the prefixes of its lines."""
    found = re.findall(rf"^{app}\[\d+\]: (.*)$", result.out, re.MULTILINE)
    return [str(line) for line in found]


def shell(*words: str) -> tuple[str, ...]:
    """Return the arguments ``--exec /bin/sh -- -c WORDS``."""
    return ("--exec=/bin/sh", "--", "-c", "; ".join(words))


# A script that makes a tree deeper than Python recurses, and with paths longer than PATH_MAX. The
# shell changes directories by whole paths, so the tree is joined from two halves.
MAKE_DEEP = (
    "down() { i=0; while [ $((i+=1)) -le 700 ]; do mkdir deep; cd deep; done; }",
    "mkdir /low && cd /low && down && echo text >file",
    "mkdir /top && cd /top && down && mv /low .",
)
