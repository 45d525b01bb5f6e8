"""`python -m berth ls` runs `berth ls`, also if the folder of installed programs is not on PATH."""

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
