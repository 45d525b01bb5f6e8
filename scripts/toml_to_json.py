#!/usr/bin/env python3
"""Joins TOML files into one JSON document with one key per file, so that the program needs no TOML parser.

usage: toml_to_json.py OUTPUT FILE.toml…
"""
import json
import pathlib
import sys
import tomllib

documents = {pathlib.Path(name).stem: tomllib.loads(pathlib.Path(name).read_text()) for name in sys.argv[2:]}
pathlib.Path(sys.argv[1]).write_text(json.dumps(documents, separators=(",", ":")))
