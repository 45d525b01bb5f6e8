#!/usr/bin/env python3
"""`berth --version` shows the commit: git's, with "+" if files were changed; in a source tarball the recorded one; otherwise none. The
file is written only if the revision changed, to avoid needless rebuilds."""
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent


def git(root, *words):
    settings = ["-c", "user.name=a", "-c", "user.email=a@localhost", "-c", "commit.gpgsign=false"]
    return subprocess.run(["git", *settings, *words], cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def version(root) -> str:
    target = root / "out.cpp"
    subprocess.run(["cmake", f"-DSOURCE_DIR={root}", f"-DVERSION_CPP={target}", "-P", ROOT / "cmake/BerthRevision.cmake"],
                   check=True, stdout=subprocess.DEVNULL)
    return target.read_text().split('"')[1]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        (root / "cmake").mkdir()
        (root / "src/cli").mkdir(parents=True)
        (root / "src/cli/version.cpp.in").write_text('"@BERTH_REVISION@"')
        revision = root / "cmake/revision.txt"
        revision.write_text((ROOT / "cmake/revision.txt").read_text())
        assert version(root) == "no revision", "an unknown revision must be called so"
        revision.write_text("0123abcd\n")
        assert version(root) == "0123abcd", "a tarball's revision is not shown"
        git(root, "init", "-q")
        (root / ".gitignore").write_text("out.cpp\n")
        git(root, "add", "-A")
        git(root, "commit", "-qm", "one")
        first = git(root, "rev-parse", "HEAD")
        assert first.startswith(version(root)), "git's revision is not shown"
        written = (root / "out.cpp").stat().st_mtime_ns
        version(root)
        assert (root / "out.cpp").stat().st_mtime_ns == written, "written although nothing changed"
        revision.write_text("changed\n")
        assert version(root).endswith("+"), "changed files are not shown"
        git(root, "commit", "-qam", "two")
        assert not first.startswith(version(root)), "a commit is not seen"
    return 0


if __name__ == "__main__":
    sys.exit(main())
