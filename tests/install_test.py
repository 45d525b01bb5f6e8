#!/usr/bin/env python3
"""Installed into an empty folder, or unpacked from the .deb, `berth` runs from there, and man page and completions are in the right
places."""
import gzip
import pathlib
import shutil
import subprocess
import sys
import tempfile


def check_package(build_folder: str) -> None:
    """What ./dev package makes of the release build; here of the build under test."""
    with tempfile.TemporaryDirectory() as folder:
        subprocess.run(["cpack", "-G", "DEB", "-B", folder], cwd=build_folder, check=True, stdout=subprocess.DEVNULL)
        (package,) = pathlib.Path(folder).glob("berth_*.deb")
        needs = subprocess.run(["dpkg-deb", "-f", package, "Depends"], check=True, capture_output=True, text=True).stdout
        assert [name.split()[0] for name in needs.split(",")] == ["libc6"], needs
        root = pathlib.Path(folder) / "root"
        subprocess.run(["dpkg-deb", "-x", package, root], check=True)
        subprocess.run([root / "usr/bin/berth", "--version"], check=True, stdout=subprocess.DEVNULL)
        for name in ("man/man1/berth.1.gz", "bash-completion/completions/berth", "zsh/vendor-completions/_berth",
                     "doc/berth/pci_names.LICENSE"):
            assert (root / "usr/share" / name).stat().st_size > 0, name
        unit = (root / "usr/lib/systemd/system/berth.service").read_text()
        assert "\nExecStart=/usr/bin/berth serve --system\n" in unit, unit


def main() -> int:
    build_folder = sys.argv[1]
    check_package(build_folder)
    with tempfile.TemporaryDirectory() as folder:
        prefix = pathlib.Path(folder) / "opt"
        subprocess.run(["cmake", "--install", build_folder, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        version = subprocess.run([prefix / "bin/berth", "--version"], check=True, capture_output=True, text=True).stdout
        assert version.startswith("berth "), version
        page = gzip.decompress((prefix / "share/man/man1/berth.1.gz").read_bytes()).decode()
        assert page.startswith(".TH BERTH 1"), page[:80]
        for heading in ("DESCRIPTION", "EXAMPLES", "FILES", "EXIT STATUS"):
            for one in ("berth", "berth-run"):
                said = gzip.decompress((prefix / f"share/man/man1/{one}.1.gz").read_bytes()).decode()
                assert f"\n.SH {heading}\n" in said, (one, heading)
        for name in ("bash-completion/completions/berth", "zsh/site-functions/_berth",
                     "fish/vendor_completions.d/berth.fish", "doc/berth/copyright",
                     "doc/berth/libraries.LICENSE", "doc/berth/docs/json.md"):
            assert (prefix / "share" / name).stat().st_size > 0, name
        if shutil.which("systemd-analyze"):
            unit = prefix / "lib/systemd/system/berth.service"
            said = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60)
            assert said.returncode == 0 and "berth.service" not in said.stderr, said.stderr
    dev = pathlib.Path(__file__).parents[1] / "dev"
    for words in (["/no/such/prefix"], ["--prefix"], ["--prefix="]):  # not into /usr/local, then
        assert subprocess.run([dev, "install", *words], stderr=subprocess.DEVNULL).returncode == 2, words
    return 0


if __name__ == "__main__":
    sys.exit(main())
