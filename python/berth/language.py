"""Messages in the user's language: English as in the sources, or Chinese from chinese.py, which is loaded only then.

The language is chosen as `berth` chooses it: by the first of LC_ALL, LC_MESSAGES and LANG that is set.
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
    """The sentence in the user's language, with values in place of its braces.

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
    """The number of columns of a text in a terminal; a Chinese character takes two."""
    if shown.isascii():
        return len(shown)
    import unicodedata  # imported only for a Chinese text, and not by `import berth`
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in shown)
