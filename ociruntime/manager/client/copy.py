"""``ocictl cp``, ``export`` and ``diff``: copy files from or to a container, list changed files.

An archive of a container's files may be hostile: nothing is written outside the target, and
symbolic links in the archive are not followed.
"""

from __future__ import annotations

import errno
import os
import stat
import sys
import tarfile

from ociruntime.base.errors import HostError, RuntimeFailure, UsageError
from ociruntime.base.log import plain
from ociruntime.commandline.options import Command, Option
from ociruntime.commandline.output import tell, write_lines
from ociruntime.commandline.parser import Arguments
from ociruntime.manager.client.connection import Connection, DaemonError, container
from ociruntime.manager.client.http import Answer, ChunkedBody
from ociruntime.manager.client.images import save_stream

_PIECE = 1 << 16
_STREAM = "-"
_CONTENTS = ("/", "/.")
_PERMISSIONS = (
    0o777  # no setuid and setgid: a container must not create programs that run as root on the host
)


def run_cp(connection: Connection, arguments: Arguments) -> int:
    """Copy a file or directory between the host and a container; print nothing.

    Raises UsageError unless exactly one of SOURCE and TARGET is CONTAINER:PATH.
    """
    source, target = arguments.positional
    from_name, from_path = _split(source)
    to_name, to_path = _split(target)
    if bool(from_name) == bool(to_name):
        raise UsageError(
            "cp: exactly one of SOURCE and TARGET must be CONTAINER:PATH",
            "the other must be a path on this host",
        )
    follow = arguments.flag("follow-link")
    if from_name:
        return _copy_out(
            connection,
            from_name,
            from_path,
            target,
            follow=follow,
            archive=arguments.flag("archive"),
        )
    return _copy_in(
        connection, source, to_name, to_path, follow=follow, archive=arguments.flag("archive")
    )


def _split(text: str) -> tuple[str, str]:
    """Split ``CONTAINER:PATH`` into (container, path); return ("", text) for a host path.

    Raises UsageError if the path is empty.
    """
    name, colon, path = text.partition(":")
    if not colon or "/" in name or name.startswith("."):
        return "", text
    if not path:
        raise UsageError(f'cp: "{text}" has no path', "use CONTAINER:PATH")
    return name, path


# --- from a container ---


def _copy_out(
    connection: Connection, ref: str, path: str, target: str, *, follow: bool, archive: bool
) -> int:
    source_file = connection.get(container(ref, "file", path=path, follow=follow))
    is_directory = source_file["kind"] == "directory"
    # Use the name from the command line: with -L, the container could choose the name of the file.
    top = os.path.basename(os.path.normpath(path))
    if top in ("", ".", ".."):
        top = ""
    contents = path.endswith(_CONTENTS) or not top
    if not top and not is_directory:
        raise UsageError(f'cp: "{path}" in the container has no file name')
    answer = connection.open("GET", container(ref, "archive", path=path, follow=follow))
    try:
        with tarfile.open(fileobj=_Pieces(answer), mode="r|", errorlevel=1) as members:  # type: ignore[call-overload]
            if target == _STREAM:
                return _to_stream(members, "" if contents else top)
            place = _host_path_for(target, top, is_directory=is_directory, contents=contents)
            skipped = _extract(members, place, is_directory=is_directory, archive=archive)
    except tarfile.TarError as error:
        raise RuntimeFailure(f"read the archive from ocid: {error}") from None
    except OSError as error:
        raise HostError(f'copy "{ref}:{path}" to "{target}"', error) from None
    finally:
        answer.close()
    for name in skipped:
        tell("ocictl", f'copy "{name}": skipped: it is not a file, directory or symbolic link')
    return 0


class _Pieces:
    """A readable file object that returns the body of an HTTP response."""

    def __init__(self, answer: Answer) -> None:
        self._pieces = answer.pieces()
        self._rest = b""

    def read(self, size: int) -> bytes:
        while len(self._rest) < size:
            piece = next(self._pieces, b"")
            if not piece:
                break
            self._rest += piece
        data, self._rest = self._rest[:size], self._rest[size:]
        return data


def _to_stream(members: tarfile.TarFile, top: str) -> int:
    """Write the tar archive ``members`` to standard output, and return 0.

    If the archive contains a directory, prefixes the names of all members with ``top/``, unless
    ``top`` is "".  Raises UsageError if standard output is a terminal.
    """
    if sys.stdout.isatty():
        raise UsageError("cp: standard output is a terminal", "redirect it to a file")
    with tarfile.open(fileobj=sys.stdout.buffer, mode="w|", format=tarfile.PAX_FORMAT) as renamed:
        in_directory = False
        for member in members:
            in_directory = in_directory or member.name == "."
            content = members.extractfile(member) if member.isreg() else None
            if in_directory and top:
                member.name = os.path.normpath(f"{top}/{member.name}")
                if member.islnk():
                    member.linkname = f"{top}/{member.linkname}"
                kept = member.pax_headers.items()
                member.pax_headers = {
                    key: value for key, value in kept if key not in ("path", "linkpath")
                }
            renamed.addfile(member, content)
    return 0


