#!/usr/bin/env python3
"""Berth in a real one-node Kubernetes (see node.py), on a simulated GPU: the chart, shares, the guard, restarts. Started by `./dev test --kubernetes`."""
import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.abspath(os.path.join(HERE, "..", "..", ".."))
INTEGRATION = os.path.join(ROOT, "integrations", "kubernetes")
MIB = 1 << 20
with open(os.path.join(HERE, "versions.env")) as opened:
    VERSIONS = dict(line.split()[0].split("=") for line in opened if "=" in line and not line.startswith("#"))
sys.path[:0] = [HERE, os.path.dirname(HERE)]
import image  # noqa: E402
import node as beds  # noqa: E402
import other_version  # noqa: E402
from node import until  # noqa: E402


def why_not():
    if os.geteuid() != 0:
        return "needs root"
    missing = [name for name in ("unshare", "nsenter", "ip", "openssl", "cc") if not shutil.which(name)]
    if missing:
        return "not installed: " + " ".join(missing)
    if not os.path.exists(os.path.join(os.path.dirname(BERTH), "berth-k8s")):
        return "berth-k8s was not built: no gRPC"
    return "" if beds.programs() else "Kubernetes was not built; ./dev test --kubernetes builds it"


class Simulation:
    """`berth sim` with one GPU, for as long as the tests run."""

    def __init__(self, *options):
        self.process = subprocess.Popen([BERTH, "sim", "--machine", "workstation-4090", *options, "--", "sh", "-c", "echo $BERTH_SIM_DIR; exec sleep 86400"],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.folder = self.process.stdout.readline().strip()

    def end(self):
        self.process.terminate()
        self.process.wait(timeout=30)
        self.process.stdout.close()


def make_images(folder):
    program = os.path.join(folder, "take_memory")
    subprocess.run(["cc", "-o", program, os.path.join(HERE, "take_memory.c")], check=True, timeout=60)
    for name in ("berth", "berth-k8s"):
        shutil.copy(os.path.join(os.path.dirname(BERTH), name), folder)
        subprocess.run(["strip", os.path.join(folder, name)], check=True, timeout=60)
    old = os.path.join(folder, "berth")
    new = other_version.write(old, os.path.join(folder, "newer"))
    path = os.path.join(folder, "images.tar")
    image.write(path, os.path.join(beds.programs(), "busybox"), [old, old + "-k8s", program], [new, new + "-k8s"])
    return path


def chart(**values):
    """The chart's objects: by Helm if it is here, else by the renderer of chart_test.py."""
    spec = importlib.util.spec_from_file_location("chart_test", os.path.join(ROOT, "tests", "engines", "chart_test.py"))
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    render = (module.WITH_HELM or [module.rendered_by_own])[0]
    texts = render({"image": "test.local/berth:1", "imagePullPolicy": "Never", "priorityClassName": "", **values})
    # Helm installs a namespace before what is in it; kubectl takes objects as they come.
    return sorted((one for one in texts if one.strip()), key=lambda one: "kind: Namespace" not in one)


def pod(name, *words, shares=1, resource="berth.dev/gpu-share", **more):
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
            "spec": {"terminationGracePeriodSeconds": 1, "restartPolicy": "Never", "runtimeClassName": "nvidia", **more, "containers": [
                {"name": "main", "image": "test.local/berth:1", "imagePullPolicy": "Never", "command": ["/usr/local/bin/take_memory", *words],
                 "resources": {"limits": {resource: shares}}}]}}


@contextlib.contextmanager
def cluster(install=True, values=None, **keywords):
    """A node until the end of the block. `install`: with the chart (two shares of one GPU)."""
    with tempfile.TemporaryDirectory() as folder:
        simulation = Simulation()
        try:
            with beds.Node(simulation.folder, make_images(folder), **keywords) as node:
                info = node.get("node", "node1")["status"]["nodeInfo"]
                print(f"Kubernetes {info['kubeletVersion']}, {info['containerRuntimeVersion']}", file=sys.stderr)
                node.kubectl("label", "node", "node1", "berth.dev/offer=true")
                if install:
                    node.apply(*chart(shares=2, **(values or {})))
                    until(lambda: node.allocatable("berth.dev/gpu-share") == 2, "the node offers two shares", 60)
                yield node
        finally:
            simulation.end()


