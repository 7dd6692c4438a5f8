"""A D-Bus connection to systemd, with the few methods that a container needs.

Source: org.freedesktop.systemd1(5). systemd creates and stops units in jobs: the reply to a call
says only that the job is queued, and a signal reports the job's end.

This module is imported only with the systemd driver, because it needs jeepney.
"""

from __future__ import annotations

import posix
import socket
import time
from typing import Any

from jeepney import (
    DBusAddress,
    HeaderFields,
    Message,
    MessageType,
    Parser,
    message_bus,
    new_method_call,
)

from ociruntime.base.errors import HostError
from ociruntime.base.stream_socket import connect_through_signals
from ociruntime.runtime.cgroups.systemd_properties import Property

BOOTED = "/run/systemd/system"  # sd_booted(3)
_SYSTEM_BUS = "/run/dbus/system_bus_socket"
_SYSTEM_DIRECT = "/run/systemd/private"
_NAME = "org.freedesktop.systemd1"
_MANAGER = DBusAddress("/org/freedesktop/systemd1", _NAME, f"{_NAME}.Manager")
_PROPERTIES = DBusAddress("/org/freedesktop/systemd1", _NAME, "org.freedesktop.DBus.Properties")
_MATCH = f"type='signal',sender='{_NAME}',interface='{_NAME}.Manager',member='JobRemoved'"
_REPLY_SECONDS = 25.0
# Long: if a host starts a hundred containers at once, each job waits in systemd's queue.
JOB_SECONDS = 30.0
_NO_SYSTEMD = "use the cgroupfs driver: leave out --systemd-cgroup"


class Refused(Exception):
    """An error reply from systemd.

    ``name`` is the last part of the D-Bus error name, such as ``UnitExists``; ``str()`` returns the
    text of the reply.
    """

    def __init__(self, name: str, text: str) -> None:
        super().__init__(text or name)
        self.name = name.rpartition(".")[2]


