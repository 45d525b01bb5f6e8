#!/usr/bin/env python3
"""The broker's daemon over its socket, on a simulated machine: a device is leased only once, comes back however its owners end, and
leases outlive the daemon.

usage: daemon_test.py BERTH DAEMON_PROBE
"""
import http.client
import json
import os
import pathlib
import pwd
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from machine import Client as Connection, switch_off, switch_on, wait_until

BERTH, PROBE = sys.argv[1:3]
SOAK = "BERTH_SOAK" in os.environ
GIB = 1 << 30
NOBODY = pwd.getpwnam("nobody").pw_uid


class Client(Connection):
    def submit(self, **fields):
        status, said = self.call("POST", "/v1/jobs", fields)
        assert status == 201, said
        return said["job"]

    def end(self, job, code=0):
        status, said = self.call("POST", f"/v1/jobs/{job}/end", {"outcome": {"class": int(code != 0), "exit_code": code}})
        assert status == 200, said
        return said["job"]

    def job(self, job, wait=""):
        return self.call("GET", f"/v1/jobs/{job}" + (f"?wait={wait}" if wait else ""))[1]["job"]

    def jobs(self):
        return {one["id"]: one for one in self.call("GET", "/v1/jobs")[1]["jobs"]}


class Daemon(unittest.TestCase):
    machine = "lab-4x3090"
    options = ()

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="berth-"))
        self.folder.chmod(0o755)
        self.sleepers = []
        # The probe is restarted on the same simulated machine. That machine exists as long as the shell that waits.
        self.machine_of, self.variables = switch_on(BERTH, self.machine)
        self.start()

    def tearDown(self):
        self.daemon.kill()
        self.daemon.wait()
        for one in self.sleepers:
            one.kill()
            one.wait()
        switch_off(self.machine_of)
        shutil.rmtree(self.folder)

    def start(self):
        self.daemon = subprocess.Popen([PROBE, self.folder / "s", self.folder / "state", *self.options],
                                       stdout=subprocess.PIPE, text=True, env=self.variables)
        self.assertEqual(self.daemon.stdout.readline(), "ready\n")
        self.daemon.stdout.close()

    def client(self):
        client = Client(self.folder / "s")
        self.addCleanup(client.close)
        return client

    def sleeper(self):
        self.sleepers.append(subprocess.Popen(["sleep", "1000"]))
        return self.sleepers[-1]


