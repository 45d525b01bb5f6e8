#!/usr/bin/env python3
"""Runs `berth` from an empty folder, after an installation and after unpacking the .deb. Man page and completions are in the right places.
C++ programs are built and run from there as docs/cpp.md says."""
import gzip
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile


def check_package(build_folder: str) -> None:
    """Checks the .deb that ./dev package would create, here from the build under test."""
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


def cpp_block(page: str, language: str, words: str) -> str:
    """The block of code that contains these words."""
    (found,) = (block for block in re.findall(rf"```{language}\n(.*?)```", page, re.S) if words in block)
    return found


def check_cpp(prefix: pathlib.Path, folder: pathlib.Path) -> None:
    """Follows docs/cpp.md literally, with this prefix instead of /opt/berth. Uses a simulated machine, because the program needs a GPU."""
    share = prefix / "share/doc/berth"
    page = (share / "docs/cpp.md").read_text()
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("BERTH_", "LD_", "CMAKE_", "PKG_CONFIG", "CUDA_"))}

    def shell(script: str, where: pathlib.Path) -> None:
        subprocess.run(["sh", "-ec", script.replace("/opt/berth", str(prefix))], cwd=where, env=clean, check=True, stdout=subprocess.DEVNULL)

    def on_gpu(*words: object) -> str:
        done = subprocess.run([prefix / "bin/berth", "sim", "--machine", "workstation-4090", "--", *words], env=clean, capture_output=True,
                              text=True, timeout=100)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return done.stdout

    project = folder / "project"
    shutil.copytree(share / "examples/cpp", project)
    shell(cpp_block(page, "sh", "CMAKE_PREFIX_PATH"), project)
    said = on_gpu(project / "build/average")
    for words in ("job 1 has NVIDIA GeForce RTX 4090\n", "average of 1000000 numbers: 2.50\n", "berth  done in "):
        assert words in said, said
    first = cpp_block(page, "cpp", "int main()")
    (folder / "program.cpp").write_text(first)
    if shutil.which("pkg-config"):
        shell(cpp_block(page, "sh", "pkg-config"), folder)
        assert on_gpu(folder / "program") == "NVIDIA GeForce RTX 4090\n"
        flags = subprocess.run(["pkg-config", "--cflags", "--libs", "libberth"], check=True, capture_output=True, text=True,
                               env={**clean, "PKG_CONFIG_PATH": f"{prefix}/lib/pkgconfig"}).stdout.split()
        (folder / "one.c").write_text("#include <berth/berth.h>\nint main(void) { return berth_abi() - BERTH_ABI; }\n")
        subprocess.run(["cc", "-o", folder / "one", folder / "one.c", *flags, f"-Wl,-rpath,{prefix}/lib"], check=True)
        subprocess.run([folder / "one"], env=clean, check=True)
    (folder / "both").mkdir()
    shutil.copy(folder / "one.c", folder / "both") if (folder / "one.c").exists() else None
    (folder / "both/program.cpp").write_text((folder / "program.cpp").read_text())
    (folder / "both/CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.16)\nproject(both LANGUAGES C CXX)\n" + cpp_block(page, "cmake", "find_package").replace(
            "find_package(berth REQUIRED)\n", "find_package(berth 0.1 REQUIRED)\nadd_executable(program program.cpp)\nadd_executable(one one.c)\n"
            "target_link_libraries(one PRIVATE berth::c)\n"))
    moved = prefix.with_name("moved")  # the package must also work after its folder was moved
    prefix.rename(moved)
    try:
        shell(f"cmake -S . -B build -DCMAKE_PREFIX_PATH={moved} && cmake --build build && build/one", folder / "both")
    finally:
        moved.rename(prefix)
    gone = subprocess.run([folder / "both/build/program"], env=clean, capture_output=True, text=True)  # the prefix that it was built for is gone
    assert gone.returncode != 0 and "E0550" in gone.stderr, gone.stderr


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
        check_cpp(prefix, pathlib.Path(folder))
        if shutil.which("systemd-analyze"):
            unit = prefix / "lib/systemd/system/berth.service"
            said = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True, timeout=60)
            assert said.returncode == 0 and "berth.service" not in said.stderr, said.stderr
    dev = pathlib.Path(__file__).parents[1] / "dev"
    for words in (["/no/such/prefix"], ["--prefix"], ["--prefix="]):  # must not fall back to /usr/local
        assert subprocess.run([dev, "install", *words], stderr=subprocess.DEVNULL).returncode == 2, words
    return 0


if __name__ == "__main__":
    sys.exit(main())
