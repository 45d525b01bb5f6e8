#!/usr/bin/env python3
"""integrations/kubernetes: the manifests match the programs, and docs/kubernetes.md lists every permission with its reason."""
import os
import subprocess
import sys
import unittest

BERTH = os.path.abspath(sys.argv.pop(1))
ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..")

try:
    import yaml
except ImportError:
    print("skipped: python3-yaml is not installed")
    sys.exit(77)


def text(*path):
    with open(os.path.join(ROOT, *path)) as file:
        return file.read()


def runs_on(spec, labels):
    """Whether a pod may run on a node with these labels: nodeSelector and required node affinity, as the scheduler reads them."""
    def holds(one):
        value, known = labels.get(one["key"]), one["key"] in labels
        return {"DoesNotExist": not known, "Exists": known, "In": known and value in one.get("values", ()),
                "NotIn": not known or value not in one.get("values", ())}[one["operator"]]
    terms = spec["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]
    return all(labels.get(key) == value for key, value in spec["nodeSelector"].items()) and any(
        all(holds(one) for one in term["matchExpressions"]) for term in terms)


class Manifests(unittest.TestCase):
    def setUp(self):
        self.objects = {one["kind"]: one for one in yaml.safe_load_all(text("integrations", "kubernetes", "device-plugin.yaml"))}
        self.pod = self.objects["DaemonSet"]["spec"]["template"]
        (self.container,) = self.pod["spec"]["containers"]

    def test_it_is_selected_by_its_own_labels(self):
        labels = self.objects["DaemonSet"]["spec"]["selector"]["matchLabels"]
        self.assertEqual(self.pod["metadata"]["labels"], labels)
        self.assertEqual({one["metadata"].get("namespace", "berth") for one in self.objects.values()}, {"berth"})
        self.assertEqual(self.pod["spec"]["serviceAccountName"], self.objects["ServiceAccount"]["metadata"]["name"])

    def test_it_runs_on_labelled_nodes_alone_and_not_beside_the_gpu_operator(self):
        offer, operator = {"berth.dev/offer": "true"}, "nvidia.com/gpu.deploy.device-plugin"
        claims = {one["kind"]: one for one in yaml.safe_load_all(text("integrations", "kubernetes", "dra.yaml"))}
        for spec in (self.pod["spec"], claims["DaemonSet"]["spec"]["template"]["spec"]):
            for labels, wanted in (({}, False), ({"berth.dev/offer": "false"}, False), ({operator: "false"}, False), ({operator: "true"}, False),
                                   (offer, True), ({**offer, operator: "false"}, True), ({**offer, operator: "true"}, False),
                                   ({**offer, operator: "paused-for-mig-change"}, False)):
                self.assertEqual(runs_on(spec, labels), wanted, labels)

    def test_its_words_are_words_of_berth(self):
        args = self.container["args"]
        self.assertEqual(args[:2], ["k8s", "device-plugin"])
        # Tries the same options with `k8s devices`, which ends by itself.
        done = subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, "k8s", "devices", *args[2:], "--shares", "4"],
                              capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_what_is_mounted_is_what_the_program_uses_by_default(self):
        hosts = {one["name"]: one["hostPath"]["path"] for one in self.pod["spec"]["volumes"]}
        page = subprocess.run([BERTH, "help", "k8s"], capture_output=True, text=True, timeout=30).stdout
        page = " ".join(page.split())
        for mount in self.container["volumeMounts"]:
            # The kubelet mounts the guard's files by their path on the node, so host and container must use the same path.
            self.assertEqual(mount["mountPath"], hosts.pop(mount["name"]))
            self.assertIn(f"(default: {mount['mountPath'].removesuffix('/pod-resources')})", page)
        self.assertEqual(hosts, {})

    def test_it_has_no_right_that_the_page_does_not_explain(self):
        self.assertEqual(set(self.objects), {"Namespace", "ServiceAccount", "DaemonSet"}, "no Role: it never calls the API server")
        self.assertFalse(self.objects["ServiceAccount"]["automountServiceAccountToken"])
        self.assertFalse(self.pod["spec"]["automountServiceAccountToken"])
        for key in ("hostPID", "hostIPC", "hostNetwork"):
            self.assertNotIn(key, self.pod["spec"])
        security = self.container["securityContext"]
        self.assertEqual((security["privileged"], security["allowPrivilegeEscalation"], security["readOnlyRootFilesystem"]), (False, False, True))
        self.assertEqual(security["capabilities"], {"drop": ["ALL"]})
        page = text("docs", "kubernetes.md")
        rights = [one["hostPath"]["path"] for one in self.pod["spec"]["volumes"]]
        rights += ["runAsUser: 0", "runtimeClassName: nvidia", "NVIDIA_VISIBLE_DEVICES=all", "system-node-critical"]
        for right in rights:
            self.assertIn(f"| `{right}` |", page)

    def test_the_example_asks_for_a_resource_that_is_offered(self):
        (job,) = yaml.safe_load_all(text("integrations", "kubernetes", "share-job.yaml"))
        limits = job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"]
        done = subprocess.run([BERTH, "sim", "--machine", "lab-4x3090", "--", BERTH, "k8s", "devices", "--shares", "4"],
                              capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
        for name in limits:
            self.assertIn(name, done.stdout)

    def test_what_berth_env_prints_is_such_a_job(self):
        printed = subprocess.run([BERTH, "env", "--memory", "2GiB", "--format", "k8s"], capture_output=True, text=True, timeout=30)
        job = yaml.safe_load(printed.stdout)
        self.assertEqual((job["apiVersion"], job["kind"]), ("batch/v1", "Job"))
        self.assertEqual(job["spec"]["template"]["spec"]["containers"][0]["resources"]["limits"], {"berth.dev/gpu-share": 1})


if __name__ == "__main__":
    unittest.main()
