"""A bundle whose process exchanges two directory entries of its root; see exchange.c."""

from __future__ import annotations

from collections.abc import Callable

from tests.support.bundle import Bundle

MakeHostile = Callable[..., Bundle]
