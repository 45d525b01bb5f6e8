#!/usr/bin/env python3
"""GPUs of a node go from Berth's own queue to Kubernetes and back, with a fake kubelet over real gRPC. Needs root, as the commands do.

usage: k8s_lend_test.py BERTH
"""
import contextlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "../broker")]
import kubelet_bed  # noqa: E402
from machine import Client, Machine, wait_until  # noqa: E402

Machine.berth = BERTH
WALK = 1000 if os.environ.get("BERTH_SOAK") else 40
WHY_NOT = kubelet_bed.MISSING or ("" if os.path.exists(os.path.join(os.path.dirname(BERTH), "berth-k8s")) else "berth-k8s was not built: no gRPC") or (
    "" if os.geteuid() == 0 else "only root may move the GPUs of all users")
if WHY_NOT:
    print("skipped: " + WHY_NOT)
    sys.exit(77)


class Lend(Machine):
    def setUp(self):
        super().setUp()
        self.kubelet = kubelet_bed.Kubelet()
        self.addCleanup(self.kubelet.__exit__)
        self.kubelet.start()
        self.state = str(self.folder / "state")
        self.devices = [one["uuid"] for one in json.loads(self.says("ls", "--json"))["devices"] if one["kind"] == "gpu"]

    def says(self, *words, code=0):
        done = self.run_berth(*words)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def words(self, word, *more):
        return ["k8s", word, "--state", self.state, "--kubelet", self.kubelet.root, "--interval", "100ms", *more]

    def move(self, word, *more, code=0):
        return self.says(*self.words(word, *more), code=code)

    def begin(self, interval="200ms"):
        """Starts the device plugin, and returns what the kubelet calls it by. `interval`: how old its view of the GPUs may be."""
        count = len(self.kubelet.registered) + 1
        self.process = subprocess.Popen(
            [BERTH, "k8s", "device-plugin", "--kubelet", self.kubelet.folder, "--state", self.state, "--interval", interval],
            env=self.variables, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
        self.addCleanup(self.end, self.process)
        plugin = self.kubelet.plugin(self.kubelet.wait_for(count).endpoint)
        self.addCleanup(plugin.close)
        return plugin

    def end(self, process):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()

    def health(self, plugin, wanted):
        """Waits until the plugin reports this for each GPU."""
        for devices in plugin.watch():
            if [devices[one] == "Healthy" for one in self.devices] == wanted:
                return
        self.fail("the list ended")

    def queue(self, *words):
        return self.says("run", "--queue", *words).strip()

    def test_a_gpu_comes_back_when_its_pod_has_ended_and_goes_when_its_job_has(self):
        plugin = self.begin()
        self.assertIn("Kubernetes may start jobs on the GPUs", self.move("reclaim", "--devices", "1,2,3") + self.move("lend"))
        self.assertIn("lent to Kubernetes: GPU 0, 1, 2, 3 (to get them back: sudo berth k8s reclaim)", self.says("jobs"))
        self.assertIn("Kubernetes already has these GPUs", self.move("lend"))
        self.assertTrue(self.kubelet.run("train", plugin, self.devices[0]))
        self.assertIn("Berth's queue may start jobs on the GPUs", self.move("reclaim", "--devices", "1"))
        late = self.move("reclaim", "--devices", "0", "--timeout", "1s", code=4)
        self.assertIn("pods of Kubernetes: default/train", late)
        self.assertIn("E1016", late)
        self.health(plugin, [False, False, True, True])
        self.assertIn("own queue", self.says("k8s", "devices", "--state", self.state))
        self.assertFalse(self.kubelet.run("other", plugin, self.devices[0]), "nor any new pod")
        job = self.queue("--gpus", "1", "--", "sleep", "1000")
        self.assertTrue(wait_until(lambda: "running" in self.says("jobs")))
        self.assertEqual(self.call("GET", f"/v1/jobs/{job}")["job"]["devices"][0]["uuid"], self.devices[1])
        self.assertIn(f"job {job} of root", self.move("lend", "--timeout", "100ms", code=4))
        self.assertFalse(self.kubelet.run("other", plugin, self.devices[1]))
        self.says("cancel", job)
        self.move("lend")
        self.health(plugin, [True] * 4)
        self.kubelet.finish("train")
        self.move("reclaim")
        self.health(plugin, [False] * 4)
        self.assertNotIn("lent", self.says("jobs"))

    def test_what_is_not_known_keeps_them_lent(self):
        self.begin()
        self.move("lend")
        self.kubelet.stop()
        self.assertIn("E1082", self.move("reclaim", code=4))
        self.assertIn("lent to Kubernetes", self.says("jobs"))
        self.kubelet.start()
        self.move("reclaim")
        with open(self.state + "/own-queue", "w") as file:
            file.write("?")
        self.assertIn("E1081", self.move("lend", code=4))
        self.assertIn("E1081", self.move("reclaim", "--devices", "0", code=4), "it would open the others")
        self.move("reclaim")
        self.move("lend")

    def test_a_pod_that_starts_counts_before_the_kubelet_lists_it(self):
        plugin = self.begin()
        self.move("lend")
        plugin.allocate(self.devices[2])
        words = ["reclaim", "--devices", "2", "--interval", "1h", "--timeout", "1s"]
        self.assertIn("a pod that is starting", self.says(*self.words(*words)[:6], *words[1:], code=4))
        self.move("reclaim")

    def test_a_pod_is_refused_at_once_although_the_plugin_has_not_looked_again(self):
        self.move("lend")
        plugin = self.begin("1h")
        self.assertTrue(self.kubelet.run("before", plugin, self.devices[0]))
        self.kubelet.finish("before")
        self.move("reclaim")
        self.assertFalse(self.kubelet.run("after", plugin, self.devices[0]))
        self.move("lend")
        self.assertTrue(self.kubelet.run("again", plugin, self.devices[0]))

    def test_a_folder_that_others_may_write_is_refused_and_stays_as_it_is(self):
        os.mkdir(self.state)
        os.chmod(self.state, 0o1777)  # that of /tmp
        said = self.move("lend", code=4)
        self.assertIn("others can write to it", said)
        self.assertIn(f"sudo berth k8s lend --state {self.state}/berth", said)
        self.assertEqual((os.stat(self.state).st_mode & 0o7777, os.listdir(self.state)), (0o1777, []))
        os.chmod(self.state, 0o755)
        self.move("lend")
        self.assertEqual(os.stat(self.state).st_mode & 0o7777, 0o755)

    @unittest.skipUnless(shutil.which("cc"), "no cc")
    def test_each_queue_is_closed_on_the_disk_before_the_other_opens(self):
        library, log = str(self.folder / "order.so"), self.folder / "order"
        subprocess.run(["cc", "-shared", "-fPIC", "-o", library, os.path.join(HERE, "disk_order.c")], check=True)
        self.variables.update(LD_PRELOAD=library, DISK_ORDER=str(log))
        file = os.path.realpath(self.folder) + "/state/own-queue"
        self.move("lend")
        log.write_text("")
        self.move("reclaim")
        order = log.read_text().splitlines()
        renamed = order.index("rename " + file)
        self.assertEqual(order[renamed:renamed + 3], ["rename " + file, "sync " + file, "sync " + os.path.dirname(file)])
        self.queue("--gpus", "0", "--", "true")
        self.assertTrue(wait_until(lambda: "sync" in log.read_text().splitlines()[-1]), "all that came before is on the disk")
        log.write_text("")
        self.move("lend")
        before = log.read_text().splitlines()
        before = before[:before.index("rename " + file)]
        self.assertTrue([one for one in before if one.startswith("sync ") and one.endswith("-wal")], before)

    def test_another_scheduler_keeps_what_it_has(self):
        self.move("reclaim")
        for unit in self.devices:
            self.call("POST", "/v1/devices/drain", {"unit": unit, "lent_to": "slurm"})
        self.assertIn("E1014", self.move("lend", code=4))
        self.assertIn("lent to Slurm: GPU 0, 1, 2, 3", self.says("jobs"))

    def look(self):
        """Reads both states at one moment. Returns an error, or ""."""
        with self.kubelet.lock:
            with contextlib.closing(Client(self.socket, timeout=20)) as client:
                try:
                    _, said = client.call("GET", "/v1/jobs?running")
                except OSError:
                    return ""  # the broker was killed; the next look finds its successor
            leases = {device["uuid"] for job in said["jobs"] if job["state"] == "running" for device in job["devices"]}
            both = leases & set(self.kubelet.pods.values())
            if both:
                return f"in both queues: {both}"
        return ""

    def pods(self, plugin):
        """Pods come and go."""
        for name in list(self.kubelet.pods):
            if self.random.random() < 0.3:
                self.kubelet.finish(name)
        device = self.random.choice(self.devices)
        self.number += 1
        if device not in self.kubelet.pods.values():
            self.started += self.kubelet.run(f"pod{self.number}", plugin, device)

    def test_no_gpu_is_ever_in_both_queues_whatever_is_killed(self):
        self.random = random.Random(13)
        self.number = self.started = killed = plugins = 0
        plugin = self.begin()
        self.move("lend")
        self.socket = pathlib.Path(self.variables["BERTH_RUNTIME_DIR"]) / "berth.sock"
        moved = {"lend": 0, "reclaim": 0}
        for number in range(WALK):
            self.queue("--gpus", "1", "--", "sleep", "0.05")
            word = self.random.choice(["lend", "reclaim"])
            chosen = self.random.choice([[0, 1, 2, 3], [self.random.randrange(4)]])
            process = self.start(*self.words(word, "--devices", ",".join(map(str, chosen))))
            end = time.monotonic() + self.random.choice([0.005, 0.02, 0.05, 0.1, 0.3, 5, 5])
            while process.poll() is None and time.monotonic() < end:
                self.assertEqual(self.look(), "", f"step {number}, {word}")
                self.pods(plugin)
            if process.poll() is None:
                process.kill()
                killed += 1
            elif process.returncode == 0:
                moved[word] += 1
                if word == "reclaim":
                    self.assertFalse([one for one in chosen if self.kubelet.run("late", plugin, self.devices[one])], f"given after step {number}")
            process.communicate()  # closes its pipes
            self.assertEqual(self.look(), "", f"after step {number}, {word}")
            if self.random.random() < 0.1:
                self.kill_brokers()
            if self.random.random() < 0.1:
                plugin.close()
                self.end(self.process)
                plugin = self.begin()
                plugins += 1
        print(f"{WALK} transitions, {killed} killed, {moved['lend']} lent, {moved['reclaim']} taken back, {plugins} plugins killed, {self.started} pods",
              file=sys.stderr)
        self.assertTrue(killed and self.started and all(moved.values()), (killed, moved, self.started))


if __name__ == "__main__":
    unittest.main()
