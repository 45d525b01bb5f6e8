#!/usr/bin/env python3
"""The GPUs of a machine go from Berth's own queue to Slurm and back. A scontrol of our own plays slurmctld here, so that its state can be held
while Berth's is read; with a real Slurm the same commands run in the last class. Needs root, as the commands do.

usage: slurm_lend_test.py BERTH
"""
import contextlib
import fcntl
import json
import os
import pathlib
import random
import subprocess
import sys
import time
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
sys.path[:0] = [os.path.dirname(os.path.abspath(__file__)), os.path.join(os.path.dirname(os.path.abspath(__file__)), "../broker")]
import slurm_bed  # noqa: E402
from machine import Client, Machine, wait_until  # noqa: E402

Machine.berth = BERTH
WALK = 1000 if os.environ.get("BERTH_SOAK") else 40
SCONTROL = """#!/bin/sh
exec 9>>"$FAKE/lock"; flock 9
if [ "$1" = show ]; then
  [ ! -e "$FAKE/away" ] || exit 1
  printf 'NodeName=n1 State=%s Weight=1%s\\n' "$(cat "$FAKE/use")$(cat "$FAKE/flags")" "$(cat "$FAKE/reason")"
  exit
fi
for word; do
  case $word in
    State=DRAIN) echo +DRAIN >"$FAKE/flags" ;;
    State=RESUME) : >"$FAKE/flags"; : >"$FAKE/reason" ;;
    Reason=*) echo " $word [root@2026-11-26T12:00:00]" >"$FAKE/reason" ;;
  esac
done
"""

SQUEUE = """#!/bin/sh
exec 9>>"$FAKE/lock"; flock 9
[ "$(cat "$FAKE/use")" = IDLE ] && [ ! -e "$FAKE/suspended" ] || echo 812
"""


