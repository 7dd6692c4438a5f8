"""The hierarchy of errors that a user can see.

    RuntimeFailure             base: message, hint, exit status 1
     +- UsageError             the command line is wrong
     +- ConfigError            config.json is wrong; names the JSON path
     +- ContainerError         the container's state forbids the request
     |   +- NoSuchContainer    unknown id
     |   +- ContainerExists    id in use
     |   +- NotRunning         the init has exited
     +- HostError              a system call outside the container failed
     +- StepError              an operation of the plan failed inside the container
     +- HookError              a hook failed, timed out or could not be started
     +- CriuError              criu is missing, or could not dump or restore
     +- PodError               the pod's state forbids the request, or one of its files is damaged
     |   +- NoSuchPod          a UUID or prefix matches no pod, or several
     +- ImageError             an image is missing, damaged, or refused
     |   +- RegistryError      a registry refused a request, or did not answer
     +- NetworkError           a pod's network could not be set up or torn down
     +- ManagerError           a request to the container manager failed
     |   +- BadRequest         a request is wrong; names the JSON path
     |   +- Forbidden          the daemon's configuration does not allow it
     |   +- NotFound           a reference matches no container
     |   +- Conflict           a name is in use, or the container's state forbids it
     |   +- StartFailed        the program was not executed; has the exit code
     +- InternalError          a bug in ociruntime itself

A message has the form ``what was attempted: object: what went wrong (what to do)``, in lower case
and without a final period.  What went wrong is in the kernel's words if a system call failed; what
to do is the hint.  Paths, names and values that come from outside are in double quotes.  JSON
paths, options, numbers, digests, URLs and socket addresses are not: nothing in them can be mistaken
for a part of the message.  Only the command-line programs print messages; other code raises errors.
"""

from __future__ import annotations

_LONGEST = 4500  # characters of a message; longer ones are shortened in the middle
_LAST = 200


