"""Write the manual pages: ``build_man_pages.py DIRECTORY``.

DIRECTORY/man1 gets one page per program and one per command: ociruntime.1, ocipod-image-list.1 ...
They have no date, so that the build is reproducible.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ociruntime import __version__  # noqa: E402
from tools.programs import PROGRAMS  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from ociruntime.commandline.options import Command, Option
    from tools.programs import Program


def main_page(program: Program) -> str:
    """Return a program's main page, such as ociruntime(1)."""
    lines = heading(program, program.name, program.summary)
    words = "[OPTION]... COMMAND [ARGUMENT]..." if program.commands else "[OPTION]..."
    lines += [*synopsis(program.name, words), ".SH DESCRIPTION"]
    lines += [paragraphs(program.manual.DESCRIPTION)]
    lines += [".SH COMMANDS"] if program.commands else []
    for group, commands in program.groups:
        lines.append(f'.SS "{roff(group[0].upper() + group[1:])}"')
        for command in commands:
            lines += term(reference(program.page(command.name)), sentence(command.summary))
    lines += [".SH OPTIONS"]
    if program.commands:
        lines += ["Global options can also be given after the command."]
    lines += options(program.options)
    for title, table in program.manual.SECTIONS:
        lines += definitions(title, table)
    lines += examples(program.manual.EXAMPLES)
    pages = [program.page(name) for name in sorted(command.name for command in program.commands)]
    return page(lines, [*pages, *sorted(one.name for one in PROGRAMS if one is not program)])


def command_page(program: Program, command: Command) -> str:
    """Return a command's page, such as ociruntime-create(1)."""
    name, summary = command.name, command.summary
    manual = program.manual
    lines = heading(program, program.page(name), summary.replace("`", ""))
    lines += [*synopsis(*program.usage(command)), ".SH DESCRIPTION"]
    lines += [paragraphs(command.details or sentence(summary))]
    for beginning, argument, text in manual.ARGUMENTS:
        whole_word = rf"(?<![A-Z]){argument}(?![A-Z])"
        if name.startswith(beginning) and re.search(whole_word, command.synopsis):
            lines += [".PP", roff(text)]
    for title, table in program.option_sections(command):
        shown = options(table)
        if shown:
            lines += [f'.SH "{title}"', *shown]
    lines += [".PP", f"{reference(program.name)} has the options of every command."]
    lines += definitions("EXIT STATUS", command.exit_status or manual.EXIT_STATUS[:2])
    lines += examples(command.examples)
    group = next(commands for _, commands in program.groups if command in commands)
    others = sorted(program.page(other.name) for other in group if other is not command)
    return page(lines, [program.name, *others])


def heading(program: Program, name: str, what: str) -> list[str]:
    """Return the lines up to the heading SYNOPSIS; ``what`` is the page's summary."""
    return [
        f'.\\" Made by tools/build_man_pages.py from the commands of {program.package}.',
        f'.TH {name.upper()} 1 "" "ociruntime {__version__}" "{program.name}"',
        ".nh",
        ".SH NAME",
        f"{name} \\- {roff(what)}",
        ".SH SYNOPSIS",
    ]


def synopsis(program: str, words: str) -> list[str]:
    """Return the synopsis with the program's name bold and placeholders italic."""
    text = re.sub(r"[A-Z]+", r"\\fI\g<0>\\fR", words.replace("-", "\\-"))
    return [f"\\fB{roff(program)}\\fR {text}".rstrip()]


def options(table: tuple[Option, ...]) -> list[str]:
    """Return the list of the options that the help shows, with their help and details."""
    lines = []
    for option in table:
        if not option.help:
            continue
        kind, value = option.kind, option.value
        head = f"\\fB{roff('--' + option.name)}\\fR"
        if option.short:
            head = f"\\fB{roff('-' + option.short)}\\fR, {head}"
        if kind == "choice":
            head += " " + "|".join(f"\\fB{roff(word)}\\fR" for word in value.split("|"))
        elif kind in ("optional", "joined"):
            head += f"[=\\fI{roff(value)}\\fR]"
        elif kind != "flag":
            head += f" \\fI{roff(value)}\\fR"
        words = [sentence(option.help), option.details]
        if kind == "list":
            words.append("The option may be repeated.")
        lines += term(head, " ".join(word for word in words if word))
    return lines


def definitions(title: str, table: tuple[tuple[str, str], ...]) -> list[str]:
    """Return a section that lists terms with their definitions."""
    lines = [f'.SH "{title}"']
    for name, text in table:
        lines += term(f"\\fB{roff(name)}\\fR", sentence(text))
    return lines


def examples(table: tuple[tuple[str, str], ...]) -> list[str]:
    """Return the section EXAMPLES of pairs (description, command line); [] without any."""
    lines = []
    for what, line in table:
        lines += [".PP", roff(f"{what}:"), ".PP", ".RS 4", ".nf", roff(line), ".fi", ".RE"]
    return [".SH EXAMPLES", *lines[1:]] if lines else []


def page(lines: list[str], others: Iterable[str]) -> str:
    """Return the page's text: ``lines``, and SEE ALSO with the pages ``others``."""
    see = ",\n".join(reference(other) for other in others)
    return "\n".join([*lines, '.SH "SEE ALSO"', see]) + "\n"


def term(head: str, text: str) -> list[str]:
    """Return a list entry; ``head`` is in roff syntax, ``text`` is plain."""
    return [".TP", head, roff(text)]


def reference(name: str) -> str:
    """Return a reference to a page of section 1."""
    return f"\\fB{roff(name)}\\fR(1)"


def sentence(text: str) -> str:
    """Return the text as a sentence: capitalised, with a full stop."""
    return text[:1].upper() + text[1:] + ("" if text.endswith(".") else ".")


def paragraphs(text: str) -> str:
    """Convert plain text with empty lines between paragraphs; keep line breaks of indented ones."""
    blocks = text.split("\n\n")
    return "\n.PP\n".join(f".nf\n{roff(b)}\n.fi" if "\n " in f"\n{b}" else roff(b) for b in blocks)


def roff(text: str) -> str:
    """Escape plain text for roff; `backquoted` words become bold."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    text = re.sub(r"`([^`]+)`", r"\\fB\1\\fR", text)
    # roff expects each sentence to end at the end of a line.
    text = re.sub(r"(?<=[A-Za-z)])\. (?=[A-Z])", ".\n", text)
    return re.sub(r"(?m)^(?=[.'])", r"\\&", text)


def main(directory: Path) -> None:
    """Write the pages of all programs."""
    target = directory / "man1"
    target.mkdir(parents=True, exist_ok=True)
    for program in PROGRAMS:
        (target / f"{program.name}.1").write_text(main_page(program), encoding="utf-8")
        for command in program.commands:
            text = command_page(program, command)
            (target / f"{program.page(command.name)}.1").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
