"""Update the expected plans in tests/golden: ``update_golden.py [--check]``.

With --check only the differences are printed; the exit status is 1 if there are any.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from tests.support import golden  # noqa: E402


def main() -> int:
    check = sys.argv[1:] == ["--check"]
    stale = 0
    for case in golden.CASES:
        changed = golden.difference(case)
        if check and changed:
            sys.stdout.write(changed)
            stale = 1
        elif changed:
            name, text = golden.expected(case)
            for old in golden.ANSWERS:
                (case / old).unlink(missing_ok=True)
            (case / name).write_text(text, encoding="utf-8")
            print(f"{case.name}/{name}")
    return stale


if __name__ == "__main__":
    sys.exit(main())
