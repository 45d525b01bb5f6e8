"""Says "ready", then one line for each signal it gets, "end" on a line of input or at SIGTERM twice."""
import os
import signal
import sys

NAMES = sys.argv[1].split(",")


def say(number, frame):
    os.write(1, (signal.Signals(number).name if number in list(signal.Signals) else f"SIG{number}").encode() + b"\n")


for name in NAMES:
    signal.signal(getattr(signal, name) if not name.isdigit() else int(name), say)
os.write(1, b"ready\n")
while True:
    signal.pause()
