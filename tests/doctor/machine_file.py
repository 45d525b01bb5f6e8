#!/usr/bin/env python3
"""Recorded machines for tests (format: docs/recorded-machine.md): reads NAME.machine, changes it, and writes it as `berth doctor
--record` does. Run as a program, it converts a bundle's folder to a file, or writes the files of machines into FOLDER/NAME.

usage: machine_file.py FOLDER FILE
       machine_file.py --unpack FOLDER FILE...
"""
import atexit
import base64
import functools
import json
import os
import pathlib
import re
import shutil
import sys
import tempfile

HEAD = "berth recorded machine 1"
PARTS = ("expect.json", "redacted.txt", "process.json", "environment", "driver.json", "kernel.log", "probe.json")
LONGEST_LINE = 200
MOST_HEX = 1024
CONTROLS = re.compile(rb"[\x00-\x08\x0b-\x1f\x7f]")
ESCAPED = re.compile(r'\\(x[0-9a-f]{2}|.)')


class Recorded:
    """files: {path: its bytes, or a str for the target of a link}. folders: empty folders. modes: only modes other than 0644. nodes: {path:
    its row}. parts: {name: text}."""

    def __init__(self):
        self.files, self.folders, self.modes, self.nodes, self.parts = {}, set(), {}, {}, {}

    def all_folders(self):
        """Also those of files; "" is the root."""
        found = set(self.folders)
        for path in self.files:
            while path:
                path = path.rpartition("/")[0]
                found.add(path)
        return found

    def lines(self, name):
        return [line for line in self.parts.get(name, "").splitlines() if line]

    def document(self, name):
        return json.loads(self.parts.get(name) or "{}")


def is_utf8(data):
    try:
        data.decode()
        return True
    except UnicodeDecodeError:
        return False


def quoted(data):
    text = data.decode() if is_utf8(data) else data.decode("latin-1")
    plain = is_utf8(data)
    escape = lambda c: ("\\" + c if c in '"\\' else "\\n" if c == "\n" else "\\t" if c == "\t" else
                        f"\\x{ord(c):02x}" if c < " " or c == "\x7f" or (not plain and c >= "\x80") else c)
    return '"' + "".join(map(escape, text)) + '"'


def unquoted(text):
    """Parses a quoted text. Returns its bytes and the rest of the text."""
    end = re.match(r'"((?:[^"\\]|\\.)*)"', text)
    assert end, text
    out = b""
    at = 0
    for one in ESCAPED.finditer(end[1]):
        out += end[1][at:one.start()].encode()
        word = one[1]
        out += {"n": b"\n", "t": b"\t"}.get(word) or (bytes([int(word[1:], 16)]) if len(word) == 3 else word.encode())
        at = one.end()
    return out + end[1][at:].encode(), text[end.end():]


def name_of(path):
    return path if re.fullmatch(r'[^-#"\x00- \x7f-\U0010ffff][^"\x00- \x7f-\U0010ffff]*', path) else quoted(os.fsencode(path))


def block(text, indent):
    last = len(text.rstrip("\n")) - 1
    out, start = "", 0
    while start < len(text):
        end = text.find("\n", start)
        end = len(text) if end < 0 else end
        out += (indent if end > start or last < 0 or start > last else "") + text[start:end] + "\n"
        start = end + 1
    return out


def text_of(data, indent):
    """The text to write after a file's name; None: write it as base64."""
    if not data:
        return "\n"
    is_line = data.find(b"\n") + 1 == len(data)
    if not is_utf8(data) or CONTROLS.search(data):
        is_text = len(data) <= LONGEST_LINE and is_utf8(data) and sum(byte < 32 for byte in data) * 4 < len(data)
        return " = " + quoted(data) + "\n" if is_text or len(data) <= 16 else None
    text = data.decode()
    if is_line and 1 < len(data) <= LONGEST_LINE and text[0] not in '" ' and text[-2] not in " \t":
        return " = " + text
    if data == b"\n":
        return ' = "\\n"\n'
    if b"\n" not in data and len(data) <= LONGEST_LINE:
        return " = " + quoted(data) + "\n"
    return (" |\n" if text.endswith("\n") else " |-\n") + block(text, indent)


def binary(data, indent):
    is_hex = len(data) <= MOST_HEX
    width = 16 if is_hex else 48
    out = f" {'hex' if is_hex else 'base64'} {len(data)}\n"
    for at in range(0, len(data), width):
        row = data[at:at + width]
        if row.strip(b"\0"):
            out += f"{indent}{at:02x}: {row.hex(' ') if is_hex else base64.b64encode(row).decode()}\n"
    return out


def told(machine, path, indent):
    content = machine.files[path]
    if isinstance(content, str):
        return f" -> {name_of(content)}\n"
    mode = f" [{machine.modes[path]:04o}]" if machine.modes.get(path, 0o644) != 0o644 else ""
    return mode + (text_of(content, indent) or binary(content, indent))


