"""What people read, in their language: English as it stands in the sources, or the Chinese of chinese.py, which is loaded when it is needed.

The language is chosen as `berth` chooses it: by the first of LC_ALL, LC_MESSAGES and LANG that is set."""

from __future__ import annotations

import os

__all__ = ["is_chinese", "text", "width"]


def is_chinese() -> bool:
    """A Chinese locale that can show it."""
    for name in ("LC_ALL", "LC_MESSAGES", "LANG"):
        locale = os.environ.get(name)
        if locale:
            _, _, charset = locale.partition(".")
            return locale.startswith("zh") and charset[:4].lower() in ("", "utf-", "utf8")
    return False


def text(english: str, *values: object) -> str:
    """The sentence, with values in place of its braces.

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
    """Of a terminal's columns: a Chinese character has two."""
    if shown.isascii():
        return len(shown)
    import unicodedata  # at the first Chinese, not with `import berth`
    return sum(2 if unicodedata.east_asian_width(one) in "WF" else 1 for one in shown)