class SystemdManager:
    """A D-Bus connection to the system's systemd, or with ``user`` to the user's systemd.

    ``control_group`` is the cgroup path that contains all units of this systemd: "" for the
    system's systemd, unless it runs in a container.  ``version`` is systemd's version as a number.
    The constructor raises HostError if systemd cannot be reached, or does not report these
    properties.
    """

    def __init__(self, user: bool) -> None:
        self.user = user
        self._serial = 0
        self._parser = Parser()
        self._signals: list[Message] = []  # received while waiting for a reply
        self._sender = ""  # systemd's name on the bus, where every client can send signals
        self._whose = "the user's systemd" if user else "systemd"
        self._systemctl = "systemctl --user" if user else "systemctl"
        self._socket, direct = _connect(user)
        # A message bus requires the method Hello first, and sends signals only to subscribers.
        greeting = message_bus.Hello(), message_bus.AddMatch(_MATCH), _call("Subscribe")
        get = ("ss", (_MANAGER.interface, "ControlGroup")), ("ss", (_MANAGER.interface, "Version"))
        try:
            if not direct:
                self._ask(*greeting)
            group, version = self._ask(*(_call("Get", *each, at=_PROPERTIES) for each in get))
        except Refused as error:
            action = f"read the properties ControlGroup and Version of {self._whose}"
            raise self._failure(action, error) from None
        self.control_group: str = group[0][1].rstrip("/")
        self.version = _number(version[0][1])

    def start_transient(self, unit: str, properties: list[Property]) -> None:
        """Create and start a transient unit; return when it is active.

        Raises Refused if systemd refuses the unit (``UnitExists``, or an invalid property),
        HostError if the connection or the start fails.
        """
        variants = [(name, (signature, value)) for name, signature, value in properties]
        call = _call("StartTransientUnit", "ssa(sv)a(sa(sv))", (unit, "fail", variants, []))
        self._job(call, f"start the unit {unit}")

    def stop(self, unit: str) -> None:
        """Stop a unit, wait until it is inactive, and reset its failed state.

        A missing unit is not an error.  Raises HostError if systemd refuses, or if the connection
        or the stop fails.
        """
        try:
            self._job(_call("StopUnit", "ss", (unit, "replace")), f'stop the unit "{unit}"')
        except Refused as error:
            if error.name != "NoSuchUnit":
                raise self._failure(f'stop the unit "{unit}"', error) from None
        self.reset_failed(unit)

    def reset_failed(self, unit: str) -> None:
        """Reset a unit's failed state, so that its name can be reused; ignore a missing unit."""
        try:
            self._ask(_call("ResetFailedUnit", "s", (unit,)))
        except Refused:
            pass  # the unit does not exist

    def set_properties(self, unit: str, properties: list[Property]) -> None:
        """Set properties of a unit until the next boot.

        Raises Refused if systemd does not accept them, HostError if the connection fails.
        """
        variants = [(name, (signature, value)) for name, signature, value in properties]
        self._ask(_call("SetUnitProperties", "sba(sv)", (unit, True, variants)))

    def move(self, unit: str, below: str, pid: int) -> None:
        """Ask systemd to move process ``pid`` into the cgroup of a delegated unit.

        ``below`` is the path of a child cgroup in the unit, or "".  Raises HostError if systemd
        refuses, or if the connection fails.
        """
        try:
            self._ask(_call("AttachProcessesToUnit", "ssau", (unit, below, [pid])))
        except Refused as error:
            raise self._failure(f'move process {pid} into the unit "{unit}"', error) from None

    def close(self) -> None:
        """Close the D-Bus connection."""
        self._socket.close()

    def _job(self, call: Message, action: str) -> None:
        (job,) = self._ask(call)[0]
        deadline = time.monotonic() + JOB_SECONDS
        while True:
            try:
                message = self._signals.pop(0) if self._signals else self._receive(deadline)
            except TimeoutError:
                raise HostError(
                    action,
                    OSError(
                        110, f"timed out: the job in {self._whose} took over {JOB_SECONDS:.0f} s"
                    ),
                    f"run {self._systemctl} list-jobs",
                ) from None
            except OSError as error:
                raise HostError(action, error) from None
            fields = message.header.fields
            if fields.get(HeaderFields.member) != "JobRemoved":
                continue
            if self._sender and fields.get(HeaderFields.sender) != self._sender:
                continue
            _, path, unit, result = message.body
            if path == job:
                break
        if result != "done":
            ended = OSError(0, f'the job in {self._whose} ended with the result "{result}"')
            raise HostError(action, ended, f"run {self._systemctl} status {unit}")

    def _ask(self, *calls: Message) -> list[Any]:
        """Send several method calls at once; return the bodies of their replies.

        Raises Refused for an error reply, and HostError if the connection fails or a reply takes
        too long.
        """
        first = self._serial + 1
        data = b""
        for call in calls:
            self._serial += 1
            data += call.serialise(self._serial)
        replies: dict[int, Message] = {}
        deadline = time.monotonic() + _REPLY_SECONDS
        try:
            self._socket.sendall(data)
            while len(replies) < len(calls):
                message = self._receive(deadline)
                to = message.header.fields.get(HeaderFields.reply_serial, 0)
                if to >= first:
                    replies[to] = message
                elif message.header.message_type is MessageType.signal:
                    self._signals.append(message)
        except OSError as error:
            raise HostError(f"call {self._whose} over D-Bus", error) from None
        bodies = []
        for serial in range(first, first + len(calls)):
            reply = replies[serial]
            if reply.header.message_type is MessageType.error:
                name = str(reply.header.fields.get(HeaderFields.error_name, ""))
                raise Refused(name, str(reply.body[0]) if reply.body else "")
            bodies.append(reply.body)
            sender = str(reply.header.fields.get(HeaderFields.sender, ""))
            self._sender = sender if sender.startswith(":") else ""
        return bodies

    def _receive(self, deadline: float) -> Message:
        """Return the next D-Bus message.

        Raises OSError if the connection fails, TimeoutError at ``deadline``.
        """
        while (message := self._parser.get_next_message()) is None:
            self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionResetError(104, "the D-Bus peer closed the connection")
            self._parser.add_data(data)
        return message

    def _failure(self, action: str, error: Refused) -> HostError:
        return HostError(action, OSError(0, f"{self._whose} refused: {error}"))


