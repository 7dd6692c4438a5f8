"""``ocipod trust``."""

from __future__ import annotations

from ociruntime.base.errors import ImageError, UsageError
from ociruntime.commandline.output import write, write_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.parser import Arguments
    from ociruntime.images.trust.openpgp import Key
    from ociruntime.pods.cli.context import Context


def run(context: Context, arguments: Arguments) -> int:
    """Show each key and ask for confirmation; then add all keys, or none."""
    from ociruntime.images.trust.policy import check_prefix
    from ociruntime.images.trust.trusted_keys import add_key, read_key_file

    prefix = arguments.text("prefix")
    if arguments.flag("root") == bool(prefix):
        hint = "--prefix=PREFIX, or --root for all images"
        raise UsageError("trust: either --prefix or --root is required", hint)
    if prefix:
        prefix = check_prefix(prefix, "--prefix")
    keys = [(path, key) for path in arguments.positional for key in read_key_file(path)]
    for path, key in keys:
        write_lines(_description(prefix, path, key))
        if not arguments.flag("skip-fingerprint-review") and not _agreed():
            raise ImageError(f"key {key.fingerprint} is not trusted", "no key was added")
    for _, key in keys:
        status = write(f"added {add_key(context.local_config, prefix, key)}\n")
        if status:
            return status
    return 0


def _description(prefix: str, path: str, key: Key) -> list[str]:
    groups = " ".join(key.fingerprint[at : at + 4] for at in range(0, len(key.fingerprint), 4))
    scope = f'images "{prefix}"' if prefix else "all images"
    users = [f"  {user_id}" for user_id in key.user_ids]
    return [f"key for {scope}, from {path}", f"  {groups}", *users]


def _agreed() -> bool:
    """Ask until the answer is yes or no.  Raises ImageError at the end of input."""
    while True:
        write("trust this key (yes/no)? ")
        line = _line()
        if not line:
            write("\n")
            hint = "--skip-fingerprint-review skips the question"
            raise ImageError("trust the key: no answer on standard input", hint)
        answer = line.strip().lower()
        if answer in ("yes", "no"):
            return answer == "yes"


def _line() -> str:
    """Read a line of standard input, byte by byte: the rest may belong to another program."""
    import posix

    line = b""
    while not line.endswith(b"\n"):
        byte = posix.read(0, 1)
        if not byte:
            break
        line += byte
    return line.decode(errors="replace")
