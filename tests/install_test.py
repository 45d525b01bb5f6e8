#!/usr/bin/env python3
"""Installed into an empty folder, `berth` runs from there, and man page and completions lie where they are looked for."""
import gzip
import pathlib
import subprocess
import sys
import tempfile


def main() -> int:
    build_folder = sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder) / "opt"
        subprocess.run(["cmake", "--install", build_folder, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        version = subprocess.run([prefix / "bin/berth", "--version"], check=True, capture_output=True, text=True).stdout
        assert version.startswith("berth "), version
        page = gzip.decompress((prefix / "share/man/man1/berth.1.gz").read_bytes()).decode()
        assert page.startswith(".TH BERTH 1"), page[:80]
        for name in ("bash-completion/completions/berth", "zsh/site-functions/_berth",
                     "fish/vendor_completions.d/berth.fish", "doc/berth/copyright",
                     "doc/berth/libraries.LICENSE", "doc/berth/docs/json.md"):
            assert (prefix / "share" / name).stat().st_size > 0, name
    dev = pathlib.Path(__file__).parents[1] / "dev"
    for words in (["/no/such/prefix"], ["--prefix"], ["--prefix="]):  # not into /usr/local, then
        assert subprocess.run([dev, "install", *words], stderr=subprocess.DEVNULL).returncode == 2, words
    return 0


if __name__ == "__main__":
    sys.exit(main())
