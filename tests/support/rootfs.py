"""A small root filesystem with Debian's static busybox."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

BUSYBOX = Path("/bin/busybox")

APPLETS = """
    [ awk basename cat chgrp chmod chown cp cut date dd df dirname dmesg echo env expr false find
    free grep head hostname id ifconfig ip kill ln ls md5sum mkdir mkfifo mknod mktemp mount mv nc
    nproc od ping ps pwd readlink realpath rm rmdir sed seq setsid sh sleep sort stat stty su sync
    tail tee test timeout touch tr true tty umount uname uniq unshare usleep vi wc which xargs yes
"""

DIRECTORIES = ("bin", "dev", "etc", "home/user", "proc", "root", "run", "sys", "tmp", "usr", "var")

FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nuser:x:1000:1000:user:/home/user:/bin/sh\n",
    "etc/group": "root:x:0:\nuser:x:1000:\nstaff:x:50:user\n",
    "etc/hostname": "template\n",
}


def build(target: Path, programs: dict[str, Path]) -> None:
    """Create the tree below ``target``; ``programs`` maps a path in it to a static program.

    Programs are hard links where possible, so that a bundle needs no copy.
    """
    for name in DIRECTORIES:
        (target / name).mkdir(parents=True)
    (target / "tmp").chmod(0o1777)
    for name, text in FILES.items():
        (target / name).write_text(text)
    for name, source in programs.items():
        try:
            os.link(source, target / name)
        except OSError:
            shutil.copy(source, target / name)
    for applet in APPLETS.split():
        (target / "bin" / applet).symlink_to("busybox")
