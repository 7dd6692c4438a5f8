"""Write shell completions for bash, zsh and fish: ``build_completions.py DIRECTORY``.

They are generated from each program's tables of commands and options. DIRECTORY (such as
/usr/share) gets bash-completion/completions, zsh/site-functions and fish/vendor_completions.d.
"""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from ociruntime.base.linux import SIGNALS  # noqa: E402
from tools.programs import PROGRAMS  # noqa: E402

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ociruntime.commandline.options import Command, Option
    from tools.programs import Program

TEMPLATES = ROOT / "tools" / "completions"
SHELLS = {
    "bash": "bash-completion/completions/{name}",
    "zsh": "zsh/site-functions/_{name}",
    "fish": "fish/vendor_completions.d/{name}.fish",
}
# Kind of value -> function of the template or the shell that completes it. For other kinds, such as
# "container", the program lists the objects.
ZSH = {"directory": "_directories", "file": "_files", "": " "}
FISH = {"directory": "(__fish_complete_directories)", "file": "(__fish_complete_path)"}


def shown(options: tuple[Option, ...]) -> list[Option]:
    """Return the options that the help shows, each name once."""
    return list({option.name: option for option in options if option.help}.values())


def completed(program: Program, option: Option) -> str:
    """Return the kind of the option's value ("file", "container" ...), "" if not completed."""
    return program.manual.COMPLETED_BY.get(option.value, "") if option.completed else ""


def listed(program: Program, first: str) -> list[tuple[str, str]]:
    """Return pairs of kind and the command that lists its objects.

    ``first`` is the shell's expression for the first argument.
    """
    listed = program.manual.LISTED
    return [(kind, words.replace("ARGUMENT1", first)) for kind, words in listed.items()]


def takes_a_word(option: Option) -> bool:
    """Return whether the next word is the option's value (an optional value follows a "=")."""
    return option.kind not in ("flag", "optional", "joined")


def spellings(option: Option) -> list[str]:
    """Return the long and the short form of an option, such as ``--bundle`` and ``-b``."""
    return [f"--{option.name}", *([f"-{option.short}"] if option.short else [])]


def signals() -> str:
    """Return the signal names without SIG, by number."""
    return " ".join(name.removeprefix("SIG") for name in SIGNALS)


def tables(program: Program) -> list[tuple[str, tuple[Option, ...]]]:
    """Return pairs of a command's name and its options; "" has the program's global options."""
    return [
        ("", program.options),
        *((command.name, command.options) for command in program.commands),
    ]


def template(program: Program, shell: str, **marks: str) -> str:
    """Return the template tools/completions/SHELL with each @MARK@ replaced."""
    text = (TEMPLATES / shell).read_text()
    for mark, replacement in (("NAME", program.name), ("ROOT", program.root), *marks.items()):
        text = text.replace(f"@{mark}@", replacement)
    return text


# --- bash ---------------------------------------------------------------------------


def bash(program: Program) -> str:
    """Return the completion for bash: functions with the tables, then the template."""
    options: dict[str, list[str]] = {}
    for name, table in tables(program):
        words = " ".join(f"--{option.name}" for option in shown(table))
        options.setdefault(words, []).append(f'"{name}"')
    values: dict[str, list[str]] = {}
    for name, table in tables(program):
        for option in shown(table):
            if takes_a_word(option):
                keys = values.setdefault(bash_value(program, option), [])
                keys += [f'"{name} {spelling}"' for spelling in spellings(option)]
    others = [f'"{one.name}"' for one in program.commands if program.runs_another(one)]
    commands = {" ".join(program.first_words): ['""']}
    for first, members in program.members.items():
        seconds = " ".join(member.name.partition(" ")[2] for member in members)
        commands.setdefault(seconds, []).append(f'"{first}"')
    return "\n".join(
        [
            f'_{program.name}_signals="{signals()}"',
            "",
            *bash_cases(program, "commands", "$1", commands),
            "# Commands whose first argument begins another program's command line.",
            *bash_cases(program, "runs_another", "$1", {"yes": others} if others else {}),
            *bash_cases(program, "options", "$1", options),
            *bash_cases(program, "value", "$1 $2", values),
            *bash_cases(program, "argument", "$1 $2", *bash_arguments(program)),
            *(
                f"_{program.name}_{kind}() {{ _{program.name}_list {words}; }}\n"
                for kind, words in listed(program, '"$first"')
            ),
            template(program, "bash"),
        ]
    )


