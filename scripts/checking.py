"""Code that the check_*.py scripts share: options, the self-test that runs first, and the output of problems.

Exit codes: 0: no problems. 1: problems, one per line. 77: the check cannot run here; the output says why."""
import argparse
import contextlib
import pathlib
import sys
import tempfile

SKIPPED = 77
ROOT = pathlib.Path(__file__).resolve().parent.parent


def skip(why: str):
    print(f"skipped: {why}")
    sys.exit(SKIPPED)


@contextlib.contextmanager
def tree(files: dict[str, str]):
    """Creates a folder with these files, for self-tests."""
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, content in files.items():
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_text(content)
        yield root


def main(doc: str, check, self_test, options=()) -> None:
    """First runs self_test(), which proves that the check can find problems. Then prints the problems that check(arguments) yields."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="the source tree")
    parser.add_argument("--berth", help="the program, where the check asks it")
    for name, settings in options:
        parser.add_argument(name, **settings)
    arguments = parser.parse_args()
    self_test()
    problems = list(check(arguments))
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
