"""Carry out the requests that clients send to a pod's monitor through its control socket."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ociruntime.base.errors import PodError, RuntimeFailure
from ociruntime.pods.bundle.pod_context import apps_of, read_manifest
from ociruntime.pods.loop.control_socket import Connection
from ociruntime.pods.monitor.app_run import AppRun
from ociruntime.pods.monitor.attachment import Attachment, endpoints

if TYPE_CHECKING:
    from ociruntime.pods.monitor.monitor import Monitor

Request = dict[str, Any]


class Requests:
    """The handler of the requests that a pod's monitor accepts.

    A request is a JSON object with the member ``op``, the name of an operation, and the parameters
    of that operation.
    """

    __slots__ = ("_monitor", "_operations")

    def __init__(self, monitor: Monitor) -> None:
        self._monitor = monitor
        self._operations: dict[str, Callable[[Connection, Request], None]] = {
            "status": self._status,
            "add": self._add,
            "start": self._start,
            "stop": self._stop,
            "rm": self._remove,
            "halt": self._halt,
            "endpoints": self._endpoints,
            "attach": self._attach,
        }

    def handle(self, connection: Connection, request: Request) -> None:
        """Carry out ``request`` and answer it on ``connection``, now or once it is complete.

        Raises RuntimeFailure if the request is refused at once.
        """
        operation = self._operations.get(str(request.get("op")))
        if operation is None:
            raise PodError(
                f'send a request to {self._name}: unknown operation "{request.get("op")}"'
            )
        operation(connection, request)

    @property
    def _name(self) -> str:
        """The name of the pod for error messages."""
        return f"pod {self._monitor.uuid}"

    def _app(self, request: Request) -> AppRun:
        """Return the app to which ``request`` applies.

        Raises PodError if the pod has no such app.
        """
        name = str(request.get("app"))
        app = self._monitor.apps.get(name)
        if app is None:
            names = ", ".join(self._monitor.apps) or "none"
            raise PodError(f'{self._name} has no app "{name}"', f"its apps: {names}")
        return app

    def _must_be_ready(self) -> None:
        if self._monitor.halting:
            raise PodError(f"{self._name} is being stopped")
        if not self._monitor.ready:
            raise PodError(
                f"{self._name} is not ready yet",
                f"wait with: ocipod status --wait-ready {self._monitor.uuid}",
            )

    def _must_be_mutable(self) -> None:
        if not self._monitor.mutable:
            raise PodError(
                f"{self._name} is immutable",
                "only pods made with `ocipod app sandbox` can be changed",
            )
        self._must_be_ready()

    def _status(self, connection: Connection, request: Request) -> None:
        del request
        monitor = self._monitor
        apps = {name: app.record for name, app in monitor.apps.items()}
        flags = {"ready": monitor.ready, "halting": monitor.halting, "mutable": monitor.mutable}
        connection.answer({**flags, "apps": apps})

    def _add(self, connection: Connection, request: Request) -> None:
        self._must_be_mutable()
        name = str(request.get("app"))
        if name in self._monitor.apps:
            raise PodError(
                f'add app "{name}" to {self._name}: the pod already has an app of this name'
            )
        for entry in apps_of(read_manifest()):
            if entry["name"] == name:
                self._monitor.add_app(entry)
                connection.answer({})
                return
        raise PodError(f'add app "{name}" to {self._name}: not found in the manifest')

    def _start(self, connection: Connection, request: Request) -> None:
        self._must_be_mutable()
        self._app(request).start(lambda error: _answer(connection, error))

    def _stop(self, connection: Connection, request: Request) -> None:
        self._must_be_mutable()
        app = self._app(request)
        app.stop("stop", _seconds(request), lambda: connection.answer({}))

    def _remove(self, connection: Connection, request: Request) -> None:
        self._must_be_mutable()
        app = self._monitor.apps.get(str(request.get("app")))
        if app is None:  # `app add` was killed before it sent its request to add the app
            connection.answer({})
            return
        app.remove(_seconds(request), lambda error: self._removed(connection, app, error))

    def _removed(self, connection: Connection, app: AppRun, error: RuntimeFailure | None) -> None:
        if error is None:
            self._monitor.apps.pop(app.name, None)
        _answer(connection, error)
        self._monitor.end_if_done()

    def _halt(self, connection: Connection, request: Request) -> None:
        seconds = 0 if request.get("force") else _seconds(request)
        connection.answer({})
        # The client has its answer already; an error from here on ends the pod as well.
        self._monitor.attempt(lambda: self._monitor.halt("pod stop", seconds))

    def _endpoints(self, connection: Connection, request: Request) -> None:
        connection.answer({"endpoints": endpoints(self._app(request))})

    def _attach(self, connection: Connection, request: Request) -> None:
        if self._monitor.halting and request.get("wait"):
            raise PodError(f"{self._name} is being stopped")
        Attachment(connection, self._app(request), request)


def _answer(connection: Connection, error: RuntimeFailure | None) -> None:
    if error is None:
        connection.answer({})
    else:
        connection.refuse(error)


def _seconds(request: Request) -> float:
    """Return the member ``seconds`` of ``request``: the time between stop signal and SIGKILL.

    The default is 10.  Raises PodError if the value is invalid.
    """
    value = request.get("seconds", 10)
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 1e6:
        operation = request.get("op")
        raise PodError(
            f'request "{operation}": "seconds" is {value!r}', "must be a number from 0 to 1000000"
        )
    return float(value)
