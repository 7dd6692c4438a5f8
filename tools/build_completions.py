"""Write the completions for bash, zsh and fish: ``build_completions.py DIRECTORY``.

They are made from the tables of ociruntime/cli, below DIRECTORY where shells look for them:
bash-completion/completions, zsh/site-functions, fish/vendor_completions.d.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ociruntime.cli.manual import COMPLETED_BY, NEW_CONTAINER, NOT_COMPLETED  # noqa: E402
from ociruntime.cli.options import ANY, COMMANDS, GLOBAL_OPTIONS  # noqa: E402
from ociruntime.linux import SIGNALS  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.cli.options import Option

TEMPLATES = ROOT / "tools" / "completions"
SHELLS = {
    "bash": "bash-completion/completions/ociruntime",
    "zsh": "zsh/site-functions/_ociruntime",
    "fish": "fish/vendor_completions.d/ociruntime.fish",
}
# Which functions, of the templates or the shells, complete what.
ZSH = {
    "container": "_ociruntime_containers",
    "directory": "_directories",
    "file": "_files",
    "signal": "_ociruntime_signals",
    "": " ",
}
FISH = {
    "container": "(__ociruntime_containers)",
    "directory": "(__fish_complete_directories)",
    "file": "(__fish_complete_path)",
    "signal": "$__ociruntime_signals",
}


def shown(options: tuple[Option, ...]) -> list[Option]:
    """Those that the help shows."""
    return [option for option in options if option[4]]


def completed(command: str, option: Option) -> str:
    """What completes the option's value: a kind of ``COMPLETED_BY`` or ""."""
    if (command, option[0]) in NOT_COMPLETED:
        return ""
    return COMPLETED_BY.get(option[3], "")


def arguments(command: str, synopsis: str) -> list[str]:
    """For each argument what completes it; that of another program is never completed."""
    names = [word.strip("[].") for word in synopsis.split()]
    kinds = [COMPLETED_BY.get(name, "") for name in names]
    return ["" if kind == "container" and command in NEW_CONTAINER else kind for kind in kinds]


def spellings(option: Option) -> list[str]:
    """``--bundle`` and ``-b``."""
    return [f"--{option[0]}", *([f"-{option[1]}"] if option[1] else [])]


def signals() -> str:
    """Without SIG, by number."""
    return " ".join(name.removeprefix("SIG") for name in SIGNALS)


# --- bash ---------------------------------------------------------------------------


def bash() -> str:
    """The tables, then tools/completions/bash, which walks the words by them."""
    others = [command[0] for command in COMMANDS if command[3] == ANY]
    options: dict[str, list[str]] = {}
    for name, table in tables():
        words = " ".join(f"--{option[0]}" for option in shown(table))
        options.setdefault(words, []).append(f'"{name}"')
    values: dict[str, list[str]] = {}
    for name, table in tables():
        for option in shown(table):
            if option[2] != "flag":
                keys = values.setdefault(bash_value(name, option), [])
                keys += [f'"{name} {spelling}"' for spelling in spellings(option)]
    parts: dict[str, list[str]] = {}
    for command in COMMANDS:
        for position, kind in enumerate(arguments(command[0], command[1]), 1):
            if kind:
                parts.setdefault(kind, []).append(f'"{command[0]} {position}"')
    return "\n".join(
        [
            f'_ociruntime_commands="{" ".join(command[0] for command in COMMANDS)}"',
            f'_ociruntime_signals="{signals()}"',
            "# Commands whose further words are another program's.",
            f'_ociruntime_other_programs="{" ".join(others)}"',
            "",
            *bash_cases("options", "$1", options),
            *bash_cases("value", "$1 $2", values),
            *bash_cases("argument", "$1 $2", parts),
            (TEMPLATES / "bash").read_text(),
        ]
    )


def bash_value(command: str, option: Option) -> str:
    """What the template's functions are called by."""
    if option[2] == "choice":
        return f"words {option[3].replace('|', ' ')}"
    return completed(command, option) or "nothing"


def bash_cases(name: str, key: str, cases: dict[str, list[str]]) -> list[str]:
    """A function that prints for a command, and an option or a position, what there is."""
    lines = [f"_ociruntime_{name}() {{", f'    case "{key}" in']
    for text, keys in cases.items():
        lines.append(f"    {' | '.join(keys)}) echo '{text}' ;;")
    return [*lines, "    esac", "}", ""]


def tables() -> list[tuple[str, tuple[Option, ...]]]:
    """The options before a command, as of the command "", and those of each command."""
    return [("", GLOBAL_OPTIONS), *((command[0], command[5]) for command in COMMANDS)]


# --- zsh ----------------------------------------------------------------------------


