"""The environment variables of apps: files of variables, precedence, defaults such as PATH.

Precedence from lowest to highest: the caller's variables (--inherit-env), the image's,
--set-env-file, --set-env, --environment of the app.
"""

from __future__ import annotations

from collections.abc import Mapping

from ociruntime.base.errors import UsageError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELL = "/bin/sh"


def merged(*sources: Mapping[str, str]) -> dict[str, str]:
    """Merge mappings of variables; the last value of a name wins."""
    result: dict[str, str] = {}
    for source in sources:
        result.update(source)
    return result


def pod_variables(files: list[str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of --set-env-file (``files``), overridden by --set-env (``settings``).

    Raises UsageError if a file cannot be read or parsed.
    """
    return merged(*(read_file(path) for path in files), settings)


def read_file(path: str) -> dict[str, str]:
    """Return the variables in the file ``path`` of --set-env-file.

    Raises UsageError if the file cannot be read or parsed.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise UsageError(f"--set-env-file {path}: cannot be read: {reason}") from error
    except UnicodeDecodeError as error:
        raise UsageError(f"--set-env-file {path}: must be UTF-8 text") from error
    return parse_file(text, path)


def parse_file(text: str, path: str) -> dict[str, str]:
    """Parse the ``text`` of an environment file: ``NAME=VALUE`` lines; return the variables.

    Blank lines and comments (``#``, ``;``) are skipped.  Raises UsageError with ``path`` and the
    number of an invalid line.
    """
    variables: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        name, equals, value = stripped.partition("=")
        name = name.strip()
        if not name or not equals or "\0" in stripped:
            raise UsageError(f"--set-env-file {path}, line {number}: must be NAME=VALUE")
        if name in variables:
            raise UsageError(f'--set-env-file {path}, line {number}: "{name}" is already set')
        variables[name] = value.strip()
    return variables


def completed(
    variables: Mapping[str, str], app_name: str, user: str, home: str, shell: str
) -> dict[str, str]:
    """Return ``variables`` with defaults for PATH, SHELL, USER, LOGNAME and HOME.

    ``user``, ``home`` and ``shell`` are from the image's /etc/passwd; the last two may be "".
    """
    return {
        "PATH": PATH,
        "SHELL": shell or SHELL,
        "USER": user,
        "LOGNAME": user,
        "HOME": home or "/",
        **variables,
        "AC_APP_NAME": app_name,
        "container": "ocipod",
    }


def completed_as_docker(variables: Mapping[str, str], home: str) -> dict[str, str]:
    """Return ``variables`` with the defaults that docker sets: PATH and HOME.

    ``home`` is from the image's /etc/passwd; it may be "".
    """
    return {"PATH": PATH, "HOME": home or "/", **variables}


def with_term(variables: list[str]) -> list[str]:
    """Return the ``NAME=VALUE`` strings with TERM=xterm added unless TERM is set.

    For apps on a terminal, as with docker and podman: programs such as vi do not start without it.
    """
    if any(variable.startswith("TERM=") for variable in variables):
        return variables
    return [*variables, "TERM=xterm"]
