"""Entry point of ``python3 -m conformance``, the same as the command ``oci-conformance``."""

from __future__ import annotations

import sys

from conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
