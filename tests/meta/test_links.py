"""Links between pages: a link to a file of the project names an existing file."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.support import project

LINK = re.compile(r"\]\((?!https?:|#)([^)#\s]+)")


def test_links_between_pages() -> None:
    lost = [
        f"{project.name_of(page)}: {target}"
        for page in project.with_suffix(".md")
        for target in LINK.findall(page.read_text(encoding="utf-8"))
        if not (page.parent / target).exists()
    ]
    assert lost == []


def test_readme_leads_to_every_page_of_docs() -> None:
    found = set(LINK.findall((project.ROOT / "README.md").read_text(encoding="utf-8")))
    pages = {project.name_of(page) for page in (project.ROOT / "docs").glob("*.md")}
    assert pages - found == set()


# A file, or a folder below those of the project, as pages and docstrings name it.
PATH = re.compile(
    r"(?<![\w./<*-])((?:[\w-]+/)*[\w-]+\.(?:py|c|h|md)"
    r"|(?:ociruntime|csrc|docs|tests|tools|schemas)/[\w./-]+/)(?![\w(./-])"
)
# Paths below which a page or a docstring may leave the first folders out.
TOPS = ["", "ociruntime/", "csrc/", "tests/", "conformance/", "docs/"]
KERNEL = {"include/linux/namei.h", "include/linux/proc_ns.h", "include/uapi/linux/bpf.h"}
PATTERNS = {"cases/SECTION.py"}
FILES = {project.name_of(path) for path in project.files()}
NAMES = {name.rpartition("/")[2] for name in FILES}
FOLDERS = {name[: at + 1] for name in FILES for at, sign in enumerate(name) if sign == "/"}


def is_there(name: str, page: str) -> bool:
    """Return whether the project has a file or folder of this name, relative to ``page``."""
    if "/" not in name:  # a file next to it, or of the specification (config.md)
        return name in NAMES or name.endswith(".md")
    beside = page.rpartition("/")[0] + "/"
    return name in KERNEL | PATTERNS or any(
        top + name in FILES or top + name in FOLDERS for top in [*TOPS, beside]
    )


def test_files_that_pages_name() -> None:
    lost = [
        f"{page}: {name}"
        for path in project.with_suffix(".md")
        for page in [project.name_of(path)]
        for code in re.findall(r"`([^`\n]+)`", path.read_text(encoding="utf-8"))
        for name in PATH.findall(code)
        if not is_there(name, page)
    ]
    assert lost == []


def heads() -> Iterator[tuple[str, str]]:
    """Yield each source file's name and its head: a docstring, or the first comment."""
    for path in project.with_suffix(".py"):
        yield project.name_of(path), ast.get_docstring(ast.parse(path.read_bytes())) or ""
    for path in project.with_suffix(".c", ".h"):
        text = path.read_text(encoding="utf-8")
        yield project.name_of(path), text.partition("*/")[0] if text.startswith("/*") else ""


def test_files_that_heads_name() -> None:
    lost = [
        f"{page}: {name}"
        for page, head in heads()
        for name in PATH.findall(head)
        if not is_there(name, page)
    ]
    assert lost == []


def test_a_stale_path_is_seen() -> None:
    assert not is_there("runtime/lifecycle/gone.py", "docs/architecture.md")
    assert is_there("runtime/lifecycle/create.py", "docs/architecture.md")
