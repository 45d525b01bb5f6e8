#!/usr/bin/env python3
"""From Python: lists the devices and who uses them, and takes a device for this program.

    python3 examples/08_detect.py
"""
import berth

seen = berth.snapshot()
print(seen)
best = max(seen.gpus, key=lambda device: device.memory_free_bytes or 0, default=None)
if best is None:
    print("no GPU here:", seen.driver["message"] or "none is on the bus")
else:
    print(f"most free memory: device {best.index}, {best.name}")

with berth.lease() as lease:  # call this before a framework loads; the environment is restored at the end
    print("this program has:", ", ".join(device["name"] for device in lease.devices) or "the CPU")