def _host_path_for(target: str, top: str, *, is_directory: bool, contents: bool) -> str:
    """Return the path on the host to copy a file or directory to, by the rules of ``docker cp``.

    ``target`` is the path on the command line, ``top`` the name of the source.  ``contents`` says
    whether only the contents of a directory are copied.  Raises UsageError if the source cannot
    be copied there.
    """
    if os.path.isdir(target):
        return target if contents and is_directory else os.path.join(target, top)
    if os.path.lexists(target):
        if is_directory:
            raise UsageError(f'cp: cannot copy a directory to the file "{target}"')
        return target
    if target.endswith("/") and not is_directory:
        raise UsageError(f'cp: directory "{target}" not found')
    parent = os.path.dirname(os.path.abspath(target))
    if not os.path.isdir(parent):
        raise UsageError(f'cp: directory "{parent}" not found')
    return target.rstrip("/")


def _extract(members: tarfile.TarFile, top: str, *, is_directory: bool, archive: bool) -> list[str]:
    """Create the file or directory ``top`` from the tar archive ``members``; skip special files.

    With ``archive``, keeps owners and the setuid and setgid bits.  Returns the names of the skipped
    files.  Raises OSError if a file cannot be written or its path is outside of ``top``.
    """
    skipped = []
    modes = []  # directory modes are set at the end, because a directory may be read-only
    for member in members:
        path = _inside(top, member.name) if is_directory else top
        if path == top and member.isdir() != is_directory:
            raise OSError(errno.EINVAL, "the archive contains more than one file or directory")
        if member.isdir():
            # Keep the mode of an existing directory: a container must not open it to other users.
            if os.path.islink(path) or not os.path.isdir(path):
                _clear(path)
                os.mkdir(path, 0o700)
                _set_owner(path, member, archive)
                modes.append((path, _mode(member, archive)))
        elif member.islnk():
            _clear(path)
            os.link(_inside(top, member.linkname), path, follow_symlinks=False)
        elif member.issym():
            _clear(path)
            os.symlink(member.linkname, path)
            _set_owner(path, member, archive)
        elif member.isreg():
            _clear(path)
            _write(members, member, path, archive)
        else:
            skipped.append(plain(member.name))
    for path, mode in reversed(modes):
        fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        try:
            os.fchmod(fd, mode)
        finally:
            os.close(fd)
    return skipped


def _mode(member: tarfile.TarInfo, archive: bool) -> int:
    return member.mode & (0o7777 if archive else _PERMISSIONS)


def _inside(top: str, name: str) -> str:
    """Return the host path for the archive member ``name``, below ``top``.

    Raises OSError if the path is outside of ``top``, or below a symbolic link.
    """
    parts = [part for part in name.split("/") if part not in ("", ".")]
    if ".." in parts or name.startswith("/"):
        raise OSError(errno.EINVAL, f'archive member "{plain(name)}" is outside of the target')
    if not parts:
        return top
    path = os.path.join(top, *parts)
    parent, root = os.path.realpath(os.path.dirname(path)), os.path.realpath(top)
    if os.path.commonpath((parent, root)) != root:
        raise OSError(errno.ELOOP, f'archive member "{plain(name)}" is below a symbolic link')
    return path


def _clear(path: str) -> None:
    if os.path.lexists(path):
        os.unlink(path)  # fails for a directory, as in docker


def _write(members: tarfile.TarFile, member: tarfile.TarInfo, path: str, archive: bool) -> None:
    content = members.extractfile(member)
    assert content is not None
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(path, flags, 0o600), "wb") as file:
        while piece := content.read(_PIECE):
            file.write(piece)
        file.flush()
        _set_owner(file.fileno(), member, archive)
        os.fchmod(file.fileno(), _mode(member, archive))
        os.utime(file.fileno(), (member.mtime, member.mtime))


def _set_owner(path: str | int, member: tarfile.TarInfo, archive: bool) -> None:
    if archive and os.geteuid() == 0:
        if isinstance(path, int):
            os.fchown(path, member.uid, member.gid)
        else:
            os.chown(path, member.uid, member.gid, follow_symlinks=False)


# --- to a container ---


