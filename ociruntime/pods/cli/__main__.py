"""Entry point of ``ocipod``: ``python -I -S -B .../ociruntime/pods/cli/__main__.py ARGS``.

The program sets up ``sys.path`` itself, because ``site`` is not loaded.
"""

import gc
import posix
import sys

# Argument -> command whose modules to preload.  If the argument is not the command, preloading
# costs time, but does no harm.
PRELOAD = {"run": "ocipod run", "prepare": "ocipod run", "monitor": "ocipod monitor"}


def _extend_path() -> None:
    directory = __file__.rpartition("/ociruntime/pods/cli/")[0] or "/"
    # Drop this directory, which Python puts first: its modules would shadow the standard library.
    sys.path[0:1] = [directory] if sys.path[0].endswith("/pods/cli") else [directory, sys.path[0]]
    from ociruntime.startup.archive import find_packages, use_archive

    find_packages()
    command = next((arg for arg in sys.argv if arg in PRELOAD), "")
    # Loading modules makes no garbage; collecting it would take a millisecond.
    gc.disable()
    use_archive(directory, PRELOAD.get(command, ""))
    gc.enable()


def run() -> int:
    """Run the ``ocipod`` command in ``sys.argv`` and return the exit status."""
    try:
        if not __package__:
            _extend_path()
        from ociruntime.pods.cli.main import main

        return main(sys.argv[1:])
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        if "--resume-fd" in sys.argv:
            _retry()
        posix.write(
            2, f"ocipod: incomplete installation: {error} (reinstall ociruntime)\n".encode()
        )
        return 254


def _retry() -> None:
    """Execute this program again after a second.

    When a monitor resumes from hibernation during an upgrade, some of the package's files may be
    missing for a moment.  If the monitor exited with an error, its pod would end.
    """
    import time

    time.sleep(1)
    posix.execv(sys.executable, sys.orig_argv)


if __name__ == "__main__":
    posix._exit(run())
