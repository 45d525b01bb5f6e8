"""Messages in the user's language: English as in the sources, or Chinese from chinese.py, which is loaded only then.

The first of LC_ALL, LC_MESSAGES and LANG that is set determines the language, as in the program `berth`.
"""

from __future__ import annotations

import os

__all__ = ["is_chinese", "text", "width"]


def is_chinese() -> bool:
    """Whether the locale is Chinese and can display Chinese text."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        locale = os.environ.get(name)
        if locale:
            _, _, charset = locale.partition(".")
            return locale.startswith("zh") and charset[:4].lower() in ("", "utf-", "utf8")
    return False


def text(english: str, *values: object) -> str:
    """Returns the sentence in the user's language, and inserts the values in place of its braces.

    Examples
    --------
    >>> text("{} GPUs", 2)
    '2 GPUs'
    """
    if is_chinese():
        from .chinese import MESSAGES
        english = MESSAGES.get(english, english)
    return english.format(*values) if values else english


def width(shown: str) -> int:
    """The number of terminal columns that a text needs. A Chinese character needs two."""
    if shown.isascii():
        return len(shown)
    import unicodedata  # imported here, because it is needed only for Chinese texts
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in shown)
