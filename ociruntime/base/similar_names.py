"""Suggest a similar name for a mistyped one; imported only to format an error message."""

from __future__ import annotations

from collections.abc import Iterable


def closest(word: str, names: Iterable[str]) -> str:
    """Return the name in ``names`` that is most similar to ``word``, or "" if none is similar.

    A name is similar if it begins with ``word`` (two letters or more), or if its edit distance from
    ``word`` is 1 or at most a third of its length.
    """
    best = ""
    fewest = 0
    for name in names:
        distance = 1 if len(word) > 1 and name.startswith(word) else _distance(word, name)
        if distance <= max(1, len(name) // 3) and (not best or distance < fewest):
            best, fewest = name, distance
    return best


def _distance(left: str, right: str) -> int:
    """Return the edit distance of two words, counting a transposition as one edit.

    This is the optimal string alignment distance (restricted Damerau-Levenshtein).
    """
    before: list[int] = []
    above = list(range(len(right) + 1))
    for row, a in enumerate(left, 1):
        current = [row]
        for column, b in enumerate(right, 1):
            cost = min(above[column] + 1, current[column - 1] + 1, above[column - 1] + (a != b))
            if row > 1 and column > 1 and a == right[column - 2] and left[row - 2] == b:
                cost = min(cost, before[column - 2] + 1)
            current.append(cost)
        before, above = above, current
    return above[-1]