def move(node, word, *more):
    """`berth k8s lend` or `reclaim` on the node."""
    return node.run("env", f"BERTH_SIM_DIR={node.simulation}", f"LD_LIBRARY_PATH={node.simulation}/lib", f"BERTH_RUNTIME_DIR={node.simulation}/lend",
                    BERTH, "k8s", word, "--interval", "1s", *more, check=False)


def listed(node):
    """The containers that have devices, as metrics name them."""
    said = node.run(os.path.join(os.path.dirname(BERTH), "berth-k8s"), "pods", "--kubelet", "/var/lib/kubelet").stdout
    return sorted(((one["device"], one["namespace"], one["pod"], one["container"]) for one in json.loads(said)["pods"]), key=lambda one: one[2])


def setUpModule():
    global BED
    BED = unittest.enterModuleContext(cluster())


class Cluster(unittest.TestCase):
    """Tests on one node. Each removes its pods."""

    def setUp(self):
        self.node = BED

    def tearDown(self):
        self.node.kubectl("delete", "pod", "--all", "--force", "--grace-period=0", "--wait=true")

    def logs(self, name, seconds=60):
        return until(lambda: self.node.kubectl("logs", name, check=False).stdout, f"{name} prints", seconds)

    def wait_for(self, name, *states, seconds=60):
        return until(lambda: self.node.pod_state(name) in states, f"{name} is {' or '.join(states)}", seconds)


