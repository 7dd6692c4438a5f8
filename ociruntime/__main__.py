"""Entry point of ``python -I -S -B .../ociruntime/__main__.py ARGS``.

Without ``site`` only the standard library can be found; this adds the directory that the
package lies in, which is also where its dependencies were installed, and the places that
``site`` would know for a package which lies elsewhere.
"""

import gc
import posix
import sys

# Whose modules are loaded ahead for which word; one that means something else costs only time.
AHEAD = {"create": "create", "run": "create", "exec": "exec"}


def _extend_path() -> None:
    directory = __file__.rpartition("/ociruntime/")[0] or "/"
    sys.path.insert(0, directory)
    from ociruntime.startup.archive import find_packages, use_archive

    find_packages()
    command = next((word for word in sys.argv if word in AHEAD), "")
    use_archive(directory, AHEAD.get(command, ""))


def run() -> int:
    """Run the command of ``sys.argv`` and return the exit status."""
    # Looking for circular garbage costs half a millisecond of imports; there is none to speak of.
    gc.disable()
    try:
        if not __package__:  # else it was found as `python -m ociruntime`
            _extend_path()
        from ociruntime.runtime.cli.main import main

        return main(sys.argv[1:])
    except KeyboardInterrupt:  # before or after the place that reports it
        return 130
    except ImportError as error:
        posix.write(2, f"ociruntime: the installation is incomplete: {error}\n".encode())
        return 1


if __name__ == "__main__":
    # Nothing is buffered and nothing registered: taking the interpreter apart again would
    # only cost a millisecond.
    posix._exit(run())
