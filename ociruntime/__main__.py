"""Entry point of ``python -I -S -B .../ociruntime/__main__.py ARGS``.

Without ``site`` only the standard library can be found; this adds the directory that the
package lies in, which is also where its dependencies were installed, and the places that
``site`` would know for a package which lies elsewhere.
"""

import posix
import sys

if not __package__:
    _PARENT = __file__.rpartition("/ociruntime/")[0] or "/"
    _LIBRARY = f"{sys.prefix}/lib/python"
    sys.path.insert(0, _PARENT)
    sys.path += [
        f"{_LIBRARY}{sys.version_info[0]}.{sys.version_info[1]}/site-packages",
        f"{_LIBRARY}{sys.version_info[0]}/dist-packages",
    ]

from ociruntime.cli.main import main

if __name__ == "__main__":
    # Nothing is buffered and nothing registered: taking the interpreter apart again would
    # only cost a millisecond.
    posix._exit(main(sys.argv[1:]))