def bash_value(program: Program, option: Option) -> str:
    """Return the template's function for the option's value, with its arguments."""
    if option.kind == "choice":
        return f"words {option.value.replace('|', ' ')}"
    return completed(program, option) or "nothing"


def bash_arguments(program: Program) -> tuple[dict[str, list[str]], dict[str, list[str]]]:
    """Return two maps of kind to shell patterns "COMMAND POSITION".

    The first is for numbered positions, the second for all further ones.
    """
    parts: dict[str, list[str]] = {}
    further: dict[str, list[str]] = {}
    for command in program.commands:
        kinds, rest = program.arguments(command)
        for position, kind in enumerate(kinds, 1):
            if kind:
                parts.setdefault(kind, []).append(f'"{command.name} {position}"')
        if rest:
            further.setdefault(rest, []).append(f'"{command.name} "*')
    return parts, further


def bash_cases(program: Program, name: str, key: str, *tables: dict[str, list[str]]) -> list[str]:
    """Return a shell function that prints the text of the first pattern that ``key`` matches.

    Each table maps a text to its patterns.
    """
    lines = [f"_{program.name}_{name}() {{", f'    case "{key}" in']
    for cases in tables:
        for text, keys in cases.items():
            lines.append(f"    {' | '.join(keys)}) echo '{text}' ;;")
    return [*lines, "    esac", "}", ""]


# --- zsh ----------------------------------------------------------------------------


def zsh(program: Program) -> str:
    """Return the completion for zsh: the template with a call of ``_arguments`` per command."""
    described = [f"''{zsh_commands([zsh_first(program, word) for word in program.first_words])}"]
    for first, members in program.members.items():
        entries = [(member.name.partition(" ")[2], member.summary) for member in members]
        described.append(f"{first}{zsh_commands(entries)}")
    return template(
        program,
        "zsh",
        LISTS="\n".join(
            f"_{program.name}_{kind}s() {{ _{program.name}_list {words} }}"
            for kind, words in listed(program, '"$line[1]"')
        ),
        COMMANDS="\n".join(f"    {case}" for case in described),
        OPTIONS=" \\\n        ".join(
            zsh_option(program, option) for option in shown(program.options)
        ),
        SIGNALS=signals(),
        CASES="\n".join(zsh_command(program, command) for command in program.commands),
    )


def zsh_first(program: Program, word: str) -> tuple[str, str]:
    """Return a command's first word and its description; that of a group is its commands' names."""
    members = program.members.get(word)
    if members:
        return word, ", ".join(member.name.partition(" ")[2] for member in members)
    return word, next(command.summary for command in program.commands if command.name == word)


def zsh_commands(entries: list[tuple[str, str]]) -> str:
    """Return the rest of a shell case that sets ``commands`` to pairs of name and summary."""
    lines = "".join(f"\n        '{in_zsh(name)}:{in_zsh(text)}'" for name, text in entries)
    return f") commands=({lines}\n        ) ;;"


def zsh_command(program: Program, command: Command) -> str:
    """Return the shell case of a command, which calls ``_arguments``."""
    words = [zsh_option(program, option) for option in shown(command.options)]
    kinds, rest = program.arguments(command)
    if program.runs_another(command):
        # The first argument ends the options.
        words = ["-A '-*'", *words, f"'1: :{zsh_kind(program, kinds[0])}'", "'*:: : '"]
    else:
        words += [f"'{n}: :{zsh_kind(program, kind)}'" for n, kind in enumerate(kinds, 1)]
        words += [f"'*: :{zsh_kind(program, rest)}'"] if rest else []
    body = " \\\n            ".join(["_arguments -s -S", *words])
    return f"    '{command.name}')\n        {body}\n        ;;"


def zsh_kind(program: Program, kind: str) -> str:
    """Return the function that completes values of a kind."""
    return ZSH.get(kind) or f"_{program.name}_{kind}s"