class Shares(Cluster):
    def share_bytes(self):
        done = subprocess.run([BERTH, "k8s", "devices", "--shares", "2", "--json"], capture_output=True, text=True, check=True,
                              env={**os.environ, "BERTH_SIM_DIR": self.node.simulation, "LD_LIBRARY_PATH": self.node.simulation + "/lib"}, timeout=60)
        return json.loads(done.stdout)["resources"][0]["devices"][0]["memory_limit_bytes"]

    def test_two_shares_run_and_the_third_pod_waits_for_one(self):
        self.node.apply(pod("one", "1048576"), pod("two", "1048576"))
        for name in ("one", "two"):
            self.wait_for(name, "Running")
            self.assertEqual(self.logs(name), "1048576: granted\n")
        found = listed(self.node)
        self.assertEqual([one[1:] for one in found], [("default", "one", "main"), ("default", "two", "main")])
        self.assertTrue(found[0][0] == found[1][0] and found[0][0].startswith("GPU-"), found)
        self.node.apply(pod("three", "1048576"))

        def unschedulable():
            found = self.node.get("pod", "three")
            return [one["message"] for one in found["status"].get("conditions", []) if one["type"] == "PodScheduled" and one["status"] == "False"]
        self.assertIn("berth.dev/gpu-share", until(unschedulable, "the scheduler says why")[0])
        time.sleep(2)
        self.assertEqual(self.node.pod_state("three"), "Pending")
        self.node.kubectl("delete", "pod", "one", "--grace-period=1")
        self.wait_for("three", "Running")
        self.assertEqual(self.logs("three"), "1048576: granted\n")
        self.assertEqual(self.node.pod_state("two"), "Running")

    def test_a_gpu_goes_to_berths_own_queue_when_its_pods_have_ended(self):
        self.node.apply(pod("stays", "1048576"))
        self.logs("stays")
        time.sleep(2.5)  # from then on only the kubelet's own list counts
        self.assertIn("pods of Kubernetes: default/stays", move(self.node, "reclaim", "--timeout", "1s").stderr)
        until(lambda: self.node.allocatable("berth.dev/gpu-share") == 0, "the node offers nothing", 60)
        self.node.kubectl("delete", "pod", "stays", "--grace-period=1", "--wait=true")
        back = move(self.node, "reclaim", "--timeout", "60s")
        self.assertEqual(back.returncode, 0, back.stderr)
        lent = move(self.node, "lend")
        self.assertEqual(lent.returncode, 0, lent.stderr)
        until(lambda: self.node.allocatable("berth.dev/gpu-share") == 2, "the node offers two shares again", 60)

    def test_the_guard_refuses_more_than_the_share(self):
        share = self.share_bytes()
        self.node.apply(pod("greedy", str(share + MIB), str(share - MIB)), pod("modest", str(share - MIB)))
        self.wait_for("greedy", "Running")
        lines = self.logs("greedy").splitlines()
        self.assertEqual([line for line in lines if not line.startswith("berth: ")], [f"{share + MIB}: out of memory", f"{share - MIB}: granted"])
        self.assertEqual(len([line for line in lines if line.startswith("berth: out of memory by the job's quota")]), 1, lines)
        self.assertEqual(self.logs("modest"), f"{share - MIB}: granted\n")
        environment = self.node.kubectl("exec", "greedy", "--", "env").stdout
        self.assertIn("BERTH_GUARD=/run/berth/guard", environment)
        self.assertNotEqual(self.node.kubectl("exec", "greedy", "--", "sh", "-c", "echo x > /run/berth/guard/limits", check=False).returncode, 0)

    def test_without_the_guard_the_same_request_is_granted(self):
        # Shows that the guard, not the simulated GPU, refuses in the test above.
        share = self.share_bytes()
        free = pod("free", str(share + MIB))
        free["spec"]["containers"][0]["command"] = ["env", "-u", "LD_PRELOAD", "/usr/local/bin/take_memory", str(share + MIB)]
        self.node.apply(free)
        self.wait_for("free", "Running")
        self.assertEqual(self.logs("free"), f"{share + MIB}: granted\n")

    def test_the_pods_of_an_indexed_job_meet(self):
        # The example, with shares, and with a program of this image in place of Python.
        work = """
            if [ $RANK = 0 ]; then echo "rank 0 of $WORLD_SIZE heard: $(busybox nc -l -p $MASTER_PORT)"
            else until echo "rank $RANK of $WORLD_SIZE" | busybox nc $MASTER_ADDR $MASTER_PORT; do sleep 0.2; done; echo sent; fi"""
        text = read("examples", "indexed-job.yaml").replace("IMAGE", "test.local/berth:1").replace("berth.dev/gpu: 1", "berth.dev/gpu-share: 1")
        self.assertIn('"python", "train.py"]', text)
        self.node.apply(text.replace('"python", "train.py"]', f'"sh", "-c", {json.dumps(work)}]'))
        try:
            until(lambda: (self.node.get("job", "train")["status"].get("succeeded") or 0) == 2, "both pods end well", 120)
            said = self.node.kubectl("logs", "-l", "job-name=train", "--tail=-1").stdout
        finally:
            self.node.kubectl("delete", "job,service", "train", "--cascade=foreground", "--wait=true")
        self.assertIn("[rank 0] rank 0 of 2 heard: rank 1 of 2\n", said)
        self.assertIn("[rank 1] sent\n", said)

    def test_restarts_of_the_kubelet_and_of_the_plugin_lose_nothing(self):
        self.node.apply(pod("stays", "1048576"))
        self.wait_for("stays", "Running")
        begun = self.node.get("pod", "stays")["status"]["containerStatuses"][0]
        self.node.restart("kubelet")
        until(lambda: self.node.allocatable("berth.dev/gpu-share") == 2, "the plugin registers again after the kubelet's restart")
        self.node.kubectl("delete", "pod", "-n", "berth", "-l", "app.kubernetes.io/name=berth-device-plugin", "--grace-period=5")
        time.sleep(2)
        until(lambda: self.node.allocatable("berth.dev/gpu-share") == 2, "a new plugin registers")
        self.node.apply(pod("later", "1048576"))
        self.wait_for("later", "Running")
        self.assertEqual(self.logs("later"), "1048576: granted\n")
        now = self.node.get("pod", "stays")["status"]["containerStatuses"][0]
        self.assertEqual((now["containerID"], now["restartCount"]), (begun["containerID"], 0))
        # Both shares are taken, so the restarts have not freed the first pod's.
        self.node.apply(pod("third", "1048576"))
        time.sleep(3)
        self.assertEqual(self.node.pod_state("third"), "Pending")


