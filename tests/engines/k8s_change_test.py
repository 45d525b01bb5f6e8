#!/usr/bin/env python3
"""A Kubernetes node that changes under pods that run: another version of Berth's plugin or driver, and other MIG partitions. A fake kubelet, a fake
API server and simulated GPUs.

usage: k8s_change_test.py BERTH
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(HERE, "..", "broker")]
import kubelet_bed  # noqa: E402
import other_version  # noqa: E402
from machine import switch_off, switch_on, wait_until  # noqa: E402

WHY_NOT = kubelet_bed.MISSING or ("" if os.path.exists(os.path.join(os.path.dirname(BERTH), "berth-k8s")) else "berth-k8s was not built: no gRPC")
if not WHY_NOT:
    import dra_bed  # noqa: E402
FIRST, SECOND = "11111111-1111-1111-1111-111111111111", "22222222-2222-2222-2222-222222222222"
MIB = 1 << 20
# Makes or removes a MIG partition, as an administrator does with nvidia-smi: admin.py make GPU PROFILE_ID START SIZE; admin.py remove GPU PROFILE_ID
ADMIN = """
import ctypes, sys
nvml = ctypes.CDLL("libnvidia-ml.so.1")
gpu, profile, *place = map(int, sys.argv[2:])
device, instance, compute, count = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_uint(1)
nvml.nvmlInit_v2()
nvml.nvmlDeviceGetHandleByIndex_v2(gpu, ctypes.byref(device))
if sys.argv[1] == "make":
    assert nvml.nvmlDeviceCreateGpuInstanceWithPlacement(device, profile, (ctypes.c_uint * 2)(*place), ctypes.byref(instance)) == 0
    assert nvml.nvmlGpuInstanceCreateComputeInstance(instance, 0, ctypes.byref(compute)) == 0
else:
    assert nvml.nvmlDeviceGetGpuInstances(device, profile, ctypes.byref(instance), ctypes.byref(count)) == 0 and count.value == 1
    assert nvml.nvmlGpuInstanceGetComputeInstanceById(instance, 0, ctypes.byref(compute)) == 0
    assert nvml.nvmlComputeInstanceDestroy(compute) == 0 and nvml.nvmlGpuInstanceDestroy(instance) == 0
