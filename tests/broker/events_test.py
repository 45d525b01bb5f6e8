#!/usr/bin/env python3
"""Server-sent events of the broker on a simulated machine: every change once and in order, and a slow listener delays nobody.

usage: events_test.py BERTH
"""
import json
import socket
import sys
import time
import unittest

from machine import Machine, wait_until


class Listener:
    def __init__(self, path, receive=None):
        self.socket = socket.socket(socket.AF_UNIX)
        if receive:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
        self.socket.settimeout(20)
        self.socket.connect(path)
        self.socket.sendall(b"GET /v1/events HTTP/1.1\r\nHost: berth\r\n\r\n")
        self.bytes = b""

    def head(self):
        return self.until(b"\r\n\r\n").decode()

    def until(self, end):
        while end not in self.bytes:
            more = self.socket.recv(65536)
            if not more:
                raise EOFError
            self.bytes += more
        said, self.bytes = self.bytes.split(end, 1)
        return said

    def event(self):
        """Returns (kind, data) of the next event; skips comments."""
        while True:
            fields = dict(line.split(": ", 1) for line in self.until(b"\n\n").decode().splitlines() if not line.startswith(":"))
            if fields:
                return fields["event"], json.loads(fields["data"])

    def close(self):
        self.socket.close()


class Events(Machine):
    def listen(self, **more):
        listener = Listener(self.variables["BERTH_RUNTIME_DIR"] + "/berth.sock", **more)
        self.addCleanup(listener.close)
        return listener

    def queue(self, *words):
        return json.loads(self.run_berth("run", "--json", "--queue", *words).stdout)

    def test_a_listener_hears_what_is_there_and_then_every_change(self):
        first = self.queue("--gpus", "4", "--", "sleep", "1000")["job"]["id"]
        listener = self.listen()
        head = listener.head()
        self.assertIn("200 OK", head)
        self.assertIn("text/event-stream", head)
        kind, data = listener.event()
        self.assertEqual((kind, data["job"]["id"], data["job"]["state"]), ("job", first, "running"))
        self.assertEqual(listener.event()[0], "ready")
        second = self.queue("--gpus", "1", "--", "sh", "-c", "exit 3")["job"]["id"]
        self.assertEqual(self.run_berth("cancel", str(first)).returncode, 0)
        told = []
        while not told or told[-1] != (second, "failed"):
            kind, data = listener.event()
            told.append((data["job"]["id"], data["job"]["state"]))
        # A cancelled job is reported as a change, too.
        self.assertEqual([state for id, state in told if id == first], ["running", "cancelled"])
        self.assertEqual([state for id, state in told if id == second], ["waiting", "running", "failed"])

    def test_a_listener_that_does_not_read_is_dropped_and_nobody_waits_for_it(self):
        self.queue("--cpu", "--", "true")
        slow = self.listen(receive=1)
        for _ in range(12):
            array = self.queue("--gpus", "4", "--array", "1-200", "--", "true")["array"]
            begun = time.monotonic()
            self.assertEqual(self.run_berth("cancel", str(array)).returncode, 0)
            self.assertLess(time.monotonic() - begun, 10)

        def is_dropped():
            try:
                return not slow.socket.recv(1 << 20)
            except ConnectionResetError:
                return True
        self.assertTrue(wait_until(is_dropped))


Machine.berth = sys.argv.pop(1)
unittest.main()