def verify(node, *options):
    """`berth k8s verify --json` with the node's kubectl. Returns the exit code and the document."""
    done = node.run(BERTH, "k8s", "verify", "--json", "--timeout", "20s", *options, check=False)
    if not done.stdout.startswith("{"):
        raise AssertionError(done.stderr)
    return done.returncode, json.loads(done.stdout)


class Verify(Cluster):
    def test_it_passes_where_the_quota_holds(self):
        code, said = verify(self.node)
        self.assertEqual((code, said["holds"], said["problem"]), (0, True, None), said)
        self.assertTrue(said["devices"][0].startswith("GPU-"))
        self.assertGreater(said["quota_bytes"], 1 << 30)
        self.assertIn({"id": "over", "holds": True, "words": "one byte more than the quota is refused"}, said["checks"])
        self.assertEqual(said["runtime"], f"containerd://{VERSIONS['CONTAINERD']}")
        until(lambda: not self.node.get("pods")["items"], "the pod is removed")

    def test_it_fails_where_no_runtime_gives_a_device(self):
        code, said = verify(self.node, "--runtime-class", "")
        self.assertEqual((code, said["problem"]), (1, "no_device"), said)
        self.assertIn("RuntimeClass", said["advice"])

    def test_it_fails_where_no_node_has_the_resource(self):
        code, said = verify(self.node, "--resource", "berth.dev/gpu")
        self.assertEqual((code, said["problem"]), (1, "not_scheduled"), said)
        self.assertIn("Insufficient berth.dev/gpu", said["detail"])

    def test_it_fails_where_the_image_is_not_there(self):
        code, said = verify(self.node, "--image", "test.local/nothing:1")
        self.assertEqual((code, said["problem"]), (1, "not_started"), said)

    def test_without_an_api_server_it_says_so(self):
        done = self.node.run("env", "KUBECONFIG=/nonexistent", BERTH, "k8s", "verify", check=False)
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("E0968", done.stderr)


def read(*names):
    with open(os.path.join(INTEGRATION, *names)) as file:
        return file.read()


def install_driver(node):
    """dra.yaml with two shares of each GPU. Waits until they are published."""
    text = read("dra.yaml").replace("REGISTRY/berth:TAG", "test.local/berth:1").replace('"--shares", "4"', '"--shares", "2"')
    node.kubectl("apply", "-f", "-", given=text)
    until(lambda: node.get("resourceslices")["items"], "the ResourceSlice is published", 60)


