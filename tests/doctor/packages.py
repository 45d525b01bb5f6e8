"""Pinned PyPI packages for tests with real ones. They are kept in the user's cache folder (or BERTH_TEST_CACHE) between runs. Without
network and cache, the test reports that and continues without them."""
import hashlib
import os
import pathlib
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent


def cache():
    named = os.environ.get("BERTH_TEST_CACHE")
    return pathlib.Path(named) if named else pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "berth-tests"


def wheels(lock, seconds=200):
    """The folder with the wheels of a lock file in this folder. Prints the reason and returns None if they are not available."""
    lock = HERE / lock
    folder = cache() / f"{lock.stem}-{hashlib.sha256(lock.read_bytes()).hexdigest()[:16]}-{sys.version_info[0]}.{sys.version_info[1]}"
    if (folder / "complete").exists():
        return folder
    if "BERTH_OFFLINE" in os.environ:
        return print(f"skipped: {lock.name}: BERTH_OFFLINE is set, and nothing is kept from before")
    folder.mkdir(parents=True, exist_ok=True)
    try:
        done = subprocess.run([sys.executable, "-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--require-hashes",
                               "--no-deps", "--only-binary", ":all:", "--dest", folder, "-r", lock], capture_output=True, text=True, timeout=seconds)
        said = done.stderr.strip().splitlines()[-1:] or ["pip failed"]
    except (OSError, subprocess.TimeoutExpired) as error:
        done, said = None, [str(error)]
    if done is None or done.returncode:
        return print(f"skipped: {lock.name}: {said[0]}")
    (folder / "complete").touch()
    return folder
