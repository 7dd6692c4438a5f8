"""Run the program ``criu``: find it, exchange RPC messages with it, summarise its log.

``criu swrk FD`` takes one request over an inherited socket.  criu reports each stage of the work
with a message of type ``NOTIFY`` and waits for our reply.  At the end, it sends the response to the
request and exits.
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
INSTALL = (
    'install the package "criu" (Debian, Ubuntu, Fedora), or name the program with --criu FILE'
)
MESSAGE_MOST = 1 << 16  # bytes
LINES_QUOTED = 3
# Lines of criu's log to skip: they never explain a failure.
IRRELEVANT = ("rlimit:", "tun: Unable to create tun", "FAILED")


def find_criu(program: str = "") -> str:
    """Return the path of criu; ``program`` is a path, a name to look up, or "" for ``criu``.

    A name is looked up in the caller's PATH first, as in runc and crun, because podman cannot pass
    --criu. Directories in PATH that other users can change are skipped. Raises CriuError if criu is
    not found.
    """
    name = program or NAME
    if "/" in name:
        if os.access(name, os.X_OK) and os.path.isfile(name):
            return name
        raise CriuError(f'--criu "{name}": no such program, or not executable')
    if path := find_program(name, callers_first=True):
        return path
    raise CriuError(
        f'find program "{name}": not installed, but checkpoint and restore need it', INSTALL
    )


def obstacle(program: str) -> str:
    """Run ``criu check``; return the reason why criu cannot work on this host, "" if it can."""
    try:
        result = subprocess.run(
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
    if result.returncode == 0:
        return ""
    return summary(result.stderr) or f"criu check: exit status {result.returncode}"


def summary(log: str) -> str:
    """Return the errors that explain a failure, from the text of criu's log, joined by "; ".

    Returns "" if the log contains no error.
    """
    errors: list[str] = []
    for line in log.splitlines():
        _, mark, location_and_text = line.partition("Error (")
        if not mark or any(part in line for part in IRRELEVANT):
            continue
        text = " ".join(location_and_text.partition("): ")[2].split())
        if text and text not in errors:
            errors.append(text)
    return "; ".join(errors[:LINES_QUOTED])


class Session:
    """A ``criu swrk`` process, which handles one request.

    ``keep``: descriptors that criu inherits under the same numbers.  ``detached``: run criu in a
    new session, so that signals from a terminal do not interrupt it.  The constructor raises
    CriuError if criu cannot be started.
    """

    def __init__(self, program: str, keep: Sequence[int] = (), *, detached: bool = True) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket = ours
        self._output = tempfile.TemporaryFile()
        try:
            self._process = subprocess.Popen(
                [program, "swrk", str(theirs.fileno())],
                env=ENVIRONMENT,
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=self._output,
                pass_fds=(theirs.fileno(), *keep),
                start_new_session=detached,
            )
        except OSError as error:
            ours.close()
            self._output.close()
            raise CriuError(f'start "{program}": {reason(error)}') from None
        finally:
            theirs.close()
        self.pid = self._process.pid

    def request(self, request: Mapping[str, Any], stage: Stage) -> dict[str, Any]:
        """Send a request (criu_req); return the response (criu_resp), which may report a failure.

        Calls ``stage(name, pid, descriptor)`` for each stage that criu reports, with pid 0 or
        descriptor -1 if criu has sent none.  If ``stage`` raises an exception, criu is told that
        the stage failed, and the exception is raised again once criu has responded or exited.
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
                except BaseException as error:  # noqa: BLE001 - raised again, once criu has the reply
                    failure = failure or error
                reply = {"type": NOTIFY, "notify_success": failure is None}
                self._socket.send(encode("criu_req", reply))
        except OSError as error:
            if failure is None:
                raise CriuError(
                    f"exchange messages with criu: {reason(error)}", self._output_text()
                ) from None
        if failure is not None:
            raise failure
        raise CriuError(
            "exchange messages with criu: criu exited without a response", self._output_text()
        )

    def _output_text(self) -> str:
        """Return the first 500 characters of criu's output, as one line."""
        self._output.seek(0)
        return " ".join(self._output.read(1 << 16).decode(errors="replace").split())[:500]

    def close(self) -> None:
        """Wait for criu to exit.

        Killing it could leave the container's processes stopped.
        """
        self._socket.close()
        self._process.wait()
        self._output.close()
