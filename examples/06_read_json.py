#!/usr/bin/env python3
"""Reads Berth's JSON in a program: which device has the most free memory? Needs only the standard library.

    python3 examples/06_read_json.py
"""
import json
import subprocess


def free_bytes(device):
    """The free memory, or None. A missing reading is null in JSON and None here; it never counts as 0."""
    total, used = device["memory_total_bytes"], device["memory_used_bytes"]
    return None if total is None or used is None else total - used


answer = json.loads(subprocess.run(["berth", "ls", "--json"], check=True, capture_output=True, text=True).stdout)
known = []
for device in answer["devices"]:
    free = free_bytes(device)
    shown = "unknown" if free is None else f"{free / 2**30:.1f} GiB"
    print(f"{device['index']:3}  {device['kind']:4}  {device['health']:12}  free {shown:>10}  {device['name']}")
    if free is not None:
        known.append((free, device["index"]))
if known:
    print("most free memory: device", max(known)[1])
