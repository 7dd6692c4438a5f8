"""Write the manual pages: ``build_man_pages.py DIRECTORY``.

DIRECTORY/man1 gets ociruntime.1 and one page a command, from the tables of ociruntime/cli.
They have no date, so that building them twice gives the same bytes.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ociruntime import __version__  # noqa: E402
from ociruntime.cli import manual  # noqa: E402
from ociruntime.cli.help import ID_FORMAT, usage_words  # noqa: E402
from ociruntime.cli.options import COMMANDS, GLOBAL_OPTIONS  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ociruntime.cli.options import Command, Option


def main_page() -> str:
    """ociruntime(1)."""
    lines = heading("ociruntime", "run containers as the OCI runtime specification describes them")
    lines += [*synopsis("ociruntime", "[OPTION]... COMMAND [ARGUMENT]..."), ".SH DESCRIPTION"]
    lines += [roff(manual.DESCRIPTION), ".SH COMMANDS"]
    summaries = {command[0]: command[4] for command in COMMANDS}
    for group, names in manual.GROUPS:
        lines.append(f'.SS "{roff(group[0].upper() + group[1:])}"')
        for name in names:
            lines += term(reference(f"ociruntime-{name}"), sentence(summaries[name]))
    lines += [".SH OPTIONS", "These stand before the command, or among its options."]
    lines += options("", GLOBAL_OPTIONS)
    lines += definitions("EXIT STATUS", manual.EXIT_STATUS)
    lines += definitions("FILES", manual.FILES)
    lines += definitions("ENVIRONMENT", manual.ENVIRONMENT)
    lines += definitions("ANNOTATIONS", manual.ANNOTATIONS)
    lines += examples("")
    return page(lines, (f"ociruntime-{name}" for name in sorted(summaries)))


def command_page(command: Command) -> str:
    """ociruntime-COMMAND(1)."""
    name, arguments, _, _, summary, table, details = command
    lines = heading(f"ociruntime-{name}", summary.replace("`", ""))
    lines += [*synopsis(*usage_words(command)), ".SH DESCRIPTION"]
    lines += [roff(details or sentence(summary))]
    if arguments.startswith("ID"):
        lines += [".PP", roff(ID_FORMAT)]
    shown = options(name, table)
    if shown:
        lines += [".SH OPTIONS", *shown]
    lines += [".PP", f"{reference('ociruntime')} has the options of every command."]
    lines += definitions("EXIT STATUS", manual.OWN_EXIT_STATUS.get(name, manual.EXIT_STATUS[:2]))
    lines += examples(name)
    group = next(names for _, names in manual.GROUPS if name in names)
    others = sorted(f"ociruntime-{other}" for other in group if other != name)
    return page(lines, ["ociruntime", *others])


def heading(name: str, what: str) -> list[str]:
    """The first lines."""
    return [
        '.\\" Made by tools/build_man_pages.py from the tables of ociruntime/cli.',
        f'.TH {name.upper()} 1 "" "ociruntime {__version__}" "ociruntime"',
        ".nh",
        ".SH NAME",
        f"{name} \\- {roff(what)}",
        ".SH SYNOPSIS",
    ]


def synopsis(program: str, words: str) -> list[str]:
    """The program bold, what stands for something else italic."""
    text = re.sub(r"[A-Z]+", r"\\fI\g<0>\\fR", words)
    return [f"\\fB{roff(program)}\\fR {text}".rstrip()]


def options(command: str, table: tuple[Option, ...]) -> list[str]:
    """Those that the help shows, each with its line there and what more there is to say."""
    lines = []
    for name, short, kind, value, text in table:
        if not text:
            continue
        head = f"\\fB{roff('--' + name)}\\fR"
        if short:
            head = f"\\fB{roff('-' + short)}\\fR, {head}"
        if kind == "choice":
            head += " " + "|".join(f"\\fB{roff(word)}\\fR" for word in value.split("|"))
        elif kind != "flag":
            head += f" \\fI{roff(value)}\\fR"
        words = [sentence(text), manual.more(command, name)]
        if kind == "list":
            words.append("The option may be repeated.")
        lines += term(head, " ".join(word for word in words if word))
    return lines


def definitions(title: str, table: tuple[tuple[str, str], ...]) -> list[str]:
    """A section of terms."""
    lines = [f'.SH "{title}"']
    for name, text in table:
        lines += term(f"\\fB{roff(name)}\\fR", sentence(text))
    return lines


def examples(command: str) -> list[str]:
    """The section of examples."""
    lines = []
    for what, line in manual.EXAMPLES[command]:
        lines += [".PP", roff(f"{what}:"), ".PP", ".RS 4", ".nf", roff(line), ".fi", ".RE"]
    return [".SH EXAMPLES", *lines[1:]]


def page(lines: list[str], others: Iterable[str]) -> str:
    """All of it, with the pages to read next."""
    see = ",\n".join(reference(other) for other in others)
    return "\n".join([*lines, '.SH "SEE ALSO"', see]) + "\n"


def term(head: str, text: str) -> list[str]:
    """One entry of a list; ``head`` is roff, ``text`` is not."""
    return [".TP", head, roff(text)]


def reference(name: str) -> str:
    """A page of the same section."""
    return f"\\fB{roff(name)}\\fR(1)"


def sentence(text: str) -> str:
    """With a capital and a full stop."""
    return text if text.endswith(".") else text[:1].upper() + text[1:] + "."


def roff(text: str) -> str:
    """Plain text, in which `backquotes` mark a command; no line of it is taken for a request."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)
    # The last words of a sentence at the end of a line: roff then makes the space after it.
    text = re.sub(r"(?<=[A-Za-z)])\. (?=[A-Z])", ".\n", text)
    return re.sub(r"(?m)^(?=[.'])", r"\\&", text)


def main(directory: Path) -> None:
    """Write all of them."""
    target = directory / "man1"
    target.mkdir(parents=True, exist_ok=True)
    (target / "ociruntime.1").write_text(main_page(), encoding="utf-8")
    for command in COMMANDS:
        text = command_page(command)
        (target / f"ociruntime-{command[0]}.1").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
