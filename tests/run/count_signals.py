"""Prints "ready", then one line for each signal it receives."""
import os
import signal
import sys

NAMES = sys.argv[1].split(",")


def say(number, frame):
    os.write(1, (signal.Signals(number).name if number in list(signal.Signals) else f"SIG{number}").encode() + b"\n")


for name in NAMES:
    signal.signal(getattr(signal, name) if not name.isdigit() else int(name), say)
# signal.pause() would miss a signal that arrives just before it, until the next one.
woken, wake = os.pipe()
os.set_blocking(wake, False)
signal.set_wakeup_fd(wake)
os.write(1, b"ready\n")
while True:
    os.read(woken, 1)
