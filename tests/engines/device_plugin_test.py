#!/usr/bin/env python3
"""`berth k8s device-plugin` with a fake kubelet over real gRPC, on simulated GPUs: it registers, lists, allocates, reports failures and
recovery, and registers again after the kubelet has restarted. A process that plays a container is limited to its share."""
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import stat
import subprocess
import sys
import tempfile
import time
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "guard", "program.py")
MIB = 1 << 20
sys.path.insert(0, HERE)
import kubelet_bed  # noqa: E402

PLUGIN = os.path.join(os.path.dirname(BERTH), "berth-k8s")
WHY_NOT = kubelet_bed.MISSING or ("" if os.path.exists(PLUGIN) else "berth-k8s was not built: no gRPC")


def simulated(*words, machine="lab-4x3090", faults=(), **keywords):
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "CUDA_", "SLURM_", "KUBERNETES_"))}
    faults = [word for fault in faults for word in ("--fault", fault)]
    return subprocess.Popen([BERTH, "sim", "--machine", machine, *faults, "--", *words], env={**environment, "LANG": "C"},
                            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **keywords)


def output(*words, **keywords):
    process = simulated(*words, **keywords)
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


class Words(unittest.TestCase):
    def test_what_would_be_offered(self):
        code, out, err = output(BERTH, "k8s", "devices", "--shares", "4", "--json")
        self.assertEqual(code, 0, err)
        (resource,) = json.loads(out)["resources"]
        self.assertEqual((resource["name"], len(resource["devices"])), ("berth.dev/gpu-share", 16))
        self.assertTrue(resource["devices"][0]["id"].endswith("::0"))
        self.assertEqual(resource["devices"][0]["memory_limit_bytes"] % MIB, 0)
        rows = output(BERTH, "k8s", "devices", "--memory-step", "1GiB")[1].splitlines()
        self.assertEqual(len(rows), 5, "a row for each of the four GPUs")
        self.assertRegex(rows[1], r"^berth\.dev/gpu-memory +GPU-\S+ +23 × 1\.00 GiB +ok$")
        names = [one["name"] for one in json.loads(output(BERTH, "k8s", "devices", "--json", machine="dgx-a100-mig")[1])["resources"]]
        self.assertIn("berth.dev/mig-1g.10gb", names)

    def test_wrong_words(self):
        for words in ((), ("pods",), ("devices", "--shares", "0"), ("device-plugin", "--kubelet", "here"), ("device-plugin", "--interval", "1ms"),
                      ("devices", "--memory-step", "1MiB"), ("devices", "--memory-step", "1GiB", "--shares", "2"), ("dra", "--memory-step", "1GiB")):
            self.assertEqual(output(BERTH, "k8s", *words)[0], 2, words)
        for words in ((), ("--json",)):
            self.assertEqual(output(BERTH, "k8s", "devices", *words, machine="none")[0], 3)


    def test_a_berth_without_its_second_program_says_so(self):
        with tempfile.TemporaryDirectory() as folder:
            alone = shutil.copy(BERTH, folder)
            done = subprocess.run([alone, "k8s", "device-plugin"], capture_output=True, text=True, timeout=30)
        self.assertIn("E1030", done.stderr)
        self.assertNotEqual(done.returncode, 0)

    @unittest.skipUnless(os.path.exists(PLUGIN) and shutil.which("readelf"), "no berth-k8s, or no readelf")
    def test_the_second_program_needs_glibc_alone(self):
        needed = re.findall(r"NEEDED.*\[(.*)\]", subprocess.run(["readelf", "-d", PLUGIN], capture_output=True, text=True, check=True).stdout)
        self.assertEqual([name for name in needed if not re.match(r"lib(c|m|dl|rt|pthread)\.so|ld-linux", name)], [])