def zsh_option(program: Program, option: Option) -> str:
    """Return the option's specification for ``_arguments``, quoted."""
    name, short, kind, value = option.name, option.short, option.kind, option.value
    rest = f"[{in_zsh(option.help)}]"
    if kind == "choice":
        rest += f":{in_zsh(name)}:({value.replace('|', ' ')})"
    elif kind in ("optional", "joined"):
        rest += f"::{in_zsh(value)}: "
    elif kind != "flag":
        rest += f":{in_zsh(value)}:{zsh_kind(program, completed(program, option))}"
    long = f"--{name}" + {"flag": "", "optional": "=-", "joined": "=-"}.get(kind, "=")
    if kind == "list":
        return " ".join(f"'*{n}{rest}'" for n in (long, *([f"-{short}"] if short else [])))
    if short:
        return f"'(-{short} --{name})'{{-{short},{long}}}'{rest}'"
    return f"'{long}{rest}'"


def in_zsh(text: str) -> str:
    """Escape a description for ``_arguments`` in single quotes."""
    for letter in "\\[]:":
        text = text.replace(letter, "\\" + letter)
    return text.replace("'", "'\\''")


# --- fish ---------------------------------------------------------------------------


def fish(program: Program) -> str:
    """Return the completion for fish: the template, then a line per command, option, argument."""
    valued = [
        in_fish(f"{name}:{spelling}")
        for name, options in tables(program)
        for option in shown(options)
        if takes_a_word(option)
        for spelling in spellings(option)
    ]
    lines = [
        f"set -g __{program.name}_signals {signals()}",
        f"set -g __{program.name}_valued {' '.join(valued)}",
        f"set -g __{program.name}_groups {' '.join(program.members)}".rstrip(),
        "",
    ]
    for word in program.first_words:
        lines.append(fish_word(program, "", *zsh_first(program, word)))
    for first, members in program.members.items():
        lines += [
            fish_word(program, first, member.name.partition(" ")[2], member.summary)
            for member in members
        ]
    for name, options in tables(program):
        lines.append("")
        lines += [fish_option(program, name, option) for option in shown(options)]
    lines.append("")
    for command in program.commands:
        kinds, rest = program.arguments(command)
        positions = [(kind, f"{number}") for number, kind in enumerate(kinds, 1)]
        for kind, position in [*positions, (rest, f"{len(kinds) + 1} more")]:
            if kind:
                condition = in_fish(f'__{program.name}_at "{command.name}" {position}')
                by = fish_kind(program, kind)
                lines.append(f"complete -c {program.name} -n {condition} -a {by}")
    return template(program, "fish", LISTS=fish_lists(program)) + "\n".join(lines) + "\n"


def fish_lists(program: Program) -> str:
    """Return a shell function for each kind of object that the program lists."""
    return "\n".join(
        f"function __{program.name}_{kind}s\n    __{program.name}_list {words}\nend"
        for kind, words in listed(program, f"$__{program.name}_first")
    )


def fish_kind(program: Program, kind: str) -> str:
    """Return the argument for ``complete -a`` that completes values of a kind."""
    if kind == "signal":
        return f'"$__{program.name}_signals"'
    return in_fish(FISH.get(kind) or f"(__{program.name}_{kind}s)")


def fish_word(program: Program, after: str, word: str, text: str) -> str:
    """Return the line that completes ``word`` of a command's name after the word ``after``."""
    condition = in_fish(f'__{program.name}_at "{after}"')
    return f"complete -c {program.name} -n {condition} -a {word} -d {in_fish(text)}"


def fish_option(program: Program, command: str, option: Option) -> str:
    """Return the line that completes an option of a command ("": a global option)."""
    # The words after the first argument may belong to another program.
    another = any(one.name == command and program.runs_another(one) for one in program.commands)
    condition = f'__{program.name}_at "{command}"{" 1" if another else ""}'
    words = [f"complete -c {program.name} -n", in_fish(condition), "-l", option.name]
    if option.short:
        words += ["-s", option.short]
    if option.kind == "choice":
        words += ["-x -a", in_fish(option.value.replace("|", " "))]
    elif takes_a_word(option):
        by = completed(program, option)
        if by == "file":
            words.append("-r -F")
        else:
            words += ["-x", *(["-a", fish_kind(program, by)] if by else [])]
    return " ".join([*words, "-d", in_fish(option.help)])


def in_fish(text: str) -> str:
    """Quote a word for fish."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def main(directory: Path) -> None:
    """Write the completions of every program."""
    for program in PROGRAMS:
        for text, shell in (
            (bash(program), "bash"),
            (zsh(program), "zsh"),
            (fish(program), "fish"),
        ):
            target = directory / SHELLS[shell].format(name=program.name)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
