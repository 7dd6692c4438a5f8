"""Entry point of ``python -I -S -B .../ociruntime/ocipod/__main__.py ARGS``.

As ``ociruntime/__main__.py``: without ``site``, the path is put together here.
"""

import posix
import sys


def _extend_path() -> None:
    library = f"{sys.prefix}/lib/python"
    directory = __file__.rpartition("/ociruntime/ocipod/")[0] or "/"
    # Not this directory, which Python puts in front: its modules have the names of commands.
    sys.path[0:1] = [directory] if sys.path[0].endswith("/ocipod") else [directory, sys.path[0]]
    sys.path += [
        f"{library}{sys.version_info[0]}.{sys.version_info[1]}/site-packages",
        f"{library}{sys.version_info[0]}/dist-packages",
    ]
    from ociruntime.archive import use_archive

    use_archive(directory, "")


def _start() -> int:
    try:
        if not __package__:
            _extend_path()
        from ociruntime.ocipod.main import main

        return main(sys.argv[1:])
    except KeyboardInterrupt:
        return 130
    except ImportError as error:
        posix.write(2, f"ocipod: the installation is incomplete: {error}\n".encode())
        return 254


if __name__ == "__main__":
    posix._exit(_start())