def json_lines(text):
    try:
        document = json.loads(text)
    except ValueError:
        return text
    if not isinstance(document, dict) or not document:
        return text
    dump = lambda one: json.dumps(one, ensure_ascii=False, separators=(",", ":"))
    rows = []
    for key, value in document.items():
        many = isinstance(value, list) and value and isinstance(value[0], dict)
        rows.append(f"{dump(key)}: " + ("[\n  " + ",\n  ".join(map(dump, value)) + "]" if many else dump(value)))
    return "{" + ",\n ".join(rows) + "}\n"


def tree_of(machine):
    root = {}
    for path in [*machine.files, *(folder + "/" for folder in machine.folders)]:
        at = root
        *above, name = path[1:].split("/")
        for part in above:
            at = at.setdefault(part, {})
        if name:
            at[name] = path
    return root


def only_entry(folder):
    if len(folder) != 1:
        return "", ""
    (name, below), = folder.items()
    if isinstance(below, str):
        return name, below
    rest, path = only_entry(below)
    return (f"{name}/{rest}", path) if rest else ("", "")


def folder_text(machine, at, folder):
    here, later = [], []
    for name in sorted(folder, key=os.fsencode):
        below = folder[name]
        if isinstance(below, str):
            here.append((name, below))
            continue
        rest, path = only_entry(below)
        if rest:
            here.append((f"{name}/{rest}", path))
        else:
            later.append((name, below))
    out = ""
    if len(here) == 1:
        out = name_of(at + here[0][0]) + told(machine, here[0][1], "  ")
    elif here or (not later and at != "/"):
        out = name_of(at) + "\n" + "".join("  " + name_of(name) + told(machine, path, "    ") for name, path in here)
    return out + "".join(folder_text(machine, f"{at}{name}/", below) for name, below in later)


def nodes_text(nodes):
    out = ""
    folders = {}
    paths = sorted(nodes, key=os.fsencode)
    for index, path in enumerate(paths):
        folder = path[:path.rfind("/") + 1]
        if index and folders and next(reversed(folders))[1] == folder:
            folders[next(reversed(folders))].append(path)
        else:
            folders[index, folder] = [path]
    for (_, folder), inside in folders.items():
        if len(inside) == 1:
            out += name_of(inside[0]) + f" {nodes[inside[0]]}\n"
        else:
            out += name_of(folder) + "\n" + "".join(f"  {name_of(path[len(folder):])} {nodes[path]}\n" for path in inside)
    return out


def part_text(name, text):
    if name.endswith(".json"):
        text = json_lines(text)
    if not text:
        return f"\n{name}\n"
    if text.endswith("\n") and not CONTROLS.search(text.encode()):
        return f"\n{name} |\n" + block(text, "  ")
    return f"\n{name} = {quoted(text.encode())}\n"


def write(machine):
    parts = "".join(part_text(name, machine.parts[name]) for name in PARTS if name in machine.parts)
    return HEAD + "\n" + parts + "\n" + folder_text(machine, "/", tree_of(machine)) + nodes_text(machine.nodes)


class Lines:
    def __init__(self, text):
        self.lines, self.at = text.split("\n"), 0

    def next(self):
        self.at += 1
        return self.lines[self.at - 1]

    def block(self, indent):
        out, empty = "", 0
        for index in range(self.at, len(self.lines)):
            line = self.lines[index]
            if not line:
                empty += 1
                continue
            if line[:indent].strip(" ") or len(line) < indent:
                break
            out += "\n" * empty + line[indent:] + "\n"
            empty, self.at = 0, index + 1
        return out

    def content(self, rest, indent):
        if rest.startswith('= "'):
            return unquoted(rest[2:])[0]
        if rest.startswith("= "):
            return rest[2:].encode() + b"\n"
        if rest in ("|", "|-"):
            return self.block(indent)[:None if rest == "|" else -1].encode()
        if not rest.startswith(("hex ", "base64 ")):
            assert not rest, rest
            return b""
        kind, size = rest.split()
        data = bytearray(int(size))
        for row in self.block(indent).splitlines():
            offset, _, given = row.partition(": ")
            part = bytes.fromhex(given) if kind == "hex" else base64.b64decode(given)
            data[int(offset, 16):int(offset, 16) + len(part)] = part
        return bytes(data)


def name_and_rest(line):
    if line.startswith('"'):
        name, rest = unquoted(line)
        return os.fsdecode(name), rest[1:]
    name, _, rest = line.partition(" ")
    return name, rest


def read_entry(machine, lines, path, rest, indent):
    if rest.startswith(("char ", "block ", "fifo ", "socket ", "file ", "unreadable ")):
        machine.nodes[path] = rest
    elif rest.startswith("-> "):
        machine.files[path] = name_and_rest(rest[3:])[0] if rest[3] == '"' else rest[3:]
    else:
        if rest.startswith("["):
            machine.modes[path] = int(rest[1:5], 8)
            rest = rest[7:]
        machine.files[path] = lines.content(rest, indent)


