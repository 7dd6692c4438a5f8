"""Entry point of ``python -I -S -B .../ociruntime/pods/cli/__main__.py ARGS``.

As ``ociruntime/__main__.py``: without ``site``, the path is put together here.
"""

import gc
import posix
import sys

# Whose modules are loaded ahead for which word; one that means something else costs only time.
AHEAD = {"run": "ocipod run", "prepare": "ocipod run", "monitor": "ocipod monitor"}


def _extend_path() -> None:
    directory = __file__.rpartition("/ociruntime/pods/cli/")[0] or "/"
    # Not this directory, which Python puts in front: its modules have the names of commands.
    sys.path[0:1] = [directory] if sys.path[0].endswith("/pods/cli") else [directory, sys.path[0]]
    from ociruntime.startup.archive import find_packages, use_archive

    find_packages()
    command = next((word for word in sys.argv if word in AHEAD), "")
    # Nothing that is loaded is garbage; looking for some takes a millisecond.
    gc.disable()
    use_archive(directory, AHEAD.get(command, ""))
    gc.enable()


def run() -> int:
    """Run the command of ``sys.argv`` and return the exit status."""
    try:
        if not __package__:
            _extend_path()
        from ociruntime.pods.cli.main import main

        return main(sys.argv[1:])
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        if "--resume-fd" in sys.argv:
            _try_again()
        posix.write(2, f"ocipod: the installation is incomplete: {error}\n".encode())
        return 254


def _try_again() -> None:
    """A pod's monitor that wakes while the package is being replaced."""
    import time

    time.sleep(1)
    posix.execv(sys.executable, sys.orig_argv)


if __name__ == "__main__":
    posix._exit(run())