class Claims(unittest.TestCase):
    """Dynamic resource allocation with the shipped manifest, on a node of its own."""

    @classmethod
    def setUpClass(cls):
        made = cluster(install=False)
        cls.node = made.__enter__()
        cls.addClassCleanup(made.__exit__, None, None, None)
        install_driver(cls.node)

    @classmethod
    def slices(cls):
        return [device for one in cls.node.get("resourceslices")["items"] for device in one["spec"]["devices"]]

    def tearDown(self):
        # Not by force, so that the kubelet unprepares the claims before the next test.
        self.node.kubectl("delete", "pod", "--all", "--grace-period=1", "--wait=true")
        self.node.kubectl("delete", "resourceclaimtemplate", "--all", "--wait=true")
        until(lambda: self.node.run("ls", "/var/run/cdi").stdout == "", "all claims are unprepared", 100)

    def log_of(self, name):
        """What the pod's program prints, without the guard's own lines on stderr."""
        said = until(lambda: self.node.kubectl("logs", name, check=False).stdout, f"{name} prints", 60)
        return "".join(line for line in said.splitlines(True) if not line.startswith("berth:"))

    def pod_with(self, name, memory, *words):
        """A claim template for this memory, and a pod with it."""
        template = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate", "metadata": {"name": name}, "spec": {"spec": {"devices": {
            "requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.berth.dev", "capacity": {"requests": {"memory": memory}}}}]}}}}
        made = pod(name, *words, resourceClaims=[{"name": "gpu", "resourceClaimTemplateName": name}])
        made["spec"]["containers"][0]["resources"] = {"claims": [{"name": "gpu"}]}
        return template, made

    def test_a_claim_gets_its_part_of_the_gpu_the_guard_and_is_unprepared(self):
        (device,) = self.slices()
        self.assertIn("4090", device["attributes"]["model"]["string"])
        self.assertTrue(device["allowMultipleAllocations"])
        self.node.apply(*self.pod_with("small", "2Gi", str(2048 * MIB + 1), str(2047 * MIB)),
                        *self.pod_with("large", "10Gi", str(10240 * MIB + 1), str(10239 * MIB)))
        self.assertEqual(self.log_of("small"), f"{2048 * MIB + 1}: out of memory\n{2047 * MIB}: granted\n")
        self.assertEqual(self.log_of("large"), f"{10240 * MIB + 1}: out of memory\n{10239 * MIB}: granted\n")
        self.assertEqual(len(self.node.run("ls", "/var/run/cdi").stdout.split()), 2)
        found = listed(self.node)
        self.assertEqual([one[1:] for one in found], [("default", "large", "main"), ("default", "small", "main")])
        self.assertTrue(all(one[0].startswith(device["name"]) for one in found), found)
        # The scheduler counts: 12 GiB of 24 are taken, and both shares, so another claim waits.
        self.node.apply(*self.pod_with("third", "1Gi", "1"))
        time.sleep(3)
        self.assertEqual(self.node.pod_state("third"), "Pending")
        self.node.kubectl("delete", "pod", "small", "--grace-period=1")
        until(lambda: self.node.pod_state("third") == "Running", "the third pod gets what the first one had")
        self.node.kubectl("delete", "pod", "large", "third", "--grace-period=1")
        until(lambda: self.node.run("ls", "/var/run/cdi").stdout == "", "the claims are unprepared")

    def test_old_manifests_with_the_extended_resource_run_unchanged(self):
        self.node.apply(pod("old", "1048576", str(23 << 30)))
        self.assertEqual(self.log_of("old"), f"1048576: granted\n{23 << 30}: out of memory\n")

    def test_verify_passes_with_the_driver(self):
        code, said = verify(self.node)
        self.assertEqual((code, said["holds"]), (0, True), said)

    def test_restarts_of_the_kubelet_and_the_driver_lose_nothing(self):
        self.node.apply(*self.pod_with("stays", "2Gi", "1048576"))
        self.assertEqual(self.log_of("stays"), "1048576: granted\n")
        before = self.node.get("pod", "stays")["status"]["containerStatuses"][0]["containerID"]
        self.node.restart("kubelet")
        time.sleep(5)
        until(self.slices, "the slices are there after the kubelet's restart", 60)
        self.node.kubectl("delete", "pod", "-n", "berth", "-l", "app.kubernetes.io/name=berth-dra", "--grace-period=5")
        self.node.apply(*self.pod_with("later", "2Gi", "1048576"))
        self.assertEqual(self.log_of("later"), "1048576: granted\n")
        now = self.node.get("pod", "stays")["status"]["containerStatuses"][0]
        self.assertEqual((now["containerID"], now["restartCount"]), (before, 0))
        self.node.kubectl("delete", "pod", "stays", "later", "--grace-period=1")
        until(lambda: self.node.run("ls", "/var/run/cdi").stdout == "", "claims of both are unprepared")

    def test_a_gpu_in_berths_own_queue_is_tainted_and_no_pod_gets_it(self):
        def taints():
            return [(taint["key"], taint["effect"], bool(taint["timeAdded"])) for one in self.slices() for taint in one.get("taints", ())]
        self.node.apply(*self.pod_with("stays", "2Gi", "1048576"))
        self.log_of("stays")
        self.assertIn("default/stays", move(self.node, "reclaim", "--timeout", "1s").stderr)
        until(lambda: taints() == [("gpu.berth.dev/own-queue", "NoSchedule", True)], "the taint is stored", 60)
        self.node.apply(*self.pod_with("waits", "2Gi", "1048576"))
        self.node.kubectl("delete", "pod", "stays", "--grace-period=1")
        back = move(self.node, "reclaim")
        self.assertEqual(back.returncode, 0, back.stderr)
        self.assertEqual(self.node.pod_state("waits"), "Pending")
        lent = move(self.node, "lend")
        self.assertEqual(lent.returncode, 0, lent.stderr)
        self.assertEqual(self.log_of("waits"), "1048576: granted\n")
        self.assertEqual(taints(), [])

    def test_the_driver_may_write_only_slices_of_its_own_node(self):
        text = json.dumps({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceSlice", "metadata": {"name": "other"}, "spec": {
            "driver": "gpu.berth.dev", "nodeName": "other", "pool": {"name": "other", "generation": 1, "resourceSliceCount": 1}, "devices": []}})
        done = self.node.kubectl("create", "-f", "-", "--as=system:serviceaccount:berth:berth-dra", given=text, check=False)
        self.assertIn("its own node", done.stderr)


