"""Templates of ``--format``: parse and render a subset of Go's text/template.

    render(parse("{{range .Mounts}}{{.Source}} {{end}}"), document)

The subset contains fields, variables, pipelines, ``if``, ``range``, ``with`` (each with ``else``),
``break``, ``continue``, comments and trim markers; ``template_functions.py`` defines the functions.
``define``, ``block`` and ``template`` are not supported.

Case, underscores and dashes in field names are ignored: ``ExitCode`` is the same as ``exit_code``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from ociruntime.base.errors import UsageError
from ociruntime.manager.client.template_functions import (
    FUNCTIONS,
    Keys,
    Safe,
    Shape,
    WrongArgument,
    displayed,
)

_DEEPEST = 50  # levels of parentheses and blocks
_NAME = r"[^\W\d][\w-]*"
_TOKEN = re.compile(
    rf"""
    (?P<space>\s+)
  | (?P<string>"(?:\\.|[^"\\\n])*"|`[^`]*`)
  | (?P<char>'(?:\\.|[^'\\\n])+')
  | (?P<number>[+-]?\d[\w.]*)
  | (?P<variable>\$\w*(?:\.{_NAME})*)
  | (?P<fields>(?:\.{_NAME})+)
  | (?P<dot>\.)
  | (?P<word>{_NAME})
  | (?P<close>\)(?:\.{_NAME})*)
  | (?P<sign>:=|=|\||\(|,)
    """,
    re.VERBOSE,
)
_COMMENT = re.compile(r"\s*/\*.*?\*/", re.DOTALL)
_LEFT_TRIM = re.compile(r"-(?=\s)")
_END = re.compile(r"(?:(?<=\s)-)?\}\}")
_ESCAPE = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|U[0-9a-fA-F]{8}|[0-7]{3}|.)")
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_CONSTANTS = {"true": True, "false": False, "nil": None}
_LOGIC = ("and", "or")  # functions that may not evaluate all of their arguments
_REFUSED = ("define", "block", "template")


# --- the parsed template ---


@dataclass
class Call:
    """A parsed command of a pipeline: an operand, or a function or method with its arguments.

    ``at`` is the command's offset in the template.  ``kind`` is "value" for a constant, "fields"
    for fields of the dot, "variable", "pipe" for a pipeline in parentheses, or "function".
    """

    at: int
    kind: str
    value: Any = None
    names: list[str] = field(default_factory=list)  # names of fields to look up in the operand
    args: list[Call] = field(default_factory=list)


@dataclass
class Pipe:
    """A parsed pipeline: its commands, and the variables that its result is assigned to."""

    calls: list[Call]
    variables: list[str] = field(default_factory=list)
    declares: bool = False


@dataclass
class Block:
    """A parsed ``if``, ``range`` or ``with`` block, or an action that prints (kind "print")."""

    kind: str
    at: int
    pipe: Pipe
    body: list[Node] = field(default_factory=list)
    otherwise: list[Node] = field(default_factory=list)


@dataclass
class Leap:
    """A parsed ``break`` or ``continue``."""

    kind: str


Node = str | Block | Leap


def parse(text: str, *, escapes: bool = False) -> list[Node]:
    r"""Parse a Go template.  Raises UsageError with the position of a syntax error.

    With ``escapes``, ``\t`` and ``\n`` outside of actions are a tab and a line break.
    """
    return _Parser(text, escapes=escapes).template()


class _Parser:
    def __init__(self, text: str, *, escapes: bool) -> None:
        self._text = text
        self._escapes = escapes
        self._at = 0  # offset in the text
        self._tokens: list[tuple[str, str, int]] = []  # (kind, text, offset) in the current action
        self._trimmed = False  # the latest action ended with a trim marker
        self._loops = 0  # number of enclosing ``range`` blocks
        self._depth = 0

    def template(self) -> list[Node]:
        nodes, end = self._nodes()
        if end:
            raise self._error(self._start, f'unexpected "{end}"')
        return nodes

    def _error(self, at: int, message: str, hint: str = "") -> UsageError:
        return failure(at, message, hint)

    # --- text and actions ---

    def _nodes(self) -> tuple[list[Node], str]:
        """Parse nodes up to the ``end`` or ``else`` of the current block, or the end of the text.

        Returns (nodes, "end" or "else" or "").  After "else", ``_tokens`` contains the rest of the
        action, such as ``if`` and its pipeline.
        """
        nodes: list[Node] = []
        while True:
            begin = self._text.find("{{", self._at)
            literal = self._text[self._at : begin if begin >= 0 else None]
            if self._trimmed:
                literal = literal.lstrip()
            if begin < 0:
                nodes += [self._literal(literal)] if literal else []
                self._at, self._trimmed = len(self._text), False
                return nodes, ""
            self._start = begin
            if _LEFT_TRIM.match(self._text, begin + 2):
                literal = literal.rstrip()
            nodes += [self._literal(literal)] if literal else []
            if not self._read_action(begin):
                continue  # a comment
            kind, word, at = self._tokens[0]
            if kind == "word" and word in ("end", "else"):
                self._tokens.pop(0)
                return nodes, word
            nodes.append(self._action(kind, word, at))

    def _literal(self, text: str) -> str:
        return text.replace("\\t", "\t").replace("\\n", "\n") if self._escapes else text

    def _read_action(self, begin: int) -> bool:
        """Read the action at offset ``begin`` into ``_tokens``; return False for a comment."""
        at = begin + 2
        at += _LEFT_TRIM.match(self._text, at) is not None
        self._tokens = []
        comment = _COMMENT.match(self._text, at)
        at = comment.end() if comment else at
        while True:
            if end := _END.match(self._text, at):
                self._at, self._trimmed = end.end(), end[0].startswith("-")
                if not comment and not self._tokens:
                    raise self._error(begin, "the action is empty")
                return comment is None
            token = _TOKEN.match(self._text, at)
            if token is None or (comment and token.lastgroup != "space"):
                if at >= len(self._text):
                    raise self._error(begin, "the action is not closed", "add }}")
                raise self._error(at, f'unexpected "{self._text[at]}"')
            if token.lastgroup != "space":
                self._tokens.append((str(token.lastgroup), token[0], at))
            at = token.end()

    def _action(self, kind: str, word: str, at: int) -> Node:
        if kind == "word" and word in ("if", "with", "range"):
            self._tokens.pop(0)
            return self._block(word, at)
        if kind == "word" and word in ("break", "continue"):
            self._tokens.pop(0)
            self._finish()
            if not self._loops:
                raise self._error(at, f'"{word}" is outside of a range block')
            return Leap(word)
        if kind == "word" and word in _REFUSED:
            raise self._error(at, f'"{word}" is not supported')
        pipe = self._pipe()
        self._finish()
        return Block("print", at, pipe)

    def _block(self, kind: str, at: int) -> Block:
        self._deeper(at)
        block = Block(kind, at, self._pipe(several=kind == "range"))
        self._finish()
        self._loops += kind == "range"
        block.body, end = self._nodes()
        self._loops -= kind == "range"
        if end == "else" and self._tokens:
            # ``else if`` is an ``if`` block in the ``else``; both have the same ``end``.
            _, word, next_at = self._tokens.pop(0)
            if word not in ("if", "with") or kind == "range":
                raise self._error(next_at, f'unexpected "{word}"')
            block.otherwise = [self._block(word, next_at)]
            self._depth -= 1
            return block
        if end == "else":
            block.otherwise, end = self._nodes()
        if end != "end":
            raise self._error(at, f'"{kind}" has no matching "end"', "add {{end}}")
        self._finish()
        self._depth -= 1
        return block

    def _deeper(self, at: int) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise self._error(at, "the template is nested too deeply")

    def _finish(self) -> None:
        if self._tokens:
            _, word, at = self._tokens[0]
            raise self._error(at, f'unexpected "{word}"')

    # --- pipelines ---

    def _pipe(self, *, several: bool = False) -> Pipe:
        variables, declares = self._variables(several=several)
        calls = [self._call()]
        while self._tokens and self._tokens[0][1] == "|":
            self._tokens.pop(0)
            call = self._call()
            if call.kind == "value":
                raise self._error(call.at, "a constant cannot take the result of a pipeline")
            calls.append(call)
        return Pipe(calls, variables, declares)

    def _variables(self, *, several: bool) -> tuple[list[str], bool]:
        """Parse the variables that a pipeline is assigned to, such as ``$key, $value :=``.

        Returns (names of the variables, whether they are declared with ``:=``), or ([], False) if
        the pipeline is not assigned to a variable.
        """
        signs = [token[1] for token in self._tokens[:4]]
        count = 1 if signs[1:2] in ([":="], ["="]) else 0
        if several and signs[1:2] == [","] and signs[3:4] in ([":="], ["="]):
            count = 2
        names = []
        for kind, word, at in self._tokens[: 2 * count : 2]:
            if kind != "variable" or word == "$" or "." in word:
                raise self._error(at, f'"{word}" is not a variable')
            names.append(word)
        if not count:
            return [], False
        declares = signs[2 * count - 1] == ":="
        del self._tokens[: 2 * count]
        return names, declares

    def _call(self) -> Call:
        operands = []
        while self._tokens and not (
            self._tokens[0][1] == "|" or self._tokens[0][0] == "close" or self._tokens[0][1] == ","
        ):
            operands.append(self._operand())
        if not operands:
            at = self._tokens[0][2] if self._tokens else self._start
            raise self._error(at, "a field, variable, constant or function is missing")
        first, rest = operands[0], operands[1:]
        if rest and first.kind == "value":
            raise self._error(rest[0].at, "a constant takes no arguments")
        first.args = rest
        return first

    def _operand(self) -> Call:
        kind, word, at = self._tokens.pop(0)
        if kind == "string":
            return Call(at, "value", Safe(word[1:-1] if word[0] == "`" else self._string(word, at)))
        if kind == "char":
            letter = self._string(word, at)
            if len(letter) != 1:
                raise self._error(at, f"invalid character {word}")
            return Call(at, "value", ord(letter))
        if kind == "number":
            return Call(at, "value", self._number(word, at))
        if kind == "dot":
            return Call(at, "fields")
        if kind == "fields":
            return Call(at, "fields", names=word[1:].split("."))
        if kind == "variable":
            name, *names = word.split(".")
            return Call(at, "variable", name, names)
        if kind == "word" and word in _CONSTANTS:
            return Call(at, "value", _CONSTANTS[word])
        if kind == "word":
            known = sorted((*FUNCTIONS, *_LOGIC))
            if word not in known:
                hint = f"fields begin with a dot; functions: {', '.join(known)}"
                raise self._error(at, f'unknown function "{word}"', hint)
            return Call(at, "function", word)
        if word == "(":
            return self._parenthesis(at)
        raise self._error(at, f'unexpected "{word}"')

    def _parenthesis(self, at: int) -> Call:
        self._deeper(at)
        pipe = self._pipe()
        if not self._tokens or self._tokens[0][0] != "close":
            raise self._error(at, "the parenthesis is not closed")
        _, word, _ = self._tokens.pop(0)
        self._depth -= 1
        return Call(at, "pipe", pipe, word.split(".")[1:])

    def _string(self, word: str, at: int) -> str:
        def character(escape: re.Match[str]) -> str:
            code = escape[1]
            if code[0] in "xuU" and len(code) > 1:
                return chr(int(code[1:], 16))
            if code.isdigit() and len(code) == 3:
                return chr(int(code, 8))
            if code in _LETTERS or code in "\\'\"":
                return _LETTERS.get(code, code)
            raise self._error(at, f"invalid escape \\{code}")

        try:
            return _ESCAPE.sub(character, word[1:-1])
        except (ValueError, OverflowError):
            raise self._error(at, f"invalid string {word}") from None

    def _number(self, word: str, at: int) -> int | float:
        try:
            return int(word, 0)
        except ValueError:
            pass
        try:
            return float(word)
        except ValueError:
            raise self._error(at, f'invalid number "{word}"') from None


def failure(at: int, message: str, hint: str = "") -> UsageError:
    """Return a UsageError that names the position of the character at offset ``at``."""
    return UsageError(f"--format: character {at + 1}: {message}", hint)


# --- rendering ---


class _Leaving(Exception):
    """An exception that ``break`` and ``continue`` raise to leave the body of a ``range``."""

    def __init__(self, kind: str) -> None:
        super().__init__(kind)
        self.kind = kind


def render(
    nodes: Sequence[Node],
    dot: object,
    functions: Mapping[str, Callable[..., object]] = FUNCTIONS,
) -> str:
    """Return the output of a parsed template with the data ``dot``.

    Control characters in text from ``dot`` are escaped.  Raises UsageError with the position of an
    error in the template, such as an unknown field.
    """
    run = _Run(dot, functions)
    run.nodes(nodes, dot)
    return "".join(run.output)


class _Run:
    def __init__(self, dot: object, functions: Mapping[str, Callable[..., object]]) -> None:
        self.output: list[str] = []
        self._functions = functions
        self._scopes: list[dict[str, object]] = [{"$": dot}]

    def nodes(self, nodes: Sequence[Node], dot: object) -> None:
        for node in nodes:
            if isinstance(node, str):
                self.output.append(node)
            elif isinstance(node, Leap):
                raise _Leaving(node.kind)
            elif node.kind == "print":
                value = self._pipe(node.pipe, dot)
                if not node.pipe.variables:
                    self.output.append(displayed(value))
            else:
                with self._scope():
                    self._block(node, dot)

    @contextmanager
    def _scope(self) -> Iterator[None]:
        self._scopes.append({})
        try:
            yield
        finally:
            self._scopes.pop()

    def _block(self, block: Block, dot: object) -> None:
        if block.kind == "range":
            self._range(block, dot)
            return
        value = self._pipe(block.pipe, dot)
        if value:
            self.nodes(block.body, value if block.kind == "with" else dot)
        else:
            self.nodes(block.otherwise, dot)

    def _range(self, block: Block, dot: object) -> None:
        pipe = block.pipe
        value = self._pipe(Pipe(pipe.calls), dot)
        if isinstance(value, dict):
            pairs: list[tuple[object, object]] = sorted(value.items())
        elif isinstance(value, list | tuple):
            pairs = list(enumerate(value))
        elif value is None or value == "":
            pairs = []
        else:
            raise failure(block.at, f'range: cannot iterate over "{displayed(value)}"')
        for pair in pairs:
            with self._scope():
                values = pair if len(pipe.variables) == 2 else pair[1:]
                for name, one in zip(pipe.variables, values, strict=False):
                    self._assign(name, one, block.at, declares=pipe.declares)
                try:
                    self.nodes(block.body, pair[1])
                except _Leaving as leaving:
                    if leaving.kind == "break":
                        break
        if not pairs:
            self.nodes(block.otherwise, dot)

    def _assign(self, name: str, value: object, at: int, *, declares: bool) -> None:
        if declares:
            self._scopes[-1][name] = value
            return
        for scope in reversed(self._scopes):
            if name in scope:
                scope[name] = value
                return
        raise failure(at, f'undefined variable "{name}"')

    def _pipe(self, pipe: Pipe, dot: object) -> object:
        first, *rest = pipe.calls
        value = self._call(first, dot, ())
        for call in rest:
            value = self._call(call, dot, (value,))
        for name in pipe.variables:
            self._assign(name, value, first.at, declares=pipe.declares)
        return value

    def _call(self, call: Call, dot: object, more: tuple[object, ...]) -> object:
        """Return the value of ``call``, a command of a pipeline.

        ``more`` contains the result of the previous command of the pipeline, if there is one.
        """
        if call.kind == "function":
            if call.value in _LOGIC:
                return self._logic(call, dot, more)
            args = [*(self._call(arg, dot, ()) for arg in call.args), *more]
            return self._applied(call, self._functions[call.value], args)
        if call.kind == "value":
            return call.value
        if call.kind == "variable":
            value = self._variable(call)
        else:
            value = dot if call.kind == "fields" else self._pipe(call.value, dot)
        value = self._walk(value, call)
        args = [*(self._call(arg, dot, ()) for arg in call.args), *more]
        if callable(value):
            return self._applied(call, value, args)
        if args:
            raise failure(call.at, f'"{".".join(call.names) or "."}" takes no arguments')
        return value

    def _logic(self, call: Call, dot: object, more: tuple[object, ...]) -> object:
        """Return the value of ``and`` or ``or``: the first argument that decides, or the last."""
        if not call.args and not more:
            raise failure(call.at, f"{call.value}: wrong number of arguments")
        value: object = None
        for arg in call.args:
            value = self._call(arg, dot, ())
            if bool(value) == (call.value == "or"):
                return value
        return more[0] if more else value

    def _applied(
        self, call: Call, function: Callable[..., object], args: Sequence[object]
    ) -> object:
        name = call.value if call.kind == "function" else ".".join(call.names)
        try:
            return function(*args)
        except WrongArgument as error:
            raise failure(call.at, f"{name}: {error}") from None
        except TypeError:
            raise failure(call.at, f"{name}: wrong number or type of arguments") from None

    def _variable(self, call: Call) -> object:
        for scope in reversed(self._scopes):
            if call.value in scope:
                return scope[call.value]
        raise failure(call.at, f'undefined variable "{call.value}"')

    def _walk(self, value: object, call: Call) -> object:
        for index, name in enumerate(call.names):
            rest = ".".join(call.names[index:])
            if isinstance(value, Keys) and rest in value:  # keys that users choose may contain dots
                return value[rest]
            try:
                value = member(value, name)
            except KeyError:
                known = ", ".join(sorted(value)) if isinstance(value, dict) else ""
                hint = f"available: {known}" if known else ""
                raise failure(call.at, f'unknown field "{".".join(call.names)}"', hint) from None
        return value


def member(value: object, name: str) -> object:
    """Return the member ``name`` of an object; "" if a key of ``Keys`` is missing.

    Raises KeyError if any other object has no such member.
    """
    tables: list[dict[str, Any]] = [value] if isinstance(value, dict) else []
    if isinstance(value, Shape):
        tables += [value.own, value.methods]
    for table in tables:
        if name in table:
            return table[name]
    for table in tables:
        for key in table:
            if plain_name(key) == plain_name(name):
                return table[key]
    if isinstance(value, Keys):
        return ""
    raise KeyError(name)


def plain_name(name: str) -> str:
    """Return a field name in lower case, without underscores and dashes."""
    return name.replace("_", "").replace("-", "").lower()
