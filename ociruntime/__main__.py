"""Entry point of ``python -I -S -B .../ociruntime/__main__.py ARGS``.

Without ``site`` only the standard library can be found; this adds the directory that the
package lies in, which is also where its dependencies were installed, and the places that
``site`` would know for a package which lies elsewhere.
"""

from __future__ import annotations

import posix
import sys


def _extend_path() -> None:
    library = f"{sys.prefix}/lib/python"
    sys.path.insert(0, __file__.rpartition("/ociruntime/")[0] or "/")
    sys.path += [
        f"{library}{sys.version_info[0]}.{sys.version_info[1]}/site-packages",
        f"{library}{sys.version_info[0]}/dist-packages",
    ]


def _start() -> int:
    try:
        from ociruntime.cli.main import main

        return main(sys.argv[1:])
    except KeyboardInterrupt:  # before or after the place that reports it
        return 130
    except ImportError as error:
        posix.write(2, f"ociruntime: the installation is incomplete: {error}\n".encode())
        return 1


if __name__ == "__main__":
    if not __package__:  # else it was found as `python -m ociruntime`
        _extend_path()
    # Nothing is buffered and nothing registered: taking the interpreter apart again would
    # only cost a millisecond.
    posix._exit(_start())
