#!/usr/bin/env python3
"""Writes each line of a .jsonl file, a JSON string with one character per byte, to a file of its own, because libFuzzer reads folders.

usage: unpack_seeds.py FILE.jsonl FOLDER
"""
import json
import pathlib
import shutil
import sys

lines = pathlib.Path(sys.argv[1]).read_text().splitlines()
folder = pathlib.Path(sys.argv[2])
shutil.rmtree(folder, ignore_errors=True)
folder.mkdir(parents=True)
for number, line in enumerate(lines, 1):
    (folder / f"{number:04}").write_bytes(json.loads(line).encode("latin-1"))
