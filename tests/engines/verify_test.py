#!/usr/bin/env python3
"""`berth k8s verify` with a fake kubectl: a pod that runs for longer than it may take to start, sorted events, and a pod that cannot be deleted."""
import json
import os
import subprocess
import sys
import tempfile
import time
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
REPORT = {"schema": 1, "devices": ["GPU-1"], "guard": True, "quota_bytes": 1 << 30, "failure": None, "checks": [{"id": "over", "holds": True}],
          "unknown_functions": []}
KUBECTL = """#!/usr/bin/env python3
import json, os, sys, time
folder = os.path.dirname(os.path.abspath(__file__))
words = sys.argv[2:]
with open(folder + "/calls", "a") as file:
    file.write(json.dumps(words) + "\\n")
with open(folder + "/plan") as file:
    plan = json.load(file)
def phase():
    with open(folder + "/begun") as file:
        age = time.time() - float(file.read())
    return [one["phase"] for one in plan["phases"] if age >= one["from"]][-1]


if words[0] == "create":
    with open(folder + "/begun", "w") as file:
        file.write(str(time.time()))
elif words[:2] == ["get", "pod"]:
    print(json.dumps({"spec": {"nodeName": "n1"}, "status": {"phase": phase()}}))
elif words[:2] == ["get", "node"]:
    print("containerd://2.0.0", end="")
elif words[:2] == ["get", "events"]:
    print("old\\nnew")
elif words[0] == "logs":
    print(plan["log"] if phase() == "Succeeded" else "", end="")
elif words[0] == "delete" and plan.get("stays"):
    sys.exit("Error: no right to delete")
"""


class Verify(unittest.TestCase):
    def verify(self, phases, log="", stays=False):
        made = tempfile.TemporaryDirectory()
        self.addCleanup(made.cleanup)
        with open(made.name + "/kubectl", "w") as file:
            file.write(KUBECTL)
        os.chmod(made.name + "/kubectl", 0o755)
        with open(made.name + "/plan", "w") as file:
            json.dump({"phases": [{"from": begin, "phase": phase} for begin, phase in phases], "log": log, "stays": stays}, file)
        done = subprocess.run([BERTH, "k8s", "verify", "--json", "--image", "i", "--runtime-class", "", "--timeout", "2s"], capture_output=True, text=True,
                              timeout=120, stdin=subprocess.DEVNULL, env={**os.environ, "LANG": "C", "PATH": made.name + ":" + os.environ["PATH"]})
        with open(made.name + "/calls") as file:
            self.calls = [json.loads(line) for line in file]
        return done

    def test_the_test_in_the_pod_may_take_longer_than_its_start(self):
        done = self.verify([(0, "Pending"), (1, "Running"), (5, "Succeeded")], json.dumps(REPORT))
        self.assertEqual((done.returncode, json.loads(done.stdout)["problem"]), (0, None), done.stderr)

    def test_a_pod_that_does_not_start_shows_its_newest_event(self):
        begun = time.monotonic()
        done = self.verify([(0, "Pending")])
        self.assertLess(time.monotonic() - begun, 30)
        said = json.loads(done.stdout)
        self.assertEqual((done.returncode, said["problem"], said["detail"]), (1, "not_started", "new"), done.stderr)
        (events,) = [call for call in self.calls if call[:2] == ["get", "events"]]
        self.assertIn("--sort-by=.metadata.creationTimestamp", events)

    def test_a_pod_that_cannot_be_deleted_is_named(self):
        done = self.verify([(0, "Succeeded")], json.dumps(REPORT), stays=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        (gone,) = [call for call in self.calls if call[0] == "delete"]
        self.assertIn(f"kubectl delete pod {gone[2]}", done.stderr)
        self.assertIn("no right to delete", done.stderr)

    def test_options_are_checked_and_those_of_another_part_refused(self):
        for part, words, named in (("dra", ("--api", "http://10.0.0.1"), "https://"), ("dra", ("--api", "https://a:0"), "https://"),
                                   ("dra", ("--node", "A B"), "name of a node"), ("dra", ("--shares", "0"), "berth k8s dra --shares"),
                                   ("dra", ("--image", "i"), "option of berth k8s verify"), ("device-plugin", ("--node", "n"), "option of berth k8s dra"),
                                   ("device-plugin", ("--cdi", "/x"), "option of berth k8s dra"), ("verify", ("--shares", "2"), "berth k8s devices"),
                                   ("devices", ("--inside",), "option of berth k8s verify"), ("dra", (), "--node, NODE_NAME"),
                                   ("dra", ("--node", "n"), "--api, KUBERNETES_SERVICE_HOST")):
            with self.subTest(part=part, words=words):
                done = subprocess.run([BERTH, "k8s", part, *words], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL,
                                      env={**os.environ, "LANG": "C"})
                self.assertEqual(done.returncode, 2, done.stderr)
                self.assertIn("E1036", done.stderr)
                self.assertIn(named, done.stderr)


if __name__ == "__main__":
    unittest.main()