@unittest.skipIf(os.geteuid() != 0, "only root may move the GPUs of all users")
class Lend(Machine):
    def setUp(self):
        super().setUp()
        self.fake = self.folder / "slurm"
        self.fake.mkdir()
        for name, text in (("scontrol", SCONTROL), ("squeue", SQUEUE)):
            (self.fake / name).write_text(text)
            (self.fake / name).chmod(0o755)
        for name, text in (("use", "IDLE"), ("flags", ""), ("reason", ""), ("lock", "")):
            (self.fake / name).write_text(text)
        self.variables |= {"PATH": f"{self.fake}:{self.variables['PATH']}", "FAKE": str(self.fake)}

    def says(self, *words, code=0):
        done = self.run_berth(*words)
        self.assertEqual(done.returncode, code, done.stderr)
        return done.stdout + done.stderr

    def move(self, word, *more, code=0):
        return self.says("slurm", word, "--node", "n1", *more, code=code)

    @contextlib.contextmanager
    def held(self):
        """While slurmctld is held, its state does not change."""
        with open(self.fake / "lock") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield

    def node(self):
        return {name: (self.fake / name).read_text().strip() for name in ("use", "flags", "reason")}

    def queue(self, *words):
        return self.says("run", "--queue", *words).strip()

    def test_they_come_back_when_slurms_jobs_have_ended_and_go_when_berths_have(self):
        (self.fake / "use").write_text("MIXED")
        late = self.move("reclaim", "--timeout", "100ms", code=4)
        self.assertIn("Slurm's jobs on n1: 812", late)
        self.assertIn("E1016", late)
        self.assertIn("Reason=berth: in Berth's own queue", self.node()["reason"])
        (self.fake / "use").write_text("IDLE")
        self.assertIn("already has these GPUs", self.move("reclaim"), "they were never lent")
        job = self.queue("--gpus", "1", "--", "sleep", "1000")
        self.assertTrue(wait_until(lambda: "running" in self.says("jobs")))
        late = self.move("lend", "--timeout", "100ms", code=4)
        self.assertIn(f"job {job} of root", late)
        self.assertEqual(self.node()["flags"], "+DRAIN", "Slurm has nothing yet")
        waits = self.queue("--gpus", "1", "--", "true")
        self.says("cancel", job)
        self.assertIn("Slurm may start jobs on the GPUs", self.move("lend"))
        self.assertEqual(self.node()["flags"], "")
        self.assertIn("lent to Slurm: GPU 0, 1, 2, 3", self.says("jobs"))
        self.assertIn("E1014", self.says("undrain", "0", code=4))
        self.assertIn("Slurm already has these GPUs: GPU 0, GPU 1, GPU 2, GPU 3", self.move("lend"))
        self.kill_brokers()
        self.assertIn("lent to Slurm: GPU 0, 1, 2, 3", self.says("jobs"), "also after the broker was killed")
        said = json.loads(self.says("slurm", "reclaim", "--node", "n1", "--json"))
        self.assertEqual((said["queue"], len(said["gpus"]), len(said["steps"])), ("berth", 4, 2))
        self.assertEqual(self.run_berth("wait", waits).returncode, 0)

    def test_what_a_person_said_of_the_node_is_kept(self):
        self.move("lend")
        (self.fake / "flags").write_text("+DRAIN")
        (self.fake / "reason").write_text(" Reason=new fans [anna@2026-11-26T12:00:00]")
        self.move("reclaim")
        self.assertIn("Reason=berth: in Berth's own queue; before: new fans", self.node()["reason"])
        self.assertIn("Slurm still starts no jobs on these GPUs, because the node is drained there: new fans", self.move("lend"))
        self.assertEqual((self.node()["flags"], self.node()["reason"][:15]), ("+DRAIN", "Reason=new fans"))

    def test_a_node_that_is_down_or_a_slurm_that_is_away_keeps_them_lent(self):
        self.move("lend")
        (self.fake / "use").write_text("DOWN")
        self.assertIn("E1015", self.move("reclaim", code=4))
        (self.fake / "away").touch()
        self.assertIn("E1013", self.move("reclaim", code=4))
        self.assertIn("lent to Slurm", self.says("jobs"))

    def test_a_suspended_job_keeps_its_gpu(self):
        self.move("lend")
        (self.fake / "suspended").touch()
        self.assertIn("E1016", self.move("reclaim", "--timeout", "100ms", code=4))
        (self.fake / "suspended").unlink()
        self.move("reclaim")

    def test_a_reclaim_that_was_killed_between_two_gpus_goes_on(self):
        self.move("lend")
        self.move("reclaim")
        for unit in [gpu["uuid"] for gpu in json.loads(self.says("ls", "--json"))["devices"] if gpu["kind"] == "gpu"][1:]:
            self.call("POST", "/v1/devices/drain", {"unit": unit, "lent_to": "slurm"})
        self.assertIn("lent to Slurm: GPU 1, 2, 3", self.says("jobs"))
        self.assertIn("Berth's queue may start jobs on the GPUs", self.move("reclaim"))
        self.assertNotIn("lent", self.says("jobs"))

    def test_a_gpu_that_a_person_drained_stays_so_after_the_loan(self):
        self.says("drain", "2")
        self.move("lend")
        self.move("reclaim")
        self.assertIn("drained: GPU 2", self.says("jobs"))

    def look(self):
        """Reads both states at one moment. Returns an error, or ""."""
        with self.held():
            node = self.node()
            client = Client(self.socket, timeout=20)
            with contextlib.closing(client):
                try:
                    _, said = client.call("GET", "/v1/jobs?running")
                except OSError:
                    return ""  # the broker was killed; the next look finds its successor
            leases = [job["id"] for job in said["jobs"] if job["state"] == "running" and job["devices"]]
            slurm_has = node["flags"] == "" or node["use"] != "IDLE"
            if slurm_has and (leases or len(said["lent"]) < 4):
                return f"in both queues: Slurm {node}, Berth's jobs {leases}, lent {len(said['lent'])}"
            # Slurm's own jobs come and go.
            if node["use"] != "IDLE":
                (self.fake / "use").write_text("IDLE" if self.random.random() < 0.5 else node["use"])
            elif node["flags"] == "" and self.random.random() < 0.5:
                (self.fake / "use").write_text("MIXED")
        return ""

    def test_no_gpu_is_ever_in_both_queues_whatever_is_killed(self):
        self.random = random.Random(11)
        self.move("lend")
        self.socket = pathlib.Path(self.variables["BERTH_RUNTIME_DIR"]) / "berth.sock"
        moved = {"lend": 0, "reclaim": 0}
        killed = 0
        for number in range(WALK):
            self.queue("--gpus", "1", "--", "sleep", "0.05")
            word = self.random.choice(["lend", "reclaim"])
            process = self.start("slurm", word, "--node", "n1")
            end = time.monotonic() + self.random.choice([0.005, 0.02, 0.05, 0.1, 5, 5])
            while process.poll() is None and time.monotonic() < end:
                self.assertEqual(self.look(), "", f"step {number}, {word}")
            if process.poll() is None:
                process.kill()
                killed += 1
            elif process.returncode == 0:
                moved[word] += 1
            process.communicate()  # closes its pipes
            self.assertEqual(self.look(), "", f"after step {number}, {word}")
            if self.random.random() < 0.1:
                self.kill_brokers()
        print(f"{WALK} transitions, {killed} killed, {moved['lend']} lent, {moved['reclaim']} taken back", file=sys.stderr)
        self.assertTrue(killed and all(moved.values()), (killed, moved))


