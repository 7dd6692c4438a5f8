"""Entry point of ``ociruntime``: ``python -I -S -B .../ociruntime/__main__.py ARGS``.

Without ``site``, only the standard library is on Python's path.  This module adds the directory
that contains the package (and normally its dependencies), and the directories that ``site`` would
add.
"""

import gc
import posix
import sys

# Word in the arguments -> the command whose modules to preload; if it means something else, this
# only costs time.
PRELOADED = {"create": "create", "run": "create", "exec": "exec"}


def _extend_path() -> None:
    """Make the package and its dependencies importable, and preload the command's modules."""
    directory = __file__.rpartition("/ociruntime/")[0] or "/"
    sys.path.insert(0, directory)
    from ociruntime.startup.archive import find_packages, use_archive

    find_packages()
    command = next((word for word in sys.argv if word in PRELOADED), "")
    use_archive(directory, PRELOADED.get(command, ""))


def run() -> int:
    """Run the command in ``sys.argv`` and return its exit status."""
    # Cycle collection during the imports costs half a millisecond, and finds next to nothing.
    gc.disable()
    try:
        if not __package__:  # else the import system has found it: `python -m ociruntime`
            _extend_path()
        from ociruntime.runtime.cli.main import run_program

        return run_program(sys.argv[1:])
    except KeyboardInterrupt:  # raised outside main(), which reports it
        return 130
    except ImportError as error:
        posix.write(2, f"ociruntime: the installation is incomplete: {error}\n".encode())
        return 1
    except (OSError, MemoryError) as error:
        reason = str(error) or "out of memory"
        posix.write(2, f"ociruntime: load the program's modules: {reason}\n".encode())
        return 1


if __name__ == "__main__":
    # Skip the interpreter's shutdown, which takes a millisecond: there is no buffered output to
    # flush and no exit handler to run.
    posix._exit(run())