"""


class Node(unittest.TestCase):
    """A simulated machine that outlives the plugin."""

    MACHINE = "lab-4x3090"

    def setUp(self):
        if WHY_NOT:
            self.skipTest(WHY_NOT)
        self.kubelet = kubelet_bed.Kubelet()
        self.addCleanup(self.kubelet.__exit__)
        self.kubelet.start()
        self.folder = self.kubelet.made.name
        shell, self.variables = switch_on(BERTH, self.MACHINE)
        self.addCleanup(switch_off, shell)
        self.variables["LANG"] = "C"
        self.process, self.log = None, self.folder + "/log"
        self.addCleanup(self.end)

    def other_version(self):
        return other_version.write(BERTH, self.folder + "/other")

    def begin(self, berth, part, *options):
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([berth, "k8s", part, "--json", "--kubelet", self.kubelet.folder, "--state", self.folder + "/state",
                                             "--interval", "200ms", *options], env=self.variables, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)

    def end(self):
        """As the kubelet ends a pod of the DaemonSet."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.assertEqual(self.process.wait(20), 0)

    def events(self):
        with open(self.log) as file:
            return [json.loads(line) for line in file if line.startswith("{")]

    def plugin(self, nth):
        plugin = self.kubelet.plugin(self.kubelet.wait_for(nth).endpoint)
        self.addCleanup(plugin.close)
        return plugin

    def in_container(self, size, **variables):
        """Starts a program of a container with these variables. Returns it and its first line."""
        program = os.path.join(self.folder, "program")
        if not os.path.exists(program):
            subprocess.run(["cc", "-o", program, os.path.join(HERE, "kubernetes", "take_memory.c")], check=True, timeout=60)
        process = subprocess.Popen([program, str(size)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True,
                                   env={**self.variables, **variables})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, process.stdout.readline()


def guard_of(answer):
    """The variables that the program of a container has, with the paths on the node."""
    mounts = {mount.container_path: mount.host_path for mount in answer.mounts}
    return {"LD_PRELOAD": mounts[answer.envs["LD_PRELOAD"]], "BERTH_GUARD": os.path.dirname(mounts["/run/berth/guard/limits"])}


@unittest.skipUnless(shutil.which("cc"), "needs a C compiler")
class OtherPlugin(Node):
    def share_bytes(self):
        done = subprocess.run([BERTH, "k8s", "devices", "--shares", "4", "--json"], env=self.variables, capture_output=True, check=True, timeout=60)
        return json.loads(done.stdout)["resources"][0]["devices"][0]["memory_limit_bytes"]

    def test_pods_that_run_are_held_as_before_under_a_newer_and_an_older_version(self):
        share = self.share_bytes()
        self.begin(BERTH, "device-plugin", "--shares", "4")
        plugin = self.plugin(1)
        # The programs use GPU 0, which has four of the shares.
        gpu = json.loads(subprocess.run([BERTH, "ls", "--json"], env=self.variables, capture_output=True, check=True).stdout)["devices"][0]["uuid"]
        ids = sorted(next(plugin.watch()), key=lambda one: (not one.startswith(gpu), one))
        first = guard_of(plugin.allocate(ids[0]))
        running, said = self.in_container(share - MIB, **first)
        self.assertEqual(said, f"{share - MIB}: granted\n")
        guards = [first]
        for nth, version in ((2, self.other_version()), (3, BERTH)):
            self.end()
            self.begin(version, "device-plugin", "--shares", "4")
            plugin = self.plugin(nth)
            self.assertEqual(sorted(next(plugin.watch())), sorted(ids))
            self.assertIsNone(running.poll(), "the pod runs")
            # What starts in the pod now loads its first library, and shares what is left of the pod's limit.
            for size, word in ((2 * MIB, "out of memory"), (MIB // 2, "granted")):
                process, said = self.in_container(size, **first)
                self.assertEqual(said, f"{size}: {word}\n")
                process.kill()
                process.wait()
            guards.append(guard_of(plugin.allocate(ids[nth - 1])))
            process, said = self.in_container(share + MIB, **guards[-1])
            self.assertEqual(said, f"{share + MIB}: out of memory\n", "the next pod is held")
            process.kill()
            process.wait()
        libraries = [one["LD_PRELOAD"] for one in guards]
        self.assertEqual((libraries[0], libraries[0] != libraries[1]), (libraries[2], True), libraries)
        self.assertNotIn("not_enforced", [one["event"] for one in self.events()])
        self.end()


class OtherDriver(Node):
    def begin_driver(self, berth):
        self.begin(berth, "dra", "--node", "node1", "--api", self.api.url, "--account", self.api.account, "--kubelet", self.registry.folder,
                   "--cdi", self.folder + "/cdi", "--shares", "2")
        self.registry.register()

    def test_claims_stay_prepared_and_are_unprepared_by_another_version(self):
        made = os.path.join(self.folder, "dra")
        os.mkdir(made)
        self.api, self.registry = dra_bed.ApiServer(made), dra_bed.Kubelet(made)
        self.addCleanup(self.api.end)
        self.begin_driver(BERTH)
        self.assertTrue(wait_until(self.api.devices))
        device = self.api.devices()[0]["name"]
        self.api.allocate("a", FIRST, device, memory="2Gi")
        answer = self.registry.prepare(("a", FIRST))[FIRST]
        self.assertEqual(answer.error, "")
        cdi = pathlib.Path(self.folder, "cdi", f"berth.dev-claim-{FIRST}.json")
        before, generation = cdi.read_text(), self.api.generation()
        self.end()
        # A later version may write more into the journal.
        (entry,) = [one for one in pathlib.Path(self.folder, "state").rglob(f"*{FIRST}*") if one.is_file()]
        words = json.loads(entry.read_text())
        entry.write_text(json.dumps({**words, "of_a_later_version": {"x": 1}}))
        self.begin_driver(self.other_version())
        self.assertEqual(self.registry.prepare(("a", FIRST))[FIRST], answer)
        self.assertEqual(json.loads(before)["devices"][0]["containerEdits"]["env"], json.loads(cdi.read_text())["devices"][0]["containerEdits"]["env"])
        self.assertEqual(self.api.generation(), generation, "what is published has not changed")
        self.api.allocate("b", SECOND, device, memory="2Gi")
        self.assertEqual(self.registry.prepare(("b", SECOND))[SECOND].error, "")
        self.end()
        self.begin_driver(BERTH)
        for name, uid in (("a", FIRST), ("b", SECOND)):
            self.assertEqual(self.registry.unprepare((name, uid))[uid].error, "")
        self.assertEqual(os.listdir(self.folder + "/cdi"), [])
        self.assertEqual([one for one in self.events() if "damaged" in json.dumps(one)], [])
        self.end()


class Partitions(Node):
    MACHINE = "h100-mig"

    def admin(self, *words):
        done = subprocess.run([sys.executable, "-c", ADMIN, *map(str, words)], env=self.variables, capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)

    def of(self, resource, since=0):
        """The plugin that registered for this resource."""
        self.assertTrue(wait_until(lambda: resource in [one.resource_name for one in self.kubelet.registered[since:]]),
                        [one.resource_name for one in self.kubelet.registered])
        plugin = self.kubelet.plugin(next(one.endpoint for one in self.kubelet.registered[since:] if one.resource_name == resource))
        self.addCleanup(plugin.close)
        return plugin

    def test_what_is_made_later_is_offered_and_what_is_removed_is_given_to_no_pod(self):
        self.admin("make", 0, 19, 6, 1)
        self.begin(BERTH, "device-plugin")
        small = self.of("berth.dev/mig-1g.10gb")
        (kept,) = next(small.watch())
        self.admin("make", 1, 9, 0, 4)  # a profile that the node did not have when the plugin started
        large = self.of("berth.dev/mig-3g.40gb")
        (later,) = next(large.watch())
        self.assertEqual(large.allocate(later).envs["NVIDIA_VISIBLE_DEVICES"], later)
        self.assertEqual(list(next(small.watch())), [kept], "the other resource is offered as before")
        self.admin("remove", 1, 9)
        for states in large.watch():
            if set(states.values()) == {"Unhealthy"}:
                break
        with self.assertRaises(kubelet_bed.grpc.RpcError):
            large.allocate(later)
        self.admin("make", 1, 14, 0, 2)
        other = self.of("berth.dev/mig-2g.20gb")
        (last,) = next(other.watch())
        for states in large.watch():
            if not states:
                break
        with self.assertRaises(kubelet_bed.grpc.RpcError):
            large.allocate(later)
        self.assertEqual(other.allocate(last).envs["NVIDIA_VISIBLE_DEVICES"], last)
        self.assertEqual(small.allocate(kept).envs["NVIDIA_VISIBLE_DEVICES"], kept)
        self.end()


if __name__ == "__main__":
    unittest.main()