def runtime_directory(user: bool) -> str:
    """Return the path of systemd's runtime directory.

    Its subdirectory ``transient`` contains the files of the transient units.  ``user``: return the
    directory of the user's systemd instance.
    """
    if not user:
        return "/run/systemd"
    directory = posix.environ.get(b"XDG_RUNTIME_DIR", b"").decode("utf-8", "surrogateescape")
    return f"{directory or f'/run/user/{posix.geteuid()}'}/systemd"


def _call(
    method: str,
    signature: str | None = None,
    body: tuple[Any, ...] = (),
    at: DBusAddress = _MANAGER,
) -> Message:
    return new_method_call(at, method, signature, body)


def _number(version: str) -> int:
    """Return systemd's version as a number: 257 for ``257.13-1~deb13u1``; 9999 if malformed."""
    digits = ""
    for letter in version.lstrip("v"):
        if not letter.isdigit():
            break
        digits += letter
    return int(digits or "9999")


def addresses(user: bool) -> list[tuple[str, bool]]:
    """Return the sockets to try, in order, each as (path, True for systemd's private socket)."""
    if not user:
        bus = _bus_path(posix.environ.get(b"DBUS_SYSTEM_BUS_ADDRESS", b"")) or _SYSTEM_BUS
        return [(bus, False), (_SYSTEM_DIRECT, True)]
    runtime = runtime_directory(True)
    sockets = [(f"{runtime.removesuffix('/systemd')}/bus", False), (f"{runtime}/private", True)]
    if bus := _bus_path(posix.environ.get(b"DBUS_SESSION_BUS_ADDRESS", b"")):
        sockets = [(bus, False), *(each for each in sockets if each[0] != bus)]
    return sockets


def _bus_path(address: bytes) -> str:
    """Return the socket path in a D-Bus address like ``unix:path=/run/bus,guid=...``.

    Returns "" if the address has none.
    """
    from jeepney.bus import get_connectable_addresses

    try:
        return str(next(get_connectable_addresses(address.decode()), ""))
    except (RuntimeError, ValueError):
        return ""


def _connect(user: bool) -> tuple[socket.socket, bool]:
    """Connect to systemd; return (socket, True for systemd's private socket).

    Raises HostError if systemd is not running, or if no socket accepts the connection.
    """
    if not posix.access(BOOTED, posix.F_OK):
        missing = OSError(0, f"systemd is not running: {BOOTED} does not exist")
        raise HostError("create the cgroup through systemd", missing, _NO_SYSTEMD)
    failures: list[str] = []
    for path, direct in addresses(user):
        connection = socket.socket(socket.AF_UNIX)
        try:
            connection.settimeout(_REPLY_SECONDS)
            connect_through_signals(connection, path)
            _authenticate(connection)
        except OSError as error:
            connection.close()
            failures.append(f"{path}: {error.strerror or error}")
            continue
        return connection, direct
    refused = OSError(0, "; ".join(failures))
    if user:
        hint = "log in with a systemd session, or run `loginctl enable-linger USER` as root"
        raise HostError(
            "connect to the user's systemd over D-Bus", refused, f"{hint}; or {_NO_SYSTEMD}"
        )
    raise HostError(
        "connect to systemd over D-Bus",
        refused,
        f"check that the D-Bus service is running, or {_NO_SYSTEMD}",
    )


def _authenticate(connection: socket.socket) -> None:
    """Authenticate to a D-Bus server with the socket's peer credentials (SASL EXTERNAL).

    No uid is sent: a uid of a user namespace means nothing to a server outside of it.  Raises
    OSError if the server refuses, or if the connection fails.
    """
    connection.sendall(b"\0AUTH EXTERNAL\r\n")
    answer = connection.recv(4096)
    if answer.startswith(b"DATA"):
        connection.sendall(b"DATA\r\n")
        answer = connection.recv(4096)
    if not answer.startswith(b"OK "):
        response = answer.decode("ascii", "replace").strip()
        reply = f"D-Bus authentication refused: {response}" if response else "D-Bus connection lost"
        raise PermissionError(13, reply)
    connection.sendall(b"BEGIN\r\n")