class RuntimeFailure(Exception):
    """Base class of all errors shown to users: a ``message`` and an optional ``hint``.

    ``str()`` returns the message, the hint in parentheses, and the notes added with ``add_note``,
    which list the changes that could not be undone.
    """

    exit_status = 1

    def __init__(self, message: str, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint

    def __str__(self) -> str:
        text = f"{self.message} ({self.hint})" if self.hint else self.message
        return "; ".join([text, *getattr(self, "__notes__", ())])


class UsageError(RuntimeFailure):
    """The command line is invalid: an unknown option or command, or an invalid value."""


class ConfigError(RuntimeFailure):
    """A value of config.json is missing, invalid or not supported.

    ``where`` is the value's JSON path (``mounts[7].options[0]``), or "" for the file itself.  The
    path and the message may quote the document verbatim.  Therefore this class escapes unprintable
    characters, and omits the middle of a text that is too long.
    """

    def __init__(self, where: str, message: str, hint: str = "") -> None:
        super().__init__(_one_line(f"{where}: {message}" if where else message), _one_line(hint))
        self.where = where


class ContainerError(RuntimeFailure):
    """The container's state, such as created or paused, does not allow the command."""


class NoSuchContainer(ContainerError):
    """The container id is unknown; engines search the message for ``does not exist``."""

    def __init__(self, container_id: str) -> None:
        super().__init__(f'container "{container_id}" does not exist')


class ContainerExists(ContainerError):
    """A container with this id already exists."""

    def __init__(self, container_id: str) -> None:
        super().__init__(f'container with given ID already exists: "{container_id}"')


class NotRunning(ContainerError):
    """The container's init has exited; engines search the message for ``container not running``."""

    def __init__(self, container_id: str) -> None:
        super().__init__(f'container not running: "{container_id}"')


class HostError(RuntimeFailure):
    """A system call on the host failed; ``action`` names the attempted action and its object."""

    def __init__(self, action: str, error: OSError, hint: str = "") -> None:
        super().__init__(f"{action}: {reason(error)}", hint)
        self.errno = error.errno or 0


class StepError(RuntimeFailure):
    """An operation of the plan failed in the executor, the program that carries out the plan."""

    def __init__(self, message: str, hint: str = "", errno: int = 0) -> None:
        super().__init__(message, hint)
        self.errno = errno


class HookError(RuntimeFailure):
    """A hook failed; the message names the hook, and quotes the end of its output."""


class CriuError(RuntimeFailure):
    """CRIU is missing or too old, or it failed; the message quotes its log."""


class PodError(RuntimeFailure):
    """The pod's state does not allow the request, or one of the pod's files is damaged."""


class NoSuchPod(PodError):
    """A UUID, or a prefix of one, matches no pod or more than one."""


class ImageError(RuntimeFailure):
    """An image is missing, damaged, not supported or not trusted."""


class RegistryError(ImageError):
    """A registry refused a request or did not answer.

    The message quotes the request and the response.
    """


class NetworkError(RuntimeFailure):
    """A pod's network could not be set up or torn down.

    The message names the network and the plugin.
    """


class ManagerError(RuntimeFailure):
    """A request to the container manager failed; ``code`` is the API's error code."""

    code = "failed"


class BadRequest(ManagerError):
    """A request is invalid; ``where`` is the JSON path of the invalid value, or ""."""

    code = "bad_request"

    def __init__(self, where: str, message: str, hint: str = "") -> None:
        super().__init__(_one_line(f"{where}: {message}" if where else message), _one_line(hint))
        self.where = where


class Forbidden(ManagerError):
    """The daemon's configuration does not allow the client's request."""

    code = "forbidden"


class NotFound(ManagerError):
    """The name or id in a request matches no container."""

    code = "not_found"


class Conflict(ManagerError):
    """The name is in use, or the container is not in a state that allows the request."""

    code = "conflict"


class StartFailed(ManagerError):
    """A container's program could not be started.

    ``exit_code`` is 127 (not found), 126 (not executable) or 125 (another error).
    """

    code = "start_failed"

    def __init__(self, message: str, exit_code: int) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class InternalError(RuntimeFailure):
    """A bug in ociruntime: the code has reached a state that should be impossible."""


def reason(error: OSError) -> str:
    """Return the kernel's text for an OSError, starting in lower case, as engines expect."""
    text = error.strerror or str(error)
    return text[:1].lower() + text[1:]


# Errors that only a bug causes: the program used an invalid descriptor or address.
_BUGS = {9, 14}  # EBADF, EFAULT
_NO_THREAD = "can't start new thread"  # Python's own text


def unhandled(action: str, error: Exception) -> RuntimeFailure:
    """Return the error to report for an exception that nothing has handled.

    For an OSError, a lack of memory, or a thread that cannot be started, the message says that
    ``action`` failed, and names the file if there is one.  If an import failed, the message asks
    whether the installation is complete.  Any other exception is reported as a bug.
    """
    if isinstance(error, MemoryError):
        return HostError(action, OSError(12, "Cannot allocate memory"))
    if type(error) is RuntimeError and str(error) == _NO_THREAD:
        return HostError(action, OSError(11, _NO_THREAD))
    if isinstance(error, OSError) and error.strerror and error.errno not in _BUGS:
        path = error.filename
        name = path.decode(errors="replace") if isinstance(path, bytes) else path
        return HostError(f'{action}: "{name}"' if isinstance(name, str) else action, error)
    text = " ".join(str(error).split())
    if isinstance(error, ImportError):  # a module is missing or unreadable
        return RuntimeFailure(f"{action}: {text}", "is the installation complete?")
    if _in_an_import(error):
        text = f"{action}: load a module: {type(error).__name__}: {text}"
        return RuntimeFailure(text, "is Python's installation complete?")
    return InternalError(
        f"internal error: {type(error).__name__}: {text}", "use --debug for a traceback"
    )


def _in_an_import(error: Exception) -> bool:
    """Return whether ``error`` was raised while a module was being imported.

    If Python cannot read a package's directory, it treats the package as empty.  Imports from that
    package then fail.
    """
    frame = error.__traceback__
    while frame is not None:
        if frame.tb_frame.f_code.co_filename.startswith("<frozen importlib."):
            return True
        frame = frame.tb_next
    return False


def _one_line(text: str) -> str:
    if not text.isprintable():
        text = "".join([c if c.isprintable() else ascii(c)[1:-1] for c in text])
    if len(text) > _LONGEST:  # above PATH_MAX, so that a path is shown completely
        return f"{text[: _LONGEST - _LAST]} ... {text[-_LAST:]}"
    return text