class Leases(Daemon):
    def test_who_waits_is_told_when_it_starts_and_when_it_ends(self):
        one, other = self.client(), self.client()
        first = one.submit(request={"gpus": 4})
        self.assertEqual(first["state"], "running")
        self.assertEqual(len({device["uuid"] for device in first["devices"]}), 4)
        second = one.submit(request={"gpus": 1}, name="second")
        self.assertEqual((second["state"], second["devices"]), ("waiting", []))
        told = []
        thread = threading.Thread(target=lambda: told.append(other.job(second["id"], "started")))
        thread.start()
        time.sleep(0.2)
        self.assertEqual(told, [])
        self.assertEqual(one.end(first["id"])["state"], "done")
        thread.join(20)
        self.assertEqual(told[0]["state"], "running")
        self.assertEqual(one.end(second["id"], 3)["state"], "failed")
        self.assertEqual(one.job(second["id"], "ended")["outcome"], {"class": "failed", "exit_code": 3, "signal": None})

    def test_a_lease_comes_back_when_the_last_of_its_owners_is_gone(self):
        client = self.client()
        front, keeper = self.sleeper(), self.sleeper()
        first = client.submit(request={"gpus": 4}, owners=[{"pid": front.pid}])
        status, _ = client.call("POST", f"/v1/jobs/{first['id']}/owners",
                                {"owners": [{"pid": front.pid}, {"pid": keeper.pid}]})
        self.assertEqual(status, 200)
        second = client.submit(request={"gpus": 4})
        for process in (front, keeper):
            self.assertEqual(client.job(second["id"])["state"], "waiting")
            process.send_signal(signal.SIGKILL)
            process.wait()
            time.sleep(0.2)
        self.assertEqual(client.job(second["id"], "started")["state"], "running")
        self.assertEqual(client.job(first["id"])["state"], "lost")
        # A request is cancelled if its process dies while it waits.
        third = client.submit(request={"gpus": 1}, owners=[{"pid": self.sleeper().pid}])
        self.sleepers[-1].kill()
        self.assertEqual(client.job(third["id"], "ended")["state"], "cancelled")

    def test_many_clients_never_get_the_same_device(self):
        clients, each = 64, 160 if SOAK else 12
        held, lock, wrong = {}, threading.Lock(), []

        def work(seed):
            chance, client = random.Random(seed), self.client()
            for _ in range(each):
                wish = chance.choice([{"gpus": 1}, {"gpus": 2}, {"memory_bytes": chance.randint(1, 23) * GIB},
                                      {"memory_bytes": GIB, "share_permille": chance.randint(1, 1000)}])
                job = client.submit(request=wish)
                if job["state"] == "waiting":
                    job = client.job(job["id"], "started")
                with lock:
                    for device in job["devices"]:
                        mine = held.setdefault(device["uuid"], {})
                        mine[job["id"]] = (device["memory_bytes"], device["share_permille"] or 0)
                        memory = [one for one, _ in mine.values()]
                        if len(mine) > 1 and None in memory or sum(one or 0 for one in memory) > 23.7 * GIB \
                                or sum(part for _, part in mine.values()) > 1000:
                            wrong.append(dict(mine))
                time.sleep(chance.random() * 0.002)  # so that other clients ask in the meantime
                with lock:
                    for device in job["devices"]:
                        del held[device["uuid"]][job["id"]]
                client.end(job["id"])

        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(clients)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(wrong, [])
        states = [one["state"] for one in self.client().jobs().values()]
        self.assertEqual((states.count("done"), len(states)), (clients * each, clients * each))
        self.assertEqual(len(self.client().submit(request={"gpus": 4})["devices"]), 4)

    def test_kill_9_loses_and_doubles_nothing(self):
        chance = random.Random(7)
        known = {}  # what the broker confirmed: id → (state, devices)
        for _ in range(500 if SOAK else 12):
            killer = threading.Timer(chance.random() * 0.1, self.daemon.kill)
            killer.start()
            client = self.client()
            try:
                while True:
                    running = [id for id, (state, _) in known.items() if state == "running"]
                    if running and chance.random() < 0.5:
                        job = client.end(chance.choice(running))
                    else:
                        job = client.submit(request={"gpus": chance.randint(1, 3)})
                    known[job["id"]] = (job["state"], job["devices"])
            except (OSError, http.client.HTTPException):
                pass
            killer.join()
            self.daemon.wait()
            self.start()
            now = self.client().jobs()
            for id, (state, devices) in known.items():
                if state == "waiting":  # it may have started in the meantime
                    self.assertIn(now[id]["state"], ("waiting", "running"))
                elif state == "running":  # its end may be in the journal although the client got no answer
                    self.assertIn(now[id]["state"], ("running", "done"))
                    self.assertEqual(now[id]["devices"], devices)
                else:
                    self.assertEqual(now[id]["state"], state)
            in_use = [device["uuid"] for one in now.values() if one["state"] == "running" for device in one["devices"]]
            self.assertEqual(len(in_use), len(set(in_use)))
            known = {id: (one["state"], one["devices"]) for id, one in now.items()}
        self.assertGreater(len(known), 10)

    def test_one_folder_has_one_daemon(self):
        second = subprocess.run([PROBE, self.folder / "s2", self.folder / "state"], env=self.variables, timeout=30,
                                capture_output=True, text=True)
        self.assertEqual((second.returncode, second.stderr[:5]), (1, "E0906"), second.stderr)
        second = subprocess.run([PROBE, self.folder / "s", self.folder / "other"], env=self.variables, timeout=30,
                                capture_output=True, text=True)
        self.assertEqual((second.returncode, second.stderr[:5]), (1, "E0909"), second.stderr)

    def test_what_makes_no_sense_is_refused(self):
        client = self.client()
        for method, path, body, status in (("GET", "/nothing", None, 404), ("GET", "/v2/jobs", None, 404),
                                           ("POST", "/v1/jobs", 3, 400), ("GET", "/v1/jobs/7", None, 404),
                                           ("POST", "/v1/jobs/7/cancel", {}, 404), ("DELETE", "/v1/jobs", None, 404), ("POST", "/v1/hand-over", None, 503),
                                           ("POST", "/v1/jobs", {"request": {"gpus": 99}}, 409),
                                           ("POST", "/v1/jobs", {"request": {"devices": ["77"]}}, 404),
                                           ("POST", "/v1/jobs", {"owners": [{"pid": 1 << 22}]}, 403)):
            said = client.call(method, path, body)
            self.assertEqual(said[0], status, (method, path, said))
            self.assertTrue(said[1]["error"]["id"].startswith("E"), said)