def lines(name):
    return subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, "slurm", "gres", "--only", name, "--node", "n1"],
                          capture_output=True, text=True, timeout=60, check=True).stdout


@unittest.skipIf(slurm_bed.why_not(), slurm_bed.why_not())
class Real(Machine):
    """The same with slurmctld and slurmd of Debian."""

    def test_a_job_of_slurms_ends_first_and_one_of_berths_too(self):
        slurm = slurm_bed.Slurm(lines("gres.conf"), lines("slurm.conf"))
        self.addCleanup(slurm.__exit__)
        slurm.__enter__()
        self.variables |= {"PATH": os.environ["PATH"], "SLURM_CONF": slurm.path("slurm.conf")}

        def move(word, *more):
            return self.run_berth("slurm", word, "--node", "n1", *more)
        self.assertEqual(move("lend").returncode, 0, slurm.logs())
        number = slurm.run("sbatch", "--parsable", "-o", "/dev/null", "--gres=gpu:1", "--wrap=sleep 1000").stdout.strip()
        slurm.wait(lambda: "MIXED" in slurm.run("scontrol", "show", "node", "n1").stdout, "running job")
        late = move("reclaim", "--timeout", "1s")
        self.assertEqual(late.returncode, 4, late.stdout + late.stderr)
        self.assertNotEqual(slurm.run("srun", "--immediate=2", "--gres=gpu:1", "true").returncode, 0, "no new job")
        queued = self.run_berth("run", "--queue", "--gpus", "1", "--", "sleep", "1000").stdout.strip()
        self.assertIn("waiting", self.run_berth("jobs").stdout)
        slurm.run("scontrol", "suspend", number)
        suspended = move("reclaim", "--timeout", "1s")
        self.assertIn(f"Slurm's jobs on n1: {number}", suspended.stderr, "Slurm calls the node idle then")
        slurm.run("scancel", number)
        back = move("reclaim")
        self.assertEqual(back.returncode, 0, back.stderr + slurm.logs())
        self.assertTrue(wait_until(lambda: "running" in self.run_berth("jobs").stdout))
        self.assertEqual(move("lend", "--timeout", "1s").returncode, 4)
        self.assertNotEqual(slurm.run("srun", "--immediate=2", "--gres=gpu:1", "true").returncode, 0, "Berth's job still has one")
        self.run_berth("cancel", queued)
        self.assertEqual(move("lend").returncode, 0)
        self.assertEqual(slurm.run("srun", "--gres=gpu:4", "true").returncode, 0, slurm.logs())


if __name__ == "__main__":
    unittest.main()