HELM = """
import helm_python, json, sys
config = helm_python.Config(kubeconfig_path=sys.argv[1], namespace="berth")
action, values = sys.argv[2], json.loads(sys.argv[4])
if action == "uninstall":
    config.uninstall("berth")
else:
    more = {"create_namespace": True} if action == "install" else {}
    getattr(config, action)(sys.argv[3], "berth", values, namespace="berth", **more)
"""


class Helm(unittest.TestCase):
    """The chart with Helm itself, as docs/kubernetes.md says: install, upgrade, uninstall."""

    def test_the_chart_is_installed_upgraded_and_removed(self):
        python = os.path.join(os.path.dirname(beds.programs()), "helm", "bin", "python")
        with cluster(install=False) as node:
            def helm(action, **values):
                values = {"image": "test.local/berth:1", "imagePullPolicy": "Never", "priorityClassName": "", **values}
                node.run(python, "-c", HELM, node.path("kubeconfig"), action, os.path.join(INTEGRATION, "chart"), json.dumps(values))
            helm("install", shares=2)
            until(lambda: node.allocatable("berth.dev/gpu-share") == 2, "two shares")
            node.apply(pod("stays", "1048576"))
            until(lambda: node.pod_state("stays") == "Running", "the pod runs")
            before = node.get("pod", "stays")["status"]["containerStatuses"][0]["containerID"]
            helm("upgrade", shares=4)
            until(lambda: node.allocatable("berth.dev/gpu-share") == 4, "four shares after the upgrade")
            helm("upgrade", shares=4, image="test.local/berth:2")

            def images():
                pods = node.get("pods", "-n", "berth")["items"]
                return [(one["image"], one["ready"]) for pod_ in pods for one in pod_["status"].get("containerStatuses", ())]
            until(lambda: images() == [("test.local/berth:2", True)], "the other version runs")
            until(lambda: node.allocatable("berth.dev/gpu-share") == 4, "four shares under the other version")
            node.apply(pod("later", str(23 << 30), "1048576"))
            said = until(lambda: node.kubectl("logs", "later", check=False).stdout, "the next pod prints")
            self.assertEqual([line for line in said.splitlines() if not line.startswith("berth: ")], [f"{23 << 30}: out of memory", "1048576: granted"])
            self.assertEqual(node.get("pod", "stays")["status"]["containerStatuses"][0]["containerID"], before)
            libraries = node.run("sh", "-c", "ls /var/lib/berth/kubernetes/lib").stdout.split()
            self.assertEqual(len([one for one in libraries if one.startswith("libberth-guard-")]), 2, libraries)
            helm("uninstall")
            until(lambda: not node.get("namespace", "berth"), "the namespace is removed")
            self.assertEqual(node.get("pod", "stays")["status"]["containerStatuses"][0]["containerID"], before)
            self.assertEqual(node.pod_state("stays"), "Running")


