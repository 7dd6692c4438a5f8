"""The pages lead somewhere: a link to a file of the project names one that is there."""

from __future__ import annotations

import re

import pytest

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


PATH = re.compile(r"`((?:ociruntime|csrc|docs|tests|tools)/[\w./-]+\.(?:py|c|md))`")


@pytest.mark.parametrize("page", ["CONTRIBUTING.md", "docs/architecture.md", "docs/security.md"])
def test_files_that_a_page_names(page: str) -> None:
    named = PATH.findall((project.ROOT / page).read_text(encoding="utf-8"))
    assert named
    assert [name for name in named if not (project.ROOT / name).exists()] == []