@unittest.skipIf(WHY_NOT, WHY_NOT)
class DevicePlugin(unittest.TestCase):
    def setUp(self):
        self.kubelet = kubelet_bed.Kubelet()
        self.addCleanup(self.kubelet.__exit__)
        self.kubelet.start()
        self.process = None
        self.addCleanup(self.end)

    def begin(self, *options, before=(), **keywords):
        words = (*before, BERTH, "k8s", "device-plugin", "--json", "--kubelet", self.kubelet.folder, "--state", self.kubelet.made.name + "/state",
                 "--interval", "200ms", *options)
        self.process = simulated(*words, start_new_session=True, **keywords)

    def end(self):
        """Ends the plugin. Returns its exit code and its events, one for each line of output."""
        if self.process is None or self.process.poll() is not None and self.process.stderr.closed:
            return None, []
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            _, err = self.process.communicate(timeout=20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            raise
        return self.process.returncode, [json.loads(line) for line in err.splitlines() if line.startswith("{")]

    def plugin(self, nth=1):
        plugin = self.kubelet.plugin(self.kubelet.wait_for(nth).endpoint)
        self.addCleanup(plugin.close)
        return plugin

    def test_it_registers_lists_and_gives_whole_gpus(self):
        self.begin()
        request = self.kubelet.wait_for(1)
        self.assertEqual((request.version, request.resource_name, request.endpoint), ("v1beta1", "berth.dev/gpu", "berth-gpu.sock"))
        self.assertTrue(request.options.get_preferred_allocation_available)
        plugin = self.plugin()
        self.assertTrue(plugin.options().get_preferred_allocation_available)
        devices = next(plugin.watch())
        self.assertEqual(len(devices), 4)
        self.assertEqual(set(devices.values()), {"Healthy"})
        first, second = list(devices)[:2]
        answer = plugin.allocate(first, second)
        self.assertEqual(answer.envs["NVIDIA_VISIBLE_DEVICES"], f"{first},{second}")
        self.assertNotIn("LD_PRELOAD", answer.envs)
        with self.assertRaises(kubelet_bed.grpc.RpcError) as refused:
            plugin.allocate("GPU-of-nobody")
        self.assertEqual(refused.exception.code(), kubelet_bed.grpc.StatusCode.NOT_FOUND)
        code, said = self.end()
        self.assertEqual(code, 0)
        # A kubelet may call the plugin before it has answered the registration.
        events = [one["event"] for one in said]
        self.assertEqual((events[0], sorted(events[1:4]), events[4:]), ("offers", ["allocated", "refused", "registered"], ["ends"]))
        self.assertLess(events.index("allocated"), events.index("refused"))
        self.assertEqual([name for name in os.listdir(self.kubelet.folder) if name != "kubelet.sock"], [])

    def test_shares_of_one_gpu_are_held_to_their_memory(self):
        self.begin("--shares", "4")
        plugin = self.plugin()
        devices = next(plugin.watch())
        self.assertEqual(len(devices), 16)
        ids = sorted(devices)
        chosen = plugin.preferred([ids[0], ids[4], ids[5]], [], 2)
        self.assertEqual(len({one.split("::")[0] for one in chosen}), 1)
        answer = plugin.allocate(*chosen)
        mounts = {mount.container_path: mount for mount in answer.mounts}
        self.assertTrue(mounts["/run/berth/guard/limits"].read_only)
        self.assertFalse(mounts["/run/berth/guard/usage"].read_only)
        guard = os.path.dirname(mounts["/run/berth/guard/limits"].host_path)
        library = mounts[answer.envs["LD_PRELOAD"]].host_path
        limit = 2 * self.share_bytes()
        # Runs the container's program on the node, so mounted files are used by their path on the node.
        code, out, err = output("env", f"LD_PRELOAD={library}", f"BERTH_GUARD={guard}", f"CUDA_VISIBLE_DEVICES={self.index_of(chosen[0])}",
                                sys.executable, PROGRAM, "quota", str(limit))
        self.assertEqual(out, f"0 2 0 {limit} 2\n0\n", err)
        self.assertEqual(self.end()[0], 0)

    def test_steps_of_memory_are_of_one_gpu_and_held(self):
        self.begin("--memory-step", "5GiB")
        plugin = self.plugin()
        ids = sorted(next(plugin.watch()))
        self.assertEqual(len(ids), 16, "four steps of 5 GiB in each of four GPUs of 24 GiB")
        chosen = plugin.preferred(ids[2:], [], 3)  # two steps of the first GPU are taken
        self.assertEqual(len({one.split("::")[0] for one in chosen}), 1, chosen)
        answer = plugin.allocate(*chosen)
        guard = os.path.dirname({mount.container_path: mount for mount in answer.mounts}["/run/berth/guard/limits"].host_path)
        library = {mount.container_path: mount for mount in answer.mounts}[answer.envs["LD_PRELOAD"]].host_path
        limit = 15 << 30
        code, out, err = output("env", f"LD_PRELOAD={library}", f"BERTH_GUARD={guard}", f"CUDA_VISIBLE_DEVICES={self.index_of(chosen[0])}",
                                sys.executable, PROGRAM, "quota", str(limit))
        self.assertEqual(out, f"0 2 0 {limit} 2\n0\n", err)
        with self.assertRaises(kubelet_bed.grpc.RpcError) as refused:
            plugin.allocate(ids[0], ids[4])
        self.assertIn("E1039", refused.exception.details())
        self.assertEqual(self.end()[0], 0)

    def share_bytes(self):
        return json.loads(output(BERTH, "k8s", "devices", "--shares", "4", "--json")[1])["resources"][0]["devices"][0]["memory_limit_bytes"]

    def index_of(self, share):
        devices = json.loads(output(BERTH, "ls", "--json")[1])["devices"]
        return next(one["index"] for one in devices if one["uuid"] == share.split("::")[0])

    @unittest.skipIf(os.geteuid() != 0 or not shutil.which("unshare"), "needs root and unshare")
    def test_it_works_as_process_1_of_a_container(self):
        self.begin(before=("unshare", "--pid", "--fork", "--mount-proc", "--kill-child"))
        self.assertEqual(len(next(self.plugin().watch())), 4)
        os.killpg(self.process.pid, signal.SIGKILL)

    @unittest.skipIf(os.geteuid() != 0 or not shutil.which("setpriv"), "needs root and setpriv")
    def test_it_needs_no_capability(self):
        self.begin("--shares", "4", before=("setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"))
        plugin = self.plugin()
        answer = plugin.allocate(next(iter(next(plugin.watch()))))
        self.assertIn("LD_PRELOAD", answer.envs)
        self.assertEqual(self.mode("state"), 0o700)

    def mode(self, *names):
        return stat.S_IMODE(os.stat(os.path.join(self.kubelet.made.name, *names)).st_mode)

    def test_a_folder_that_existed_keeps_its_permissions(self):
        os.mkdir(self.kubelet.made.name + "/state", 0o755)  # as the kubelet does for the DaemonSet
        self.begin("--shares", "4")
        plugin = self.plugin()
        plugin.allocate(next(iter(next(plugin.watch()))))
        self.assertEqual(self.mode("state"), 0o755)
        slots = os.listdir(self.kubelet.made.name + "/state/slots")
        self.assertEqual([self.mode("state/slots", one) for one in slots], [0o700], "the counters are open to all, so their folder must not be")
        self.assertEqual(self.mode("state/slots", slots[0], "usage"), 0o666)

    def test_a_share_that_is_given_again_replaces_no_file(self):
        self.begin("--shares", "4")
        plugin = self.plugin()
        share = next(iter(next(plugin.watch())))
        plugin.allocate(share)
        state = pathlib.Path(self.kubelet.made.name, "state")
        (limits,), (given,) = state.glob("slots/*/limits"), state.glob("given/*")
        before = limits.stat(), given.stat()
        time.sleep(0.02)  # longer than the steps of the file system's clock
        plugin.allocate(share)
        self.assertEqual([one.stat().st_ino for one in (limits, given)], [one.st_ino for one in before])
        self.assertGreater(given.stat().st_mtime_ns, before[1].st_mtime_ns, "the pod counts as starting from now")
        os.chmod(limits, 0o644)
        limits.write_bytes(b"?" + limits.read_bytes()[1:])
        plugin.allocate(share)
        self.assertNotEqual(limits.read_bytes()[:1], b"?")

    def test_a_folder_that_cannot_be_made_ends_it(self):
        blocked = self.kubelet.made.name + "/file"
        open(blocked, "w").close()
        self.process = simulated(BERTH, "k8s", "device-plugin", "--json", "--kubelet", self.kubelet.folder, "--state", blocked + "/state")
        _, said = self.process.communicate(timeout=30)
        self.assertEqual((self.process.returncode, "no_state" in said), (5, True), said)

    def test_cdi_names_and_device_nodes(self):
        self.begin("--pass", "cdi")
        plugin = self.plugin()
        first = next(iter(next(plugin.watch())))
        answer = plugin.allocate(first)
        self.assertEqual([one.name for one in answer.cdi_devices], [f"nvidia.com/gpu={first}"])
        self.assertNotIn("NVIDIA_VISIBLE_DEVICES", answer.envs)
        self.assertEqual(self.end()[0], 0)
        self.begin("--pass", "nodes")
        answer = self.plugin(2).allocate(first)
        self.assertEqual({one.host_path for one in answer.devices}, {"/dev/nvidia0", "/dev/nvidiactl", "/dev/nvidia-uvm", "/dev/nvidia-uvm-tools"})

    def test_a_gpu_that_is_lost_is_unhealthy_and_not_given(self):
        self.begin(faults=("lost:1@4",))
        plugin = self.plugin()
        lists = plugin.watch()
        first = next(lists)
        self.assertEqual(set(first.values()), {"Healthy"})
        for later in lists:
            if "Unhealthy" in later.values():
                break
        (lost,) = [one for one, health in later.items() if health == "Unhealthy"]
        with self.assertRaises(kubelet_bed.grpc.RpcError) as refused:
            plugin.allocate(lost)
        self.assertEqual(refused.exception.code(), kubelet_bed.grpc.StatusCode.UNAVAILABLE)
        self.assertEqual(len(later), 4)

    def other_plugin(self, name="nvidia-gpu.sock"):
        """Plays NVIDIA's device plugin, which listens beside Berth's."""
        end = socket.socket(socket.AF_UNIX)
        end.bind(os.path.join(self.kubelet.folder, name))
        end.listen(8)
        self.addCleanup(end.close)
        return end

    def until(self, lists, wanted):
        """Waits until the list has this set of states. Returns the list."""
        for later in lists:
            if set(later.values()) == wanted:
                return later
        self.fail(f"{wanted} was not seen")

    def test_where_nvidias_plugin_serves_the_node_no_gpu_is_given_twice(self):
        other = self.other_plugin()
        self.begin()
        plugin = self.plugin()
        lists = plugin.watch()
        first = self.until(lists, {"Unhealthy"})
        self.assertEqual(len(first), 4)
        with self.assertRaises(kubelet_bed.grpc.RpcError) as refused:
            plugin.allocate(next(iter(first)))
        self.assertIn("nvidia.com/gpu", refused.exception.details())
        other.close()  # the node's label was changed; the file is still there
        self.until(lists, {"Healthy"})
        plugin.allocate(next(iter(first)))
        os.unlink(os.path.join(self.kubelet.folder, "nvidia-gpu.sock"))
        self.other_plugin()
        with self.assertRaises(kubelet_bed.grpc.RpcError):
            plugin.allocate(next(iter(first)))
        self.until(lists, {"Unhealthy"})
        events = [one for one in self.end()[1] if one["event"].startswith("other_plugin")]
        self.assertEqual([one["event"] for one in events], ["other_plugin", "other_plugin_gone", "other_plugin"])
        self.assertEqual(events[0]["id"], "E1075")
        self.assertIn("nvidia.com/gpu.deploy.device-plugin=false", events[0]["hint"])

    def test_a_gpu_that_a_pod_has_as_nvidia_com_gpu_is_closed_until_the_pod_ends(self):
        uuid = json.loads(output(BERTH, "ls", "--json")[1])["devices"][2]["uuid"]
        self.kubelet.resource, self.kubelet.pods = "nvidia.com/gpu", {"train": uuid}
        self.begin()
        lists = self.plugin().watch()
        found = self.until(lists, {"Healthy", "Unhealthy"})
        self.assertEqual([one for one, health in found.items() if health == "Unhealthy"], [uuid])
        self.kubelet.finish("train")
        self.until(lists, {"Healthy"})
        self.assertIn("default/train", next(one["error"] for one in self.end()[1] if one["event"] == "other_plugin"))

    def next_event(self, *names):
        """Reads the plugin's log until one of these events."""
        for line in self.process.stderr:
            if line.startswith("{") and (event := json.loads(line))["event"] in names:
                return event
        self.fail(f"it ended without {names}")

    def in_container(self, compiler, answer, size, **variables):
        """Starts a program that plays a container with this answer of the plugin, in the plugin's machine. Returns it and its first line."""
        program = os.path.join(self.kubelet.made.name, "program")
        subprocess.run([*compiler, "-o", program, os.path.join(HERE, "kubernetes", "take_memory.c")], check=True, capture_output=True, timeout=60)
        mounts = {mount.container_path: mount.host_path for mount in answer.mounts}
        with open(self.machine) as file:
            folder = file.read().strip()
        process = subprocess.Popen([program, str(size)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, stdin=subprocess.DEVNULL, text=True, env={
            "BERTH_SIM_DIR": folder, "LD_LIBRARY_PATH": folder + "/lib", "LD_PRELOAD": mounts[answer.envs["LD_PRELOAD"]],
            "BERTH_GUARD": os.path.dirname(mounts["/run/berth/guard/limits"]), "PATH": os.environ["PATH"], **variables})
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process, process.stdout.readline()

    def begin_shares(self):
        """Starts the plugin with four shares of each GPU. Returns the answer for a share of GPU 0, and the bytes of a share."""
        self.machine = self.kubelet.made.name + "/machine"
        self.begin("--shares", "4", before=("sh", "-c", f'echo $BERTH_SIM_DIR > {self.machine}; exec "$@"', "sh"))
        plugin = self.plugin()
        share = next(one for one in next(plugin.watch()) if self.index_of(one) == 0)
        return plugin.allocate(share), self.share_bytes()

    def test_a_program_that_clears_ld_preload_is_reported_as_not_enforced_until_it_ends(self):
        answer, share = self.begin_shares()
        process, said = self.in_container(["cc"], answer, share + MIB)
        self.assertEqual(said, f"{share + MIB}: out of memory\n")
        process.kill()
        process, said = self.in_container(["cc"], answer, share + MIB, LD_PRELOAD="")
        self.assertEqual(said, f"{share + MIB}: granted\n")
        event = self.next_event("not_enforced", "enforced")
        self.assertEqual((event["event"], self.index_of(event["device"])), ("not_enforced", 0))
        self.assertIn("LD_PRELOAD", event["why"])
        process.kill()
        self.assertEqual(self.next_event("not_enforced", "enforced")["event"], "enforced")

    @unittest.skipUnless(shutil.which("musl-gcc"), "musl-gcc is not installed (musl-tools)")
    def test_a_program_for_musl_or_a_static_one_runs_and_cannot_use_the_driver(self):
        answer, share = self.begin_shares()
        process, said = self.in_container(["musl-gcc"], answer, share + MIB)
        self.assertTrue(said.startswith("no driver: "), said)
        self.assertEqual(process.wait(30), 3)
        process, said = self.in_container(["cc", "-static"], answer, share + MIB)
        self.assertEqual(said, "")
        self.assertNotEqual(process.wait(30), 0)
        self.assertNotIn("not_enforced", [one["event"] for one in self.end()[1]])

    def test_a_fatal_xid_makes_its_gpu_unhealthy_until_it_works_for_a_while(self):
        self.begin(faults=("xid:1@4=79", "xid:2@4=31"))
        lists = self.plugin().watch()
        states = []
        for later in lists:
            states.append(sorted(later.values()).count("Unhealthy"))
            if states[-1] == 0 and 1 in states:
                break
        self.assertEqual([state for state, before in zip(states, [None, *states]) if state != before], [0, 1, 0])

    def test_a_kubelet_that_is_not_there_is_said_once_and_waited_for(self):
        self.kubelet.stop()
        self.begin()
        line = json.loads(next(line for line in self.process.stderr if '"no_kubelet"' in line))
        self.assertIn("kubelet.sock", line["error"])
        time.sleep(1)
        self.kubelet.start()
        self.kubelet.wait_for(1)
        self.assertEqual([one["event"] for one in self.end()[1]].count("no_kubelet"), 0, "said once")

    def test_a_kubelet_that_starts_again_is_told_again(self):
        self.begin("--shares", "2")
        self.plugin()
        for count in (2, 3):
            self.kubelet.stop()
            time.sleep(0.3)
            self.kubelet.start()
            begun = time.monotonic()
            self.kubelet.wait_for(count)
            self.assertLess(time.monotonic() - begun, 20, "a second, with slack for a busy machine")
            self.assertEqual(len(next(self.plugin(count).watch())), 8)

    def test_its_own_socket_that_is_removed_or_replaced_by_a_file_is_made_again(self):
        self.begin()
        device = next(iter(next(self.plugin().watch())))
        path = os.path.join(self.kubelet.folder, "berth-gpu.sock")
        for count, replace in ((2, False), (3, True)):
            os.unlink(path)
            if replace:
                open(path, "w").close()
            self.plugin(count).allocate(device)

    def test_a_kubelet_that_refuses_is_asked_again(self):
        self.kubelet.refuses = True
        self.begin()
        self.kubelet.wait_for(2)
        self.kubelet.refuses = False
        self.kubelet.wait_for(len(self.kubelet.registered) + 1)
        code, said = self.end()
        self.assertEqual(code, 0)
        events = [one["event"] for one in said]
        self.assertEqual(events.count("not_registered"), 1, "said once")
        self.assertIn("registered", events)

    def test_the_process_that_looks_is_started_again(self):
        self.begin()
        plugin = self.plugin()
        self.assertEqual(len(next(plugin.watch())), 4)
        observers = subprocess.run(["pgrep", "-g", str(self.process.pid), "-f", "observe --parent"], capture_output=True, text=True).stdout.split()
        self.assertEqual(len(observers), 1)
        os.kill(int(observers[0]), signal.SIGKILL)
        time.sleep(2)
        again = subprocess.run(["pgrep", "-g", str(self.process.pid), "-f", "observe --parent"], capture_output=True, text=True).stdout.split()
        self.assertEqual(len(again), 1)
        self.assertNotEqual(again, observers)
        self.assertEqual(len(next(plugin.watch())), 4)


if __name__ == "__main__":
    unittest.main()