class Memory(unittest.TestCase):
    """GPUs offered by memory: berth.dev/gpu-memory."""

    def test_a_pod_gets_the_memory_that_it_requests(self):
        resource, limit = "berth.dev/gpu-memory", 12 << 30
        with cluster(install=False) as node:
            node.apply(*chart(memoryStep="6GiB"))
            until(lambda: node.allocatable(resource) == 3, "the node offers three steps of 6 GiB", 60)
            node.apply(pod("two", str(limit + MIB), str(limit - MIB), shares=2, resource=resource))
            lines = until(lambda: node.kubectl("logs", "two", check=False).stdout.count("granted") and node.kubectl("logs", "two").stdout, "the pod prints")
            self.assertEqual([line for line in lines.splitlines() if not line.startswith("berth: ")],
                             [f"{limit + MIB}: out of memory", f"{limit - MIB}: granted"])
            node.apply(pod("more", "1048576", shares=2, resource=resource))
            time.sleep(2)
            self.assertEqual(node.pod_state("more"), "Pending", "one step is left")


class OldContainerd(unittest.TestCase):
    """containerd 1.6 starts a container without its CDI device and says nothing. `berth k8s verify` says it."""

    def test_verify_names_a_runtime_without_cdi(self):
        with cluster(old_containerd=True, values={"pass": "cdi"}) as node:
            # The chart's own pod has the driver by its runtime class; the pod that verifies gets its GPU by CDI alone.
            code, said = verify(node, "--runtime-class", "")
        self.assertEqual((code, said["problem"]), (1, "no_device"), said)
        self.assertIn("containerd 2", said["advice"])

    def test_verify_names_it_for_claims(self):
        with cluster(old_containerd=True, install=False) as node:
            install_driver(node)
            code, said = verify(node)
        self.assertEqual((code, said["problem"]), (1, "no_device"), said)
        self.assertIn("BERTH_DEVICES is not set", said["detail"])
        self.assertIn("containerd 2", said["advice"])


class Objects(Cluster):
    """The API server's own validation of what is shipped. Nothing runs."""

    def check(self, *texts, verb="apply"):
        for text in texts:
            with self.subTest(text[:200]):
                self.node.kubectl(verb, "--dry-run=server", "--validate=strict", "-f", "-", given=text)

    def test_the_manifests_pass_the_api_server(self):
        self.check(read("device-plugin.yaml").replace("REGISTRY/berth:TAG", "registry/berth:1"), read("share-job.yaml"))
        self.check(read("dra.yaml").replace("REGISTRY/berth:TAG", "registry/berth:1"))
        for name in ("hpa.yaml", "function.yaml", "admission-policy.yaml", "claim.yaml"):
            self.check(read("examples", name))
        self.check(*chart(), *chart(shares=4, **{"pass": "cdi"}, runtimeClassName="", interval="2s"))
        # A wrong key is refused, so the checks above can fail.
        wrong = read("share-job.yaml").replace("backoffLimit", "backofLimit")
        self.assertNotEqual(self.node.kubectl("apply", "--dry-run=server", "--validate=strict", "-f", "-", given=wrong, check=False).returncode, 0)

    def test_what_berth_env_prints_passes_the_api_server(self):
        printed = subprocess.run([BERTH, "env", "--gpus", "1", "--cpus", "4", "--format", "k8s"], capture_output=True, text=True, check=True, timeout=60).stdout
        self.check(printed, verb="create")  # as the page says: the Job's name is generated

    def test_the_admission_policy_refuses_impossible_fractions(self):
        self.node.apply(read("examples", "admission-policy.yaml"))
        self.addCleanup(self.node.kubectl, "delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "berth-fractions")

        def refused():
            return self.node.kubectl("apply", "--dry-run=server", "-f", "-", given=json.dumps(pod("much", shares=8)), check=False).stderr
        self.assertIn("more shares than one GPU has", until(refused, "the policy works"))
        both = pod("both")
        both["spec"]["containers"][0]["resources"]["limits"]["berth.dev/gpu"] = 1
        self.assertIn("no node offers two of them", self.node.kubectl("apply", "--dry-run=server", "-f", "-", given=json.dumps(both), check=False).stderr)
        self.check(json.dumps(pod("fits", shares=4)))


if __name__ == "__main__":
    if not os.environ.get("BERTH_NEED_KUBERNETES"):
        print("skipped: ./dev test --kubernetes runs it")
        sys.exit(77)
    if why_not():
        print("skipped: " + why_not())
        sys.exit(1)
    unittest.main()
