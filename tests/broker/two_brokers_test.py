#!/usr/bin/env python3
"""Two users on one simulated machine, each with their own broker: many clients of both take and return leases at once, and no device is
ever leased by both.

usage: two_brokers_test.py BERTH
"""
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

from machine import Client as Connection, switch_off, switch_on, wait_until

SKIPPED = 77
SOAK = "BERTH_SOAK" in os.environ
BERTH = os.path.abspath(sys.argv.pop(1))
GIB = 1 << 30
USERS = (61011, 61012)  # no user has them
CLIENTS, EACH = (16, 313) if SOAK else (8, 12)  # clients of each user, leases of each client
FORK = multiprocessing.get_context("fork")


class Client(Connection):
    def call(self, method, path, body=None):
        status, said = super().call(method, path, body)
        assert status in (200, 201), said
        return said


class TwoBrokers(unittest.TestCase):
    machine = "lab-4x3090"

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="berth-"))
        self.addCleanup(shutil.rmtree, self.folder)
        self.folder.chmod(0o755)
        shell, self.variables = switch_on(BERTH, self.machine)
        self.addCleanup(switch_off, shell)
        # The simulated machine consists of root's files. Both users may read them, as they could read /proc and the driver.
        machine = pathlib.Path(self.variables["BERTH_SIM_DIR"])
        subprocess.run(["chmod", "-R", "a+rX", machine], check=True)
        (machine / "locks").mkdir()
        (machine / "locks").chmod(0o1777)  # the mode of /run/lock
        self.units, self.brokers = [], {}
        for user in USERS:
            self.serve(user)
        self.units = sorted(one["uuid"] for one in self.client(USERS[0]).call("GET", "/v1/machine")["devices"] if one["kind"] != "cpu")
        self.assertEqual(len(self.units), 4)

    def serve(self, user):
        home = self.folder / str(user)
        if not home.is_dir():
            home.mkdir(0o700)
            os.chown(home, user, user)
        own = {"BERTH_RUNTIME_DIR": f"{home}/r", "BERTH_STATE_DIR": f"{home}/s", "HOME": str(home)}
        broker = subprocess.Popen(["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", BERTH, "serve"],
                                  env={**self.variables, **own}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

        def end():
            broker.kill()
            broker.wait()
            broker.stdout.close()
        self.addCleanup(end)
        self.assertTrue(broker.stdout.readline().startswith("serving "))
        self.brokers[user] = broker

    def berth(self, user, *words):
        """Runs `berth` as this user."""
        home = self.folder / str(user)
        own = {"BERTH_RUNTIME_DIR": f"{home}/r", "BERTH_STATE_DIR": f"{home}/s", "HOME": str(home), "LC_ALL": "C.UTF-8"}
        program = subprocess.Popen(["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups", BERTH, *words], cwd=home,
                                   env={**self.variables, **own}, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)

        def end():
            program.kill()
            program.wait()
            program.stdout.close()
        self.addCleanup(end)
        return program

    def client(self, user):
        client = Client(self.folder / str(user) / "r/berth.sock")
        self.addCleanup(client.close)
        return client

    def jobs(self, user):
        return self.client(user).call("GET", "/v1/jobs?all")["jobs"]

    def states(self, user):
        return [one["state"] for one in self.jobs(user)]

    # The clients below run in processes of their users.

    def begin(self, user, work, *words):
        def run():
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            work(user, *words)
        process = FORK.Process(target=run, daemon=True)
        process.start()
        return process

    def take(self, client, wish, owner=None):
        job = client.call("POST", "/v1/jobs", {"request": wish, "owners": [{"pid": owner}] if owner else []})["job"]
        if job["state"] == "waiting":
            job = client.call("GET", f"/v1/jobs/{job['id']}?wait=started")["job"]
        assert job["state"] == "running", job
        return job

    def give(self, client, job):
        client.call("POST", f"/v1/jobs/{job}/end", {"outcome": {"class": 0, "exit_code": 0}})

    def mark(self, user, job, more):
        """Counts each user's leases on a device, those of the whole device, and MiB of the shared ones. Counts contradictions in `wrong`.
        """
        with self.held.get_lock():
            for device in job["devices"]:
                at = 4 * self.units.index(device["uuid"])
                self.held[at + USERS.index(user)] += more
                self.held[at + 2] += 0 if device["memory_bytes"] else more
                self.held[at + 3] += more * ((device["memory_bytes"] or 0) >> 20)
                both = self.held[at] and self.held[at + 1]
                beside_whole = self.held[at + 2] and self.held[at] + self.held[at + 1] > 1
                if both or beside_whole or self.held[at + 3] > 24 * 1024:
                    self.wrong.value += 1

    def take_and_give(self, user, seed):
        chance, client = random.Random(seed), Client(self.folder / str(user) / "r/berth.sock", timeout=600)
        for _ in range(EACH):
            wish = chance.choice([{"gpus": 1}, {"gpus": 2}, {"memory_bytes": chance.randint(1, 23) * GIB}])
            # Sometimes the lease ends because its process dies.
            owner = subprocess.Popen(["sleep", "1000"]) if chance.random() < 0.1 else None
            job = self.take(client, wish, owner and owner.pid)
            self.mark(user, job, 1)
            time.sleep(chance.random() * 0.002)
            self.mark(user, job, -1)
            if owner:
                owner.kill()
                owner.wait()
            else:
                self.give(client, job["id"])
        client.close()

    def test_no_device_has_leases_of_two_brokers_and_all_come_back(self):
        self.held = FORK.Array("i", 4 * len(self.units))
        self.wrong = FORK.Value("i", 0)
        clients = [self.begin(user, self.take_and_give, 1000 * user + number) for number in range(CLIENTS) for user in USERS]
        for one in clients:
            one.join(3600 if SOAK else 100)
        self.assertEqual([one.exitcode for one in clients], [0] * len(clients))
        self.assertEqual((self.wrong.value, list(self.held)), (0, [0] * len(self.held)))
        for user in USERS:
            self.assertTrue(wait_until(lambda: not {"waiting", "running"} & set(self.states(user))))
            self.assertEqual(len(self.states(user)), CLIENTS * EACH)
        # Either user can get all devices. If one waits for a device of the other, it starts soon after the device is free.
        for user, other in (USERS, USERS[::-1]) * 2:
            has, waits = self.client(user), self.client(other)
            job = self.take(has, {"gpus": 4})
            next_ = waits.call("POST", "/v1/jobs", {"request": {"gpus": 1}})["job"]
            self.assertEqual(next_["state"], "waiting")
            self.give(has, job["id"])
            self.assertEqual(waits.call("GET", f"/v1/jobs/{next_['id']}?wait=started")["job"]["state"], "running")
            self.give(waits, next_["id"])

    def test_the_jobs_of_a_killed_broker_keep_their_devices(self):
        one, two = USERS
        queued = int(self.berth(one, "run", "--queue", "--gpus", "2", "--", "sleep", "1000").communicate()[0].split()[-1])
        small = int(self.berth(one, "run", "--queue", "--memory", "1GiB", "--", "sleep", "1000").communicate()[0].split()[-1])
        self.assertTrue(wait_until(lambda: [job for job in self.jobs(one) if job["id"] == small and job["devices"]]))
        device = next(job for job in self.jobs(one) if job["id"] == small)["devices"][0]["uuid"]
        shell = self.berth(one, "run", "--cpus", "1", "--devices", device, "--memory", "2GiB", "--", "sh", "-c", "echo up; exec sleep 1000")
        self.assertEqual(shell.stdout.readline(), "up\n")
        self.assertTrue(wait_until(lambda: len(self.jobs(one)[-1]["pids"]) == 2))  # the front has shared the lease with its keeper
        shared = {unit["uuid"] for job in self.jobs(one) if job["id"] != queued for unit in job["devices"]}
        self.assertEqual(len(shared), 1)
        self.brokers[one].kill()
        self.brokers[one].wait()
        waits = self.client(two)
        has = self.take(waits, {"gpus": 1})
        next_ = waits.call("POST", "/v1/jobs", {"request": {"gpus": 4}})["job"]["id"]
        self.assertEqual(waits.call("GET", f"/v1/jobs/{next_}")["job"]["state"], "waiting")
        self.assertIn(f"user {one} holds the device's lock: process ", self.berth(two, "why", str(next_)).communicate()[0])
        self.give(waits, has["id"])
        # The next broker has these leases, and can still grant the rest of the shared devices.
        self.serve(one)
        more = self.take(self.client(one), {"memory_bytes": GIB, "devices": sorted(shared)})
        self.assertEqual({unit["uuid"] for unit in more["devices"]}, shared)
        self.give(self.client(one), more["id"])
        self.berth(one, "cancel", str(queued), str(small)).wait()
        shell.kill()
        self.assertEqual(waits.call("GET", f"/v1/jobs/{next_}?wait=started")["job"]["state"], "running")
        self.give(waits, next_)


if __name__ == "__main__":
    if os.geteuid() != 0:
        print("skipped: only root can be two users")
        sys.exit(SKIPPED)
    unittest.main()
