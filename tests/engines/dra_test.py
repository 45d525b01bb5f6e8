#!/usr/bin/env python3
"""`berth k8s dra` with a fake API server over HTTPS and a fake kubelet over real gRPC, on simulated GPUs: slices, claims, restarts, and an API
server that fails in every way."""
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
PROGRAM = os.path.join(HERE, "..", "guard", "program.py")
GIB = 1 << 30
sys.path.insert(0, HERE)
import kubelet_bed  # noqa: E402

PLUGIN = os.path.join(os.path.dirname(BERTH), "berth-k8s")
WHY_NOT = kubelet_bed.MISSING or ("" if os.path.exists(PLUGIN) else "berth-k8s was not built: no gRPC") or (
    "" if shutil.which("openssl") else "not installed: openssl")
if WHY_NOT:
    print("skipped: " + WHY_NOT)
    sys.exit(77)
import dra_bed  # noqa: E402

FIRST, SECOND = "11111111-0000-4000-8000-000000000001", "22222222-0000-4000-8000-000000000002"


def until(condition, what, seconds=30):
    end = time.monotonic() + seconds
    while not (found := condition()):
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what}")
        time.sleep(0.05)
    return found


class Dra(unittest.TestCase):
    def setUp(self):
        self.made = tempfile.TemporaryDirectory(prefix="bd")
        self.addCleanup(self.made.cleanup)
        self.folder = self.made.name
        self.process = None
        self.api = dra_bed.ApiServer(self.folder)
        self.addCleanup(self.api.end)
        self.kubelet = dra_bed.Kubelet(self.folder)
        self.log = self.folder + "/log"
        self.simulation = None
        self.addCleanup(self.end)

    def begin(self, *options, machine="lab-4x3090", faults=(), node="node1"):
        environment = {key: value for key, value in os.environ.items() if not key.startswith(("LC_", "CUDA_", "SLURM_", "KUBERNETES_"))}
        words = [BERTH, "k8s", "dra", "--json", "--node", node, "--api", self.api.url, "--account", self.api.account, "--kubelet", self.kubelet.folder,
                 "--state", self.folder + "/state", "--cdi", self.folder + "/cdi", "--interval", "200ms", *options]
        with open(self.log, "a") as log:
            self.process = subprocess.Popen([BERTH, "sim", "--machine", machine, *[word for fault in faults for word in ("--fault", fault)], "--", *words],
                                            env={**environment, "LANG": "C"}, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)

    def end(self, sign=signal.SIGTERM):
        if self.process and self.process.poll() is None:
            self.process.send_signal(sign) if sign == signal.SIGTERM else os.killpg(self.process.pid, sign)
            try:
                self.process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                raise

    def events(self, name=None):
        with open(self.log) as file:
            found = [json.loads(line) for line in file if line.startswith("{")]
        return [one for one in found if name in (None, one["event"])]

    def ready(self, *options, **keywords):
        """Begins, registers, and waits for the slices. Returns the published devices."""
        self.begin(*options, **keywords)
        self.kubelet.register()
        return until(self.api.devices, "slices are published")

    def share_mebibytes(self, shares):
        done = subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, "k8s", "devices", "--shares", str(shares), "--json"],
                              capture_output=True, text=True, check=True, timeout=60, stdin=subprocess.DEVNULL)
        return json.loads(done.stdout)["resources"][0]["devices"][0]["memory_limit_bytes"] >> 20

    def cdi(self, uid):
        with open(f"{self.folder}/cdi/berth.dev-claim-{uid}.json") as file:
            return json.load(file)

    def test_it_registers_and_publishes_what_the_machine_has(self):
        devices = self.ready()
        self.assertEqual((self.kubelet.info.type, self.kubelet.info.name, list(self.kubelet.info.supported_versions)),
                         ("DRAPlugin", "gpu.berth.dev", ["v1.DRAPlugin"]))
        self.assertEqual(len(devices), 4)
        attributes = devices[0]["attributes"]
        self.assertTrue(attributes["uuid"]["string"].startswith("GPU-"))
        self.assertIn("3090", attributes["model"]["string"])
        self.assertEqual(devices[0]["capacity"]["memory"]["value"], f"{self.share_mebibytes(1)}Mi")
        (published,) = self.api.slices.values()
        self.assertEqual(published["metadata"]["ownerReferences"][0]["uid"], "uid-of-node")
        self.end()
        self.assertEqual(self.process.returncode, 0)
        # An unchanged restart writes nothing.
        before = self.api.generation()
        self.ready()
        time.sleep(1)
        self.assertEqual(self.api.generation(), before)

    def test_a_claim_is_prepared_once_survives_a_kill_and_is_unprepared(self):
        device = self.ready()[0]
        self.api.allocate("c", FIRST, device["name"])
        answer = self.kubelet.prepare(("c", FIRST))[FIRST]
        self.assertEqual(answer.error, "")
        self.assertEqual((answer.devices[0].device_name, answer.devices[0].pool_name), (device["name"], "node1"))
        self.assertEqual(list(answer.devices[0].cdi_device_ids), [f"berth.dev/claim={FIRST}"])
        file = self.cdi(FIRST)
        self.assertEqual(file["cdiVersion"], "0.5.0")
        self.assertIn("NVIDIA_VISIBLE_DEVICES=" + device["attributes"]["uuid"]["string"], file["devices"][0]["containerEdits"]["env"])
        asked = self.api.calls.count(("GET", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"))
        # The claim is deleted on the server: what was prepared is answered from the journal.
        del self.api.claims["default", "c"]
        self.end(signal.SIGKILL)
        self.begin()
        until(lambda: len(self.events("offers")) == 2, "it starts again")
        self.kubelet.register()
        again = self.kubelet.prepare(("c", FIRST))[FIRST]
        self.assertEqual(again, answer)
        self.assertEqual(self.api.calls.count(("GET", "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c")), asked)
        # After a reboot /var/run is empty, so the CDI file is made again.
        os.unlink(f"{self.folder}/cdi/berth.dev-claim-{FIRST}.json")
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST], answer)
        self.assertEqual(self.cdi(FIRST), file)
        for _ in range(2):
            self.assertEqual(self.kubelet.unprepare(("c", FIRST))[FIRST].error, "")
        self.assertEqual(os.listdir(self.folder + "/cdi"), [])
        self.assertEqual(os.listdir(self.folder + "/state/claims"), [])
        self.assertIn(FIRST, self.kubelet.prepare(("c", FIRST)))
        self.assertIn("404", self.kubelet.prepare(("c", FIRST))[FIRST].error)

    def test_a_part_of_a_gpu_is_held_to_the_memory_that_the_claim_consumes(self):
        devices = self.ready("--shares", "4")
        self.assertEqual(len(devices), 4)
        self.assertTrue(devices[0]["allowMultipleAllocations"])
        self.api.allocate("c", FIRST, devices[0]["name"], memory="2Gi")
        self.api.allocate("d", SECOND, devices[0]["name"], memory="3Gi")
        answers = self.kubelet.prepare(("c", FIRST), ("d", SECOND))
        self.assertEqual((answers[FIRST].error, answers[SECOND].error), ("", ""))
        self.assertEqual(answers[FIRST].devices[0].share_id, "share-0")
        edits = self.cdi(FIRST)["devices"][0]["containerEdits"]
        mounts = {mount["containerPath"]: mount for mount in edits["mounts"]}
        self.assertIn("ro", mounts["/run/berth/guard/limits"]["options"])
        guard = os.path.dirname(mounts["/run/berth/guard/limits"]["hostPath"])
        library = mounts["/run/berth/libberth-guard.so"]["hostPath"]
        # A process with the files of the claim plays its container.
        done = subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", "env", f"LD_PRELOAD={library}", f"BERTH_GUARD={guard}",
                               "CUDA_VISIBLE_DEVICES=" + devices[0]["attributes"]["uuid"]["string"], sys.executable, PROGRAM, "quota", str(2 * GIB)],
                              capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(done.stdout, f"0 2 0 {2 * GIB} 2\n0\n", done.stderr)

    def test_a_cluster_without_consumable_capacity_gets_a_device_for_each_share(self):
        self.api.consumable = False
        self.begin("--shares", "2")
        self.kubelet.register()
        devices = until(lambda: len(self.api.devices()) == 8 and self.api.devices(), "eight devices")
        self.assertEqual(devices[0]["capacity"]["memory"]["value"], f"{self.share_mebibytes(2)}Mi")
        self.assertEqual(len(self.events("no_consumable_capacity")), 1)
        self.api.allocate("c", FIRST, devices[1]["name"])
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")
        self.assertIn("BERTH_GUARD=/run/berth/guard", self.cdi(FIRST)["devices"][0]["containerEdits"]["env"])

    def offered(self):
        """The name of each device that the API server was ever given."""
        with self.api.lock:
            return {device["name"] for body in self.api.bodies for device in body["spec"]["devices"]}

    def test_a_server_without_consumable_capacity_is_never_given_a_divided_gpu_whole(self):
        self.api.consumable = False
        for _ in range(2):  # also when the driver starts again beside pods that hold shares
            self.begin("--shares", "2")
            self.kubelet.register()
            until(lambda: len(self.api.devices()) == 8, "eight devices")
            self.end()
        self.assertEqual({name.rpartition("-share-")[2] for name in self.offered()}, {"0", "1"})
        self.assertEqual(len(self.offered()), 8)

    def test_a_shared_gpu_that_was_given_away_whole_is_refused(self):
        device = self.ready("--shares", "2")[0]["name"]
        self.api.allocate("c", FIRST, device)
        self.assertIn("E1032", self.kubelet.prepare(("c", FIRST))[FIRST].error)
        for odd in ("-share-0", "-share-99", "-share-junk", "-share-"):
            self.api.allocate("c", FIRST, device + odd)
            error = self.kubelet.prepare(("c", FIRST))[FIRST].error
            self.assertEqual("E1031" in error, odd != "-share-0", error)
            self.kubelet.unprepare(("c", FIRST))

    def test_another_number_of_shares_does_not_give_a_held_gpu_away_twice(self):
        self.api.consumable = False
        self.begin("--shares", "2")
        self.kubelet.register()
        held = until(lambda: len(self.api.devices()) == 8 and self.api.devices(), "eight devices")[1]["name"]
        self.api.allocate("c", FIRST, held)
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")
        with open(f"{self.folder}/state/claims/{FIRST}/limits", "rb") as file:
            limit = file.read()
        self.end()
        self.api.bodies.clear()
        self.begin("--shares", "4")
        self.kubelet.register()
        until(lambda: len(self.api.devices()) == 12, "the other three GPUs have four shares each")
        gpu = held.rpartition("-share-")[0]
        self.assertFalse([name for name in self.offered() if name.startswith(gpu)])
        self.assertEqual([one["devices"] for one in self.events("withheld")], [gpu])
        # After a reboot, the claim gets what it had.
        os.unlink(f"{self.folder}/cdi/berth.dev-claim-{FIRST}.json")
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")
        with open(f"{self.folder}/state/claims/{FIRST}/limits", "rb") as file:
            self.assertEqual(file.read(), limit)
        # A claim that was allocated before the change is refused if its share is offered no more.
        self.api.allocate("d", SECOND, gpu + "-share-4")
        self.assertIn("E1031", self.kubelet.prepare(("d", SECOND))[SECOND].error)
        self.assertEqual(self.kubelet.unprepare(("c", FIRST))[FIRST].error, "")
        until(lambda: len(self.api.devices()) == 16, "it is offered again")

    def test_what_the_kubelet_no_longer_waits_for_leaves_nothing(self):
        device = self.ready()[0]["name"]
        self.api.allocate("c", FIRST, device)
        path = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/c"
        self.api.slow[path] = 3
        request = self.kubelet.dra.NodePrepareResourcesRequest()
        request.claims.add(namespace="default", name="c", uid=FIRST)
        with self.assertRaises(dra_bed.grpc.RpcError):
            self.kubelet.call("NodePrepareResources", request, self.kubelet.dra.NodePrepareResourcesResponse, seconds=1)
        self.assertEqual(self.kubelet.unprepare(("c", FIRST))[FIRST].error, "")
        until(lambda: self.events("not_prepared") or self.events("prepared"), "the late call ends")
        self.assertEqual(os.listdir(self.folder + "/cdi"), [])
        self.assertEqual(os.listdir(self.folder + "/state/claims"), [])

    def inside(self, uid, devices, **variables):
        """`berth k8s verify --inside --json` in a process that plays the claim's container. Returns the exit code without --json, and the document."""
        edits = self.cdi(uid)["devices"][0]["containerEdits"]
        mounts = {mount["containerPath"]: mount["hostPath"] for mount in edits["mounts"]}
        own = {"LD_PRELOAD": mounts["/run/berth/libberth-guard.so"], "BERTH_GUARD": os.path.dirname(mounts["/run/berth/guard/limits"]),
               "BERTH_DEVICES": ",".join(devices), "CUDA_VISIBLE_DEVICES": ",".join(devices), **variables}
        words = [BERTH, "sim", "--machine", "lab-4x3090", "--", "env", *(f"{key}={value}" for key, value in own.items()), BERTH, "k8s", "verify", "--inside"]
        done = [subprocess.run([*words, *more], capture_output=True, text=True, timeout=120, stdin=subprocess.DEVNULL) for more in ((), ("--json",))]
        return done[0].returncode, json.loads(done[1].stdout), done[0].stdout

    def test_verify_inside_checks_every_device_and_reports_a_missing_limit(self):
        devices = self.ready("--shares", "4")
        self.api.allocate("c", FIRST, devices[0]["name"], devices[1]["name"], memory="2Gi")
        results = self.api.claims["default", "c"]["status"]["allocation"]["devices"]["results"]
        results[1]["consumedCapacity"]["memory"] = "3Gi"
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")
        uuids = [one["attributes"]["uuid"]["string"] for one in devices[:2]]
        code, said, shown = self.inside(FIRST, uuids)
        self.assertEqual((code, said["quota_bytes"], said["failure"]), (0, 2 * GIB, None), shown)
        self.assertNotIn(False, [check["holds"] for check in said["checks"]], said)
        # The test is of both devices: with the limit of one for both, the other would not hold.
        self.assertIn("the quota was enforced", shown)
        code, said, shown = self.inside(FIRST, uuids, BERTH_GUARD="/nonexistent")
        self.assertEqual((code, said["quota_bytes"]), (1, None), shown)
        self.assertIn("/nonexistent/limits", said["limits_failure"])
        self.assertIn("without a memory limit", shown)

    def test_the_driver_ends_while_it_waits_for_the_api_server(self):
        self.api.retry_after = 5
        self.api.answers = [429] * 100
        self.begin()
        until(lambda: self.api.calls, "it has asked")
        time.sleep(0.5)
        asked = len(self.api.calls)
        begun = time.monotonic()
        self.end()
        self.assertLess(time.monotonic() - begun, 3)
        self.assertEqual(len(self.api.calls), asked)

    def test_slices_that_the_kubelet_deletes_come_back(self):
        self.ready()
        with self.api.lock:
            self.api.slices.clear()
        self.kubelet.register()  # as after its restart
        until(self.api.devices, "the slices come back")

    def tainted(self):
        """(device, value of the taint, time) of the published devices."""
        return [(one["name"], taint["value"], taint["timeAdded"]) for one in self.api.devices() for taint in one.get("taints", ())]

    def test_a_gpu_with_a_fatal_xid_is_tainted_until_it_is_well(self):
        first = self.ready("--shares", "2", faults=("xid:1@6=79",))

        def stored():
            with self.api.lock:
                return [[(one["name"], one["taints"][0]["value"]) for one in body["spec"]["devices"] if "taints" in one] for body in self.api.bodies]
        until(lambda: [(first[1]["name"], "xid-79")] in stored(), "the GPU has a taint")
        until(lambda: self.api.devices() == first, "the taint is gone")
        self.assertEqual({len(body["spec"]["devices"]) for body in self.api.bodies}, {4})

    def test_a_lost_gpu_is_tainted_and_only_a_claim_that_tolerates_it_gets_it(self):
        first = self.ready(faults=("lost:1@6",))
        ((name, value, _),) = until(self.tainted, "the lost GPU has a taint")
        self.assertEqual((name, value), (first[1]["name"], "lost"))
        rest = {one["name"]: {**one, "taints": None} for one in self.api.devices()}
        self.assertEqual(rest, {one["name"]: {**one, "taints": None} for one in first})
        self.api.allocate("c", FIRST, name)
        self.assertIn("E1032", self.kubelet.prepare(("c", FIRST))[FIRST].error)
        results = self.api.claims["default", "c"]["status"]["allocation"]["devices"]["results"]
        results[0]["tolerations"] = [{"key": "gpu.berth.dev/unhealthy", "operator": "Exists"}]
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")

    @unittest.skipIf(os.geteuid() != 0, "only root may move the GPUs of all users")
    def test_gpus_in_berths_own_queue_are_tainted_and_come_back_when_their_claims_have_ended(self):
        first = self.ready()
        self.api.allocate("c", FIRST, first[0]["name"])
        self.api.allocate("d", SECOND, first[1]["name"])
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")

        def move(word, *more):
            return subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, "k8s", word, "--state", self.folder + "/state", "--kubelet",
                                   self.kubelet.folder, *more], capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        late = move("reclaim", "--timeout", "1s")
        self.assertEqual(late.returncode, 4, late.stdout + late.stderr)
        self.assertIn("pods of Kubernetes: default/c", late.stderr)
        self.assertIn("E1032", self.kubelet.prepare(("d", SECOND))[SECOND].error)
        until(lambda: {value for _, value, _ in self.tainted()} == {"berth"}, "taints")
        self.assertEqual(len(self.tainted()), 4)
        self.assertEqual({taint["key"] for one in self.api.devices() for taint in one["taints"]}, {"gpu.berth.dev/own-queue"})
        self.kubelet.unprepare(("c", FIRST))
        back = move("reclaim")
        self.assertEqual(back.returncode, 0, back.stderr)
        lent = move("lend")
        self.assertEqual(lent.returncode, 0, lent.stderr)
        # The plugin sees at its next look that the GPU is lent; a kubelet tries again until then.
        until(lambda: self.kubelet.prepare(("d", SECOND))[SECOND].error == "", "the claim gets its GPU")
        until(lambda: self.api.devices() == first, "the taints are gone")

    def test_beside_another_plugin_every_gpu_is_tainted_and_no_toleration_opens_it(self):
        os.mkdir(self.kubelet.folder + "/device-plugins")
        path = self.kubelet.folder + "/device-plugins/nvidia-gpu.sock"
        with socket.socket(socket.AF_UNIX) as other:
            other.bind(path)
            other.listen(8)
            devices = self.ready()
            self.assertEqual([one["taints"][0]["key"] for one in devices], ["gpu.berth.dev/other-plugin"] * 4)
            self.api.allocate("c", FIRST, devices[0]["name"])
            results = self.api.claims["default", "c"]["status"]["allocation"]["devices"]["results"]
            results[0]["tolerations"] = [{"operator": "Exists"}]
            self.assertIn("nvidia.com/gpu", self.kubelet.prepare(("c", FIRST))[FIRST].error)
            self.assertEqual([one["id"] for one in self.events("other_plugin")], ["E1075"])
        until(lambda: not self.tainted(), "the taints are gone")
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")

    def published(self):
        """The names of the devices that are published, by node."""
        with self.api.lock:
            found = {}
            for one in self.api.slices.values():
                found.setdefault(one["spec"]["nodeName"], set()).update(device["name"] for device in one["spec"]["devices"])
            return found

    def test_a_renamed_node_loses_its_former_slices_and_its_held_gpus_are_not_offered_twice(self):
        held, *rest = (one["name"] for one in self.ready("--shares", "2"))
        self.api.allocate("c", FIRST, held, memory="2Gi")
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")
        self.end()
        self.api.nodes["node2"] = "uid-of-node2"
        self.begin("--shares", "2", node="node2")
        self.kubelet.register()
        until(lambda: self.published() == {"node2": set(rest)}, "the slices have the new name, without the GPU that is held")
        self.assertEqual(self.events("former_name")[0]["node"], "node1")
        self.assertEqual([one["devices"] for one in self.events("withheld")], [held])
        self.api.allocate("d", SECOND, held, memory="2Gi")  # allocated on node1 before it was renamed
        error = self.kubelet.prepare(("d", SECOND))[SECOND].error
        self.assertIn("has GPUs of the node node1, but this driver serves the node node2 (E1078)", error)
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "", "what runs is left running")
        self.assertEqual(self.kubelet.unprepare(("c", FIRST))[FIRST].error, "")
        until(lambda: self.published() == {"node2": {held, *rest}}, "the GPU is offered when its claim has ended")

    def test_where_the_former_slices_may_not_be_removed_the_log_says_the_command(self):
        self.ready()
        self.end()
        self.api.nodes["node2"], self.api.refuses_deletes = "uid-of-node2", True
        self.begin(node="node2")
        self.kubelet.register()
        said = until(lambda: self.events("former_name"), "it says why")[0]
        self.assertEqual((said["id"], said["hint"]), ("E1077", "kubectl delete node node1"))
        self.assertEqual(set(self.published()), {"node1", "node2"})
        with self.api.lock:  # the command deletes the node, and Kubernetes its slices
            del self.api.nodes["node1"]
            self.api.slices = {name: one for name, one in self.api.slices.items() if one["spec"]["nodeName"] == "node2"}

        def known():
            with open(self.folder + "/state/node") as file:
                return file.read() == "node2"
        until(known, "the former name is forgotten")

    def test_slices_of_another_machine_whose_state_was_copied_are_left(self):
        self.ready()
        self.end()
        self.api.nodes["node2"], self.api.machines["node2"] = "uid-of-node2", "the-copy"
        self.begin(node="node2")
        self.kubelet.register()
        until(lambda: "node2" in self.published(), "the copy publishes its own")
        time.sleep(1)
        self.assertEqual(set(self.published()), {"node1", "node2"})

    def test_a_node_that_is_removed_gets_no_slices_until_it_is_there_again(self):
        self.ready()

        def is_removed():
            with self.api.lock:
                if not self.api.slices or self.api.calls[-1] != ("GET", dra_bed.SLICES):
                    return False  # it has not compared what it wrote yet
                del self.api.nodes["node1"]
                self.api.slices.clear()
                return True
        until(is_removed, "it has compared what it wrote")
        self.kubelet.register()
        said = until(lambda: self.events("not_published"), "it says why")[0]
        self.assertEqual((said["id"], said["error"]), ("E1076", "the cluster has no node node1: it was removed or renamed"))
        self.assertEqual(self.published(), {})
        with self.api.lock:
            self.api.nodes["node1"] = "uid-of-the-new-node"
        until(self.published, "the slices come back")
        (slice_,) = self.api.slices.values()
        self.assertEqual(slice_["metadata"]["ownerReferences"][0]["uid"], "uid-of-the-new-node")

    def test_a_taint_keeps_its_time_when_the_slice_changes(self):
        self.ready(faults=("lost:1@5", "lost:2@9"))
        (old,) = until(self.tainted, "the first lost GPU")
        time.sleep(1.1)  # timeAdded has whole seconds
        new = until(lambda: len(self.tainted()) == 2 and self.tainted(), "the second lost GPU")
        self.assertIn(old, new)

    def test_a_lost_gpu_leaves_the_slice_where_the_cluster_keeps_no_taints(self):
        self.api.taints = False
        first = self.ready(faults=("lost:1@6",))
        self.assertEqual(len(first), 4)
        until(lambda: len(self.api.devices()) == 3, "the lost GPU leaves")
        (lost,) = {one["name"] for one in first} - {one["name"] for one in self.api.devices()}
        with self.api.lock:
            self.assertFalse([body for body in self.api.bodies if "taints" in str(body)], "it was never stored without its taint")
        self.assertEqual(len(self.events("no_device_taints")), 1)
        self.assertGreater(self.api.generation(), 1)
        self.api.allocate("c", FIRST, lost)
        self.assertIn("E1032", self.kubelet.prepare(("c", FIRST))[FIRST].error)
        self.assertEqual(os.listdir(self.folder + "/cdi"), [])

    def test_an_api_server_that_fails_is_retried_within_bounds_and_named(self):
        device = self.ready()[0]["name"]
        self.api.allocate("c", FIRST, device)
        for faults in ([429, 500], [503], [500, 429]):
            with self.subTest(faults):
                self.api.answers = list(faults)
                self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")
                self.kubelet.unprepare(("c", FIRST))
        self.api.answers = [500] * 100
        begun = time.monotonic()
        error = self.kubelet.prepare(("c", FIRST))[FIRST].error
        self.assertLess(time.monotonic() - begun, 25)
        self.assertIn("500 status 500 on purpose", error)
        self.assertIn("E0969", error)
        self.assertLess(100 - len(self.api.answers), 30, "retries are bounded")
        self.api.answers = [403] * 100
        self.assertIn("403", self.kubelet.prepare(("c", FIRST))[FIRST].error)
        self.api.answers = []
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")

    def test_an_api_server_that_hangs_does_not_hang_the_driver(self):
        device = self.ready()[0]["name"]
        self.api.allocate("c", FIRST, device)
        self.api.answers = ["hang"] * 20
        begun = time.monotonic()
        error = self.kubelet.prepare(("c", FIRST))[FIRST].error
        self.assertLess(time.monotonic() - begun, 25)
        self.assertIn("does not answer", error)
        self.end()
        self.assertEqual(self.process.returncode, 0)

    def test_conflicts_while_publishing_are_solved(self):
        self.api.answers = [None, None, 409]
        self.assertEqual(len(self.ready()), 4)
        self.assertEqual(self.api.answers, [], "the conflict was met")
        self.assertGreaterEqual(sum(method == "GET" and path == dra_bed.SLICES for method, path in self.api.calls), 2)

    def test_a_server_with_another_certificate_is_not_believed(self):
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=other",
                        "-keyout", self.folder + "/other.key", "-out", self.api.account + "/ca.crt"], check=True, capture_output=True, timeout=60)
        self.begin()
        until(lambda: os.path.exists(self.log) and self.events("not_published"), "it says why", 40)
        self.assertIn("certificate", self.events("not_published")[0]["error"])
        self.assertEqual(self.api.calls, [])

    def test_hostile_claims_change_nothing(self):
        device = self.ready()[0]["name"]
        self.api.allocate("c", FIRST, device)
        self.assertIn("invalid uid", self.kubelet.prepare(("c", "../../x"))["../../x"].error)
        self.assertIn("another claim", self.kubelet.prepare(("c", SECOND))[SECOND].error)
        self.api.allocate("none", SECOND, "gpu-of-nobody")
        self.assertIn("E1031", self.kubelet.prepare(("none", SECOND))[SECOND].error)
        self.api.claims["default", "odd"] = {"metadata": {"uid": SECOND, "name": 3}, "status": {"allocation": {"devices": {"results": [7, {"driver": []}]}}}}
        self.assertIn("E1031", self.kubelet.prepare(("odd", SECOND))[SECOND].error)
        self.assertEqual(os.listdir(self.folder + "/cdi"), [])
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")

    def test_a_journal_that_cannot_be_written_leaves_no_draft(self):
        device = self.ready()[0]["name"]
        self.api.allocate("c", FIRST, device)
        claims = self.folder + "/state/claims"
        os.mkdir(f"{claims}/{FIRST}.json")
        self.assertIn("E0520", self.kubelet.prepare(("c", FIRST))[FIRST].error)
        self.assertEqual(os.listdir(claims), [FIRST + ".json"])
        os.rmdir(f"{claims}/{FIRST}.json")
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")

    def test_a_damaged_journal_is_moved_aside(self):
        device = self.ready()[0]["name"]
        self.api.allocate("c", FIRST, device)
        self.kubelet.prepare(("c", FIRST))
        self.end()
        path = f"{self.folder}/state/claims/{FIRST}.json"
        with open(path, "w") as file:
            file.write('{"schema":1,"na')
        self.ready()
        self.assertEqual(len(self.events("journal_damaged")), 1)
        self.assertTrue(os.path.exists(path + ".damaged"))
        self.assertEqual(self.kubelet.prepare(("c", FIRST))[FIRST].error, "")


if __name__ == "__main__":
    unittest.main()
