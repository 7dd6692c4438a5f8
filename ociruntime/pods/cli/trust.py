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
    """Shows every key, asks, and then adds all of them or none."""
    from ociruntime.images.trust.policy import check_prefix
    from ociruntime.images.trust.trusted_keys import add_key, read_key_file

    prefix = arguments.text("prefix")
    if arguments.flag("root") == bool(prefix):
        hint = "--prefix=PREFIX, or --root for the images of everybody"
        raise UsageError("say for which images the keys are trusted", hint)
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
    whose = f'images "{prefix}"' if prefix else "all images"
    people = [f"  {person}" for person in key.user_ids]
    return [f"key for {whose}, from {path}", f"  {groups}", *people]


def _agreed() -> bool:
    """Asks until the answer is yes or no.  Raises ImageError when nobody answers."""
    while True:
        write("trust this key (yes/no)? ")
        line = _line()
        if not line:
            write("\n")
            hint = "--skip-fingerprint-review does not ask"
            raise ImageError("nobody has said that the key is trusted", hint)
        answer = line.strip().lower()
        if answer in ("yes", "no"):
            return answer == "yes"


def _line() -> str:
    """A line of standard input, a byte at a time: what follows is not ours."""
    import posix

    line = b""
    while not line.endswith(b"\n"):
        byte = posix.read(0, 1)
        if not byte:
            break
        line += byte
    return line.decode(errors="replace")
