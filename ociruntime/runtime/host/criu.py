"""The program ``criu``: its path, its RPC, and a summary of its log.

``criu swrk FD`` takes one request over an inherited socket.  It reports stages (``NOTIFY``), waits
for our reply to each, and exits with its response.
"""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ociruntime.base.errors import CriuError, reason
from ociruntime.base.host_programs import find_program
from ociruntime.runtime.host.criu_messages import NOTIFY, decode, encode

Stage = Callable[[str, int, int], None]


NAME = "criu"
# criu itself calls tar, ip, iptables and nft.
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
INSTALL = 'package "criu" on Debian, Ubuntu and Fedora; or name the program with --criu FILE'
MESSAGE_MOST = 1 << 16
LINES_QUOTED = 3
# Lines to skip: about criu itself, or only repeating that something failed.
UNTELLING = ("rlimit:", "tun: Unable to create tun", "FAILED")


def find_criu(given: str = "") -> str:
    """Return the path of criu; ``given`` is a path, a name to look for, or "" for the default.

    Like runc and crun it is looked up in the caller's PATH first, since podman cannot pass --criu;
    directories there that others can change are skipped.  Raises CriuError if it is not found.
    """
    name = given or NAME
    if "/" in name:
        if os.access(name, os.X_OK) and os.path.isfile(name):
            return name
        raise CriuError(f"--criu {name}: program not found")
    if path := find_program(name, callers_first=True):
        return path
    raise CriuError(f"{name} is not installed; checkpoint and restore need it", INSTALL)


def obstacle(program: str) -> str:
    """Return why criu cannot work here, from ``criu check``; "" if it can."""
    try:
        done = subprocess.run(
            [program, "check"],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
        )
    except OSError as error:
        return f"{program}: {reason(error)}"
    if done.returncode == 0:
        return ""
    return summary(done.stderr) or f"criu check ends with status {done.returncode}"


def summary(log: str) -> str:
    """Return the lines of criu's log that explain a failure, joined into one; "" if none does."""
    found: list[str] = []
    for line in log.splitlines():
        _, mark, rest = line.partition("Error (")
        if not mark or any(word in line for word in UNTELLING):
            continue
        text = " ".join(rest.partition("): ")[2].split())
        if text and text not in found:
            found.append(text)
    return "; ".join(found[:LINES_QUOTED])


class Session:
    """A ``criu swrk`` process for one request; ``pid`` is its pid.

    ``keep`` are descriptors that it inherits under their numbers.  ``detached``: run it in a
    session of its own, so that signals of a terminal do not interrupt it.  Raises CriuError.
    """

    def __init__(self, program: str, keep: Sequence[int] = (), *, detached: bool = True) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self._said = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                [program, "swrk", str(theirs.fileno())],
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=self._said,
                stderr=self._said,
                pass_fds=(theirs.fileno(), *keep),
                start_new_session=detached,
            )
        except OSError as error:
            ours.close()
            self._said.close()
            raise CriuError(f"start {program}: {reason(error)}") from None
        finally:
            theirs.close()
        self.pid = self._process.pid

    def request(self, request: Mapping[str, Any], stage: Stage) -> dict[str, Any]:
        """Send a criu_req and return the criu_resp, also that of a failure.

        An exception of ``stage`` is reported to criu as a failure, and raised once criu has exited.
        Raises CriuError if criu exits without a response.
        """
        failure: BaseException | None = None
        try:
            self._socket.send(encode("criu_req", dict(request)))
            while True:
                data, descriptors, _, _ = socket.recv_fds(self._socket, MESSAGE_MOST, 1)
                if not data:
                    break
                answer = decode("criu_resp", data)
                if answer.get("type") != NOTIFY:
                    if failure is not None:
                        raise failure
                    return answer
                try:
                    notify = answer.get("notify") or {}
                    fd = descriptors[0] if descriptors else -1
                    if fd >= 0:
                        os.set_inheritable(fd, False)
                    stage(notify.get("script", ""), notify.get("pid", 0), fd)
                except BaseException as error:  # noqa: BLE001 - raised again, once criu knows
                    failure = failure or error
                done = {"type": NOTIFY, "notify_success": failure is None}
                self._socket.send(encode("criu_req", done))
        except OSError as error:
            if failure is None:
                raise CriuError(
                    f"exchange messages with criu: {reason(error)}", self._words()
                ) from None
        if failure is not None:
            raise failure
        raise CriuError("criu exited without an answer", self._words())

    def _words(self) -> str:
        self._said.seek(0)
        return " ".join(self._said.read(1 << 16).decode(errors="replace").split())[:500]

    def close(self) -> None:
        """Wait for criu to exit.  It is never killed, which could leave processes stopped."""
        self._socket.close()
        self._process.wait()
        self._said.close()
