"""Entry point of ``ocictl``: ``python -I -S -B .../ociruntime/manager/client/__main__.py ARGS``.

It sets up ``sys.path`` itself, because ``site`` is not loaded.
"""

import posix
import sys


def _extend_path() -> None:
    directory = __file__.rpartition("/ociruntime/manager/client/")[0] or "/"
    # Drop this directory, which Python puts first: its modules would shadow the standard library.
    sys.path[0:1] = (
        [directory] if sys.path[0].endswith("/manager/client") else [directory, sys.path[0]]
    )
    from ociruntime.startup.archive import find_packages, use_archive

    find_packages()
    use_archive(directory, "")


def run() -> int:
    """Run ``ocictl`` with the arguments in ``sys.argv``; return the exit status."""
    try:
        if not __package__:
            _extend_path()
        from ociruntime.manager.client.main import main

        return main(sys.argv[1:])
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        posix.write(2, f"ocictl: the installation is incomplete: {error}\n".encode())
        return 1


if __name__ == "__main__":
    posix._exit(run())