@unittest.skipIf(os.geteuid() != 0, "needs to be root, to be two users")
class TwoUsers(Daemon):
    options = ("all",)

    def as_nobody(self, method, path, body):
        """The answer that another user gets."""
        code = ("import http.client, json, os, socket, sys; os.setgroups([]); os.setgid(65534); os.setuid(%d)\n" % NOBODY +
                "c = http.client.HTTPConnection('b'); c.sock = socket.socket(socket.AF_UNIX); c.sock.connect(sys.argv[1])\n"
                "c.request(sys.argv[2], sys.argv[3], sys.argv[4]); r = c.getresponse(); print(json.dumps([r.status, json.loads(r.read())]))")
        done = subprocess.run([sys.executable, "-c", code, self.folder / "s", method, path, json.dumps(body)], text=True,
                              capture_output=True, timeout=60, env={"USER": "root", "LOGNAME": "root", "PATH": os.environ["PATH"]})
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_nobody_touches_or_reads_another_users_job(self):
        client = self.client()
        mine = client.submit(request={"gpus": 4}, name="secret-name", command=["secret-command"])
        waiting = client.submit(request={"gpus": 1}, name="secret-name")
        for id, what, status in ((waiting["id"], "cancel", 403), (waiting["id"], "hold", 403), (mine["id"], "end", 403),
                                 (mine["id"], "owners", 403)):
            self.assertEqual(self.as_nobody("POST", f"/v1/jobs/{id}/{what}", {})[0], status, what)
        status, seen = self.as_nobody("GET", "/v1/jobs", {})
        self.assertEqual((status, len(seen["jobs"])), (200, 2))
        self.assertNotIn("secret", json.dumps(seen))
        self.assertEqual({one["user"] for one in seen["jobs"]}, {"root"})
        self.assertEqual(client.job(mine["id"])["name"], "secret-name")
        self.assertEqual(client.jobs()[waiting["id"]]["state"], "waiting")

    def test_a_queued_job_is_its_users_own_to_the_kernel_too(self):
        spec = {"folder": "/", "umask": 0o022, "environment": [f"PATH={os.environ['PATH']}", "SECRET=word"]}
        asked = {"queued": True, "spec": spec, "request": {"gpus": 1},
                 "command": ["sh", "-c", "id -u; id -G; touch /root/x; kill -0 $PPID"]}
        # A client cannot choose the user of its job.
        status, said = self.as_nobody("POST", "/v1/jobs", {**asked, "spec": {**spec, "uid": 0, "gid": 0, "groups": [0]}})
        self.assertEqual(status, 400, said)
        status, said = self.as_nobody("POST", "/v1/jobs", asked)
        self.assertEqual(status, 201, said)
        job = self.client().job(said["job"]["id"], "ended")
        self.assertEqual(job["state"], "failed", job)
        log = pathlib.Path(job["log"])
        lines = log.read_text().splitlines()
        self.assertEqual(lines[:2], [str(NOBODY), "65534"])
        self.assertFalse(pathlib.Path("/root/x").exists())
        self.assertIn("kill: Operation not permitted", log.read_text())  # the keeper belongs to root, not to the job's user
        about = log.stat()
        self.assertEqual((about.st_uid, about.st_mode & 0o777), (NOBODY, 0o600))
        for path in (log.with_suffix(".status"), *log.parents[1].glob("journal.db*")):
            about = path.stat()
            self.assertEqual((about.st_uid, about.st_mode & 0o077), (0, 0), path)
        # Another user sees neither the command nor the variables of a job.
        mine = self.client().submit(request={"gpus": 1}, queued=True, command=["secret-word"], spec=spec)
        seen = [one for one in self.as_nobody("GET", "/v1/jobs", {})[1]["jobs"] if one["id"] == mine["id"]]
        self.assertEqual(len(seen), 1)
        for key in ("log", "command", "name", "why"):
            self.assertNotIn(key, seen[0])

    def test_numbers_that_nobody_means_are_refused(self):
        client, huge = self.client(), (1 << 63) - 1
        for wrong in ({"time_limit_milliseconds": huge}, {"time_limit_milliseconds": -1}, {"time_limit_milliseconds": 0},
                      {"or_cpu_after_milliseconds": huge}, {"or_cpu_after_milliseconds": -1}, {"priority": huge}, {"priority": -huge - 1},
                      {"request": {"gpus": -1}}, {"request": {"gpus": 1 << 31}}, {"request": {"gpus": 4000}}, {"request": {"cpus": -1}},
                      {"request": {"cpus": 0}}, {"request": {"memory_bytes": 0}}, {"request": {"memory_bytes": -5}},
                      {"request": {"memory_bytes": 1 << 30, "share_permille": 1 << 40}}, {"owners": [{"pid": 1 << 64}]}):
            status, said = client.call("POST", "/v1/jobs", wrong)
            self.assertEqual((status, said["error"]["code"]), (400, "invalid_argument"), (wrong, said))
        self.assertEqual(client.jobs(), {})

    def test_jobs_that_are_refused_do_not_fill_the_disk(self):
        spec = {"folder": "/", "umask": 18, "environment": ["BIG=" + "x" * 900_000]}
        client = self.client()
        for _ in range(40):
            status, _ = client.call("POST", "/v1/jobs", {"queued": True, "request": {"gpus": 1}, "command": ["true"], "spec": spec, "after": [999]})
            self.assertEqual(status, 404)
        log = self.folder / "state/journal.db-wal"
        self.assertTrue(wait_until(lambda: log.stat().st_size < 20 << 20, 5), log.stat().st_size)

    def test_whose_job_it_is_the_kernel_says(self):
        status, said = self.as_nobody("POST", "/v1/jobs", {"uid": 0, "user": "root", "tier": 1, "command": ["true"],
                                                           "request": {"gpus": 1}, "state": "done", "id": 77})
        self.assertEqual(status, 201, said)
        self.assertEqual((said["job"]["uid"], said["job"]["user"], said["job"]["state"]), (NOBODY, "nobody", "running"))
        self.assertNotEqual(said["job"]["id"], 77)
        # A process of another user cannot own the lease.
        self.assertEqual(self.as_nobody("POST", "/v1/jobs", {"owners": [{"pid": os.getpid()}]})[0], 403)


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
