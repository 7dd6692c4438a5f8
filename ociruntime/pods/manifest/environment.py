"""Read and merge the environment variables of apps, and add defaults such as PATH.

The variables come from these sources: the caller (--inherit-env), the image, --set-env-file,
--set-env, and the app's --environment.  Later sources override earlier ones.
"""

from __future__ import annotations

from collections.abc import Mapping

from ociruntime.base.errors import UsageError

PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
SHELL = "/bin/sh"


def merged(*sources: Mapping[str, str]) -> dict[str, str]:
    """Merge environment variables; later ``sources`` override earlier ones."""
    result: dict[str, str] = {}
    for source in sources:
        result.update(source)
    return result


def pod_variables(files: list[str], settings: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables of a pod's options --set-env-file and --set-env.

    ``files`` are the paths given with --set-env-file.  ``settings`` are the variables of --set-env,
    which take precedence.  Raises UsageError if a file cannot be read or parsed.
    """
    return merged(*(read_file(path) for path in files), settings)


def read_file(path: str) -> dict[str, str]:
    """Return the environment variables in the file ``path``, a value of --set-env-file.

    Raises UsageError if the file cannot be read or parsed.
    """
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read()
    except OSError as error:
        reason = (error.strerror or "").lower()
        raise UsageError(f'--set-env-file: read "{path}": {reason}') from error
    except UnicodeDecodeError as error:
        raise UsageError(f'--set-env-file: "{path}" is not valid UTF-8') from error
    return parse_file(text, path)


def parse_file(text: str, path: str) -> dict[str, str]:
    """Parse ``text``, the ``NAME=VALUE`` lines of the environment file ``path``.

    Returns {name: value}.  Blank lines and comments (``#``, ``;``) are skipped.  Raises UsageError
    with ``path`` and the line number if a line is invalid or sets a variable for the second time.
    """
    variables: dict[str, str] = {}
    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if not stripped or stripped[0] in "#;":
            continue
        name, equals, value = stripped.partition("=")
        name = name.strip()
        if not name or not equals or "\0" in stripped:
            raise UsageError(f'--set-env-file: "{path}", line {number}: not NAME=VALUE')
        if name in variables:
            raise UsageError(f'--set-env-file: "{path}", line {number}: "{name}" is already set')
        variables[name] = value.strip()
    return variables


def completed(
    variables: Mapping[str, str], app_name: str, user: str, home: str, shell: str
) -> dict[str, str]:
    """Return an app's ``variables``, with defaults for PATH, SHELL, USER, LOGNAME and HOME.

    ``user``, ``home`` and ``shell`` are from the image's /etc/passwd; ``home`` and ``shell`` may be
    "".  Also sets AC_APP_NAME to ``app_name``, as the appc specification requires, and the variable
    ``container`` to "ocipod".
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
    """Return an app's ``variables``, with the defaults for PATH and HOME that docker sets.

    ``home`` is from the image's /etc/passwd; it may be "".
    """
    return {"PATH": PATH, "HOME": home or "/", **variables}


def with_term(variables: list[str]) -> list[str]:
    """Return ``variables``, ``NAME=VALUE`` strings, with TERM=xterm added if TERM is not set.

    Apps with a terminal get this variable, as in docker and podman: programs such as vi do not
    start without TERM.
    """
    if any(variable.startswith("TERM=") for variable in variables):
        return variables
    return [*variables, "TERM=xterm"]