def read(text):
    """Parses a machine that has no base. Only berth itself combines a machine with its base."""
    lines, machine, folder = Lines(text), Recorded(), ""
    head = lines.next()
    assert head == HEAD, head
    while lines.at < len(lines.lines):
        line = lines.next()
        if not line.strip() or line.strip().startswith("#"):
            continue
        inside = line.startswith("  ")
        name, rest = name_and_rest(line[2:] if inside else line)
        if inside:
            read_entry(machine, lines, folder + name, rest, 4)
        elif not name.startswith("/"):
            assert name in PARTS, f"{name}: no part"
            machine.parts[name] = lines.content(rest, 2).decode()
        elif name.endswith("/"):
            folder = name
            if not lines.lines[lines.at:] or not lines.lines[lines.at].startswith("  "):
                machine.folders.add(name[:-1])
        else:
            read_entry(machine, lines, name, rest, 2)
    return machine


def node_row(row):
    """The text for a row of nodes.jsonl."""
    if "type" not in row:
        return f"unreadable {row['open']}"
    out = row["type"]
    if row["type"] in ("char", "block"):
        out += f" {row.get('major', 0)}:{row.get('minor', 0)}"
    out += f" {int(row.get('mode') or '0', 8) & 0o7777:04o} {row.get('uid', 0)}:{row.get('gid', 0)}"
    out += " empty" if row.get("empty") else ""
    out += f" changed={row['changed']}" if row["type"] == "file" and row.get("changed") else ""
    return out + (f" open={row['open']}" if row.get("open") else "")


def from_folder(folder):
    machine, folder = Recorded(), pathlib.Path(folder)
    for name in PARTS:
        if (folder / name).exists():
            machine.parts[name] = (folder / name).read_text()
    if (folder / "nodes.jsonl").exists():
        for row in map(json.loads, filter(str.strip, (folder / "nodes.jsonl").read_text().splitlines())):
            machine.nodes[row["path"]] = node_row(row)
    root = folder / "root"
    for at, folders, names in os.walk(root):
        here = "/" + os.path.relpath(at, root) if at != str(root) else ""
        if not folders and not names:
            machine.folders.add(here)
        for name in [*names, *(one for one in folders if os.path.islink(os.path.join(at, one)))]:
            path, real = f"{here}/{name}", os.path.join(at, name)
            if os.path.islink(real):
                machine.files[path] = os.readlink(real)
                continue
            machine.files[path] = pathlib.Path(real).read_bytes()
            if os.stat(real).st_mode & 0o100:
                machine.modes[path] = 0o755
    return machine


def row_of(path, told):
    """The reverse of node_row(): a row of nodes.jsonl."""
    kind, *words = told.split()
    if kind == "unreadable":
        return {"path": path, "open": words[0]}
    row = {"path": path, "type": kind}
    if kind in ("char", "block"):
        row["major"], row["minor"] = map(int, words.pop(0).split(":"))
    row["mode"] = words.pop(0)
    row["uid"], row["gid"] = map(int, words.pop(0).split(":"))
    for word in words:
        key, _, value = word.partition("=")
        row[key] = True if key == "empty" else int(value) if key == "changed" else value
    return row


def to_folder(machine, folder):
    """Writes a folder that from_folder() reads. It does not contain the expectation."""
    folder = pathlib.Path(folder)
    files_to_folder(machine, folder / "root")
    for name, text in machine.parts.items():
        if name != "expect.json":
            (folder / name).write_text(text)
    if machine.nodes:
        rows = (json.dumps(row_of(path, told)) + "\n" for path, told in machine.nodes.items())
        (folder / "nodes.jsonl").write_text("".join(rows))


def files_to_folder(machine, root):
    root = pathlib.Path(root)
    root.mkdir(parents=True)
    for path in machine.folders:
        (root / path.lstrip("/")).mkdir(parents=True, exist_ok=True)
    for path, content in machine.files.items():
        at = root / path.lstrip("/")
        at.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, str):
            at.symlink_to(content)
        else:
            at.write_bytes(content)
            at.chmod(machine.modes.get(path, 0o644))


@functools.cache
def unpacked(name):
    """The root folder of tests/data/machines/NAME.machine. It is removed at exit."""
    folder = tempfile.mkdtemp(prefix="berth-machine-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    file = pathlib.Path(__file__).parent.parent / f"data/machines/{name}.machine"
    files_to_folder(read(file.read_text()), folder + "/root")
    return folder + "/root"


def unpack_all(folder, files):
    shutil.rmtree(folder, ignore_errors=True)
    for file in map(pathlib.Path, files):
        files_to_folder(read(file.read_text()), pathlib.Path(folder) / file.stem)


if __name__ == "__main__":
    if len(sys.argv) > 3 and sys.argv[1] == "--unpack":
        sys.exit(unpack_all(sys.argv[2], sys.argv[3:]))
    if len(sys.argv) != 3:
        sys.exit(__doc__.split("\n\n")[1])
    pathlib.Path(sys.argv[2]).write_text(write(from_folder(sys.argv[1])))
