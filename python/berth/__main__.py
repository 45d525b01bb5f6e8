"""Makes `python -m berth ls` run the program `berth ls`, even if the folder where pip installed the program is not in PATH."""

from __future__ import annotations

import os
import sys

from .errors import BerthError
from .running import program


def main() -> None:
    try:
        path = program()
    except BerthError as problem:
        raise SystemExit(str(problem)) from None
    os.execv(path, ["berth", *sys.argv[1:]])


if __name__ == "__main__":
    main()
