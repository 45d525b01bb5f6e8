"""Recorded machines for tests: a copy of a bundle that can be changed and changed back (docs/bundle.md tells the form)."""
import json
import os
import pathlib
import shutil
import subprocess

BUNDLES = pathlib.Path(__file__).resolve().parent.parent / "bundles"
SERIOUS = ("error", "fatal")


def diagnosis(berth, bundle, **variables):
    done = subprocess.run([berth, "doctor", "--json", "--from", bundle], capture_output=True, text=True, timeout=60,
                          env={**os.environ, "LANG": "C", "LC_ALL": "C", **variables})
    assert done.returncode in (0, 1) and not done.stderr, f"{bundle}: exit code {done.returncode}\n{done.stderr}"
    return json.loads(done.stdout)


def rules(berth):
    """Those about machines and frameworks; rules about files are shown by their rows."""
    listed = json.loads(subprocess.run([berth, "doctor", "--list", "--json"], check=True, capture_output=True).stdout)["rules"]
    return {rule["id"]: rule for rule in listed if rule["layer"] != "source"}


class Machine:
    """`name` copied to `folder`. change() takes the keys of a mutation; undo() takes back every change."""

    def __init__(self, name, folder):
        self.folder = pathlib.Path(folder)
        shutil.copytree(BUNDLES / name, self.folder, symlinks=True, ignore=shutil.ignore_patterns("expect.json"))
        self.kept = self.folder.with_name(self.folder.name + "-kept")
        self.kept.mkdir()
        self.changed = []  # (path, what was there or None, folders made above it)

    def change(self, files={}, nodes={}, variables={}, log=(), driver={}, gpu={}, gpus={}, process={}):
        for path, content in files.items():
            self.put(self.place(path), content)
        if nodes:
            rows = {row["path"]: row for row in map(json.loads, self.lines("nodes.jsonl"))}
            for path, row in nodes.items():
                rows[path] = None if row is None else {"path": path, **rows.get(path, {}), **row}
            self.put(self.folder / "nodes.jsonl", "".join(json.dumps(row) + "\n" for row in rows.values() if row))
        if variables:
            have = dict(line.split("=", 1) for line in self.lines("environment"))
            have.update(variables)
            self.put(self.folder / "environment", "".join(f"{k}={v}\n" for k, v in have.items() if v is not None))
        if log:
            self.put(self.folder / "kernel.log", "".join(line + "\n" for line in [*self.lines("kernel.log"), *log]))
        if driver or gpu or gpus:
            answers = json.loads("\n".join(self.lines("driver.json")) or "{}")
            answers.update(driver)
            for index, one in enumerate(answers.get("gpus") or []):
                one.update({**gpus, **(gpu if index == 0 else {})})
            self.put(self.folder / "driver.json", json.dumps(answers))
        if process:
            self.put(self.folder / "process.json",
                     json.dumps({**json.loads("\n".join(self.lines("process.json")) or "{}"), **process}))

    def undo(self):
        for path, before, made in reversed(self.changed):
            remove(path)
            if before:
                shutil.move(before, path)
            for folder in made:
                folder.rmdir()
        self.changed = []

    def lines(self, name):
        path = self.folder / name
        return [line for line in path.read_text().splitlines() if line] if path.exists() else []

    def place(self, path):
        """Where the recorded machine's `path` lies, its folders' links followed inside of the bundle."""
        at = self.folder / "root"
        for part in pathlib.PurePosixPath(path).parent.parts[1:]:
            at = at / part
            while at.is_symlink():
                target = os.readlink(at)
                at = self.folder / "root" / target.lstrip("/") if target[0] == "/" else at.parent / target
        return pathlib.Path(os.path.normpath(at)) / os.path.basename(path)

    def put(self, path, content):
        """A text, None (not there), {"link": target}, {"bundle": path in tests/bundles} or {"host": path here}."""
        made = []
        for folder in reversed(path.parents):
            if not folder.exists():
                folder.mkdir()
                made.insert(0, folder)
        before = None
        if os.path.lexists(path):
            before = self.kept / str(len(list(self.kept.iterdir())))
            shutil.move(path, before)
        self.changed.append((path, before, made))
        if isinstance(content, str):
            path.write_text(content)
        elif content and "link" in content:
            path.symlink_to(content["link"])
        elif content and "host" in content:
            shutil.copyfile(os.path.realpath(content["host"]), path)
        elif content:
            source = BUNDLES / content["bundle"]
            (shutil.copytree if source.is_dir() else shutil.copyfile)(source, path, **{"symlinks": True} if source.is_dir() else {})


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif os.path.lexists(path):
        path.unlink()