def _copy_in(
    connection: Connection, source: str, ref: str, path: str, *, follow: bool, archive: bool
) -> int:
    target = _kind_in_container(connection, ref, path)
    if source == _STREAM:
        if sys.stdin.isatty():
            raise UsageError("cp: standard input is a terminal", "redirect it from a tar archive")
        connection.upload(container(ref, "archive", path=path), _from_stdin)
        return 0
    try:
        status = os.stat(source) if follow else os.lstat(source)
    except OSError as error:
        raise HostError(f'copy "{source}"', error) from None
    is_directory = stat.S_ISDIR(status.st_mode)
    where, name = _where(path, target, is_directory=is_directory)
    contents = not name and is_directory and source.endswith("/.")
    top = name or os.path.basename(os.path.abspath(source))

    def fill(body: ChunkedBody) -> None:
        try:
            with tarfile.open(  # type: ignore[call-overload]
                fileobj=body, mode="w|", format=tarfile.PAX_FORMAT, dereference=False
            ) as archive_file:
                real_source = os.path.realpath(source) if follow else source
                archive_file.add(
                    real_source, "." if contents else top, filter=None if archive else _as_root
                )
        except ConnectionError:
            raise  # from ``body``
        except OSError as error:
            raise HostError(f'copy "{error.filename or source}"', error) from None

    connection.upload(container(ref, "archive", path=where), fill)
    return 0


def _kind_in_container(connection: Connection, ref: str, path: str) -> str:
    """Return the kind, such as "directory", of the file ``path`` in a container; "" if not found.

    Raises DaemonError if the container does not exist.
    """
    connection.get(container(ref))  # a missing container is an error, unlike a missing file
    try:
        return str(connection.get(container(ref, "file", path=path, follow=True))["kind"])
    except DaemonError as failure:
        if failure.code != "not_found":
            raise
        return ""


def _where(path: str, kind: str, *, is_directory: bool) -> tuple[str, str]:
    """Return (directory in the container, new name) for a copy to ``path`` in the container.

    ``kind`` is the kind of the existing file ``path``, "" if there is none; ``is_directory`` says
    whether the source is a directory.  The new name is "" if the copy keeps the name of the source.
    Raises UsageError if the source cannot be copied there.
    """
    if kind == "directory":
        return path, ""
    if kind and is_directory:
        raise UsageError(f'cp: cannot copy a directory to the file "{path}" in the container')
    if not kind and path.endswith("/") and not is_directory:
        raise UsageError(f'cp: directory "{path}" not found in the container')
    parent, name = os.path.split(path.rstrip("/"))
    return parent or "/", name


def _as_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    return member


def _from_stdin(body: ChunkedBody) -> None:
    while piece := _read_stdin():
        body.write(piece)


def _read_stdin() -> bytes:
    try:
        return sys.stdin.buffer.read(_PIECE)
    except OSError as error:
        raise HostError("cp: read standard input", error) from None


def run_export(connection: Connection, arguments: Arguments) -> int:
    """Write a container's root filesystem as a tar archive to a file or standard output.

    Raises UsageError if standard output is a terminal.
    """
    path = container(arguments.positional[0], "archive", path="/")
    return save_stream("export", connection, path, arguments.text("output"))


def run_diff(connection: Connection, arguments: Arguments) -> int:
    """Print the files that a container has added (A), changed (C) or deleted (D)."""
    for change in connection.lines("GET", container(arguments.positional[0], "changes")):
        if status := write_lines([f"{change['kind']} {change['path']}"]):
            return status
    return 0


COMMANDS = (
    Command(
        "cp SOURCE TARGET",
        "copy files from or to a container",
        run_cp,
        options=(
            Option("archive", "keep owners, setuid and setgid", short="a"),
            Option("follow-link", "if SOURCE is a symbolic link, copy its target", short="L"),
            Option("quiet", short="q"),
        ),
        details=(
            "One of SOURCE and TARGET is CONTAINER:PATH, the other is a path on this host or\n"
            "- (a tar archive on standard input or output). SOURCE/. copies the contents of a\n"
            "directory. The container may be stopped. PATH may be in a volume, but mounts\n"
            "below a directory are not copied."
        ),
        examples=(
            ("Copy a log to this host", "ocictl cp web:/var/log/app.log ."),
            ("Copy a directory to a container", "ocictl cp ./site web:/srv/www"),
        ),
    ),
    Command(
        "export CONTAINER",
        "write the files of a container to an archive",
        run_export,
        options=(Option("output", "write to FILE, not to standard output", "FILE", short="o"),),
        details="Writes a tar archive of the root filesystem, without volumes.",
    ),
    Command(
        "diff CONTAINER",
        "list the files that a container has changed",
        run_diff,
        details="A means an added file, C a changed file, D a deleted file.",
    ),
)