def zsh() -> str:
    """tools/completions/zsh with the words of ``_arguments`` for each command put in."""
    described = [f"{in_zsh(command[0])}\\:{in_zsh(command[4])}" for command in COMMANDS]
    commands = " \\\n        ".join(f"'{one}'".replace("\\:", ":", 1) for one in described)
    cases = []
    for command in COMMANDS:
        words = [zsh_option(command[0], option) for option in shown(command[5])]
        kinds = arguments(command[0], command[1])
        if command[3] == ANY:
            # The first argument ends the options.
            words = ["-A '-*'", *words, f"'1: :{ZSH[kinds[0]]}'", "'*:: : '"]
        else:
            words += [f"'{n}: :{ZSH[kind]}'" for n, kind in enumerate(kinds, 1)]
        body = " \\\n            ".join(["_arguments -s -S", *words])
        cases.append(f"    {command[0]})\n        {body}\n        ;;")
    text = (TEMPLATES / "zsh").read_text()
    options = " \\\n        ".join(zsh_option("", option) for option in shown(GLOBAL_OPTIONS))
    for mark, replacement in (
        ("@COMMANDS@", commands),
        ("@OPTIONS@", options),
        ("@SIGNALS@", signals()),
        ("@CASES@", "\n".join(cases)),
    ):
        text = text.replace(mark, replacement)
    return text


def zsh_option(command: str, option: Option) -> str:
    """One specification of ``_arguments``, in the shell's quotes."""
    name, short, kind, value, text = option
    rest = f"[{in_zsh(text)}]"
    if kind == "choice":
        rest += f":{in_zsh(name)}:({value.replace('|', ' ')})"
    elif kind != "flag":
        rest += f":{in_zsh(value)}:{ZSH[completed(command, option)]}"
    long = f"--{name}" + ("" if kind == "flag" else "=")
    if kind == "list":
        return " ".join(f"'*{n}{rest}'" for n in (long, *([f"-{short}"] if short else [])))
    if short:
        return f"'(-{short} --{name})'{{-{short},{long}}}'{rest}'"
    return f"'{long}{rest}'"


def in_zsh(text: str) -> str:
    """For a description: brackets and colons are its syntax, an apostrophe the shell's."""
    for letter in "\\[]:":
        text = text.replace(letter, "\\" + letter)
    return text.replace("'", "'\\''")


# --- fish ---------------------------------------------------------------------------


def fish() -> str:
    """tools/completions/fish, then a line for each command, option and argument."""
    valued = [
        f"{name}:{spelling}"
        for name, options in tables()
        for option in shown(options)
        if option[2] != "flag"
        for spelling in spellings(option)
    ]
    lines = [
        f"set -g __ociruntime_signals {signals()}",
        f"set -g __ociruntime_valued {' '.join(valued)}",
        "",
    ]
    for command in COMMANDS:
        lines.append(
            "complete -c ociruntime -n '__ociruntime_at \"\"' "
            f"-a {command[0]} -d {in_fish(command[4])}"
        )
    for name, options in tables():
        lines.append("")
        lines += [fish_option(name, option) for option in shown(options)]
    lines.append("")
    for command in COMMANDS:
        for position, kind in enumerate(arguments(command[0], command[1]), 1):
            if kind:
                lines.append(
                    f"complete -c ociruntime -n '__ociruntime_at {command[0]} {position}' "
                    f"-a {in_fish(FISH[kind], variable=True)}"
                )
    return (TEMPLATES / "fish").read_text() + "\n".join(lines) + "\n"


def fish_option(command: str, option: Option) -> str:
    """One line."""
    name, short, kind, value, text = option
    # What follows the first argument may be another program's.
    last = " 1" if any(one[0] == command and one[3] == ANY for one in COMMANDS) else ""
    condition = f'__ociruntime_at "{command}"{last}'
    words = ["complete -c ociruntime -n", in_fish(condition), "-l", name]
    if short:
        words += ["-s", short]
    if kind == "choice":
        words += ["-x -a", in_fish(value.replace("|", " "))]
    elif kind != "flag":
        by = completed(command, option)
        if by == "file":
            words.append("-r -F")
        else:
            words += ["-x", *(["-a", in_fish(FISH[by])] if by else [])]
    return " ".join([*words, "-d", in_fish(text)])


def in_fish(text: str, *, variable: bool = False) -> str:
    """A word; with ``variable`` one that fish looks into when it completes."""
    if variable and text.startswith("$"):
        return f'"{text}"'
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def main(directory: Path) -> None:
    """Write all three."""
    for text, place in ((bash(), "bash"), (zsh(), "zsh"), (fish(), "fish")):
        target = directory / SHELLS[place]
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
