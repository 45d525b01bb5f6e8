#!/usr/bin/env python3
"""What `berth-k8s held` makes of the kubelet's list of pods (PodResources v1), asked of a fake kubelet over real gRPC, whose answers may be
wrong or hostile. The GPUs of a node go back to Berth's queue by this list, so a failure must never look like a list without pods.

usage: pod_resources_test.py BERTH      (berth-k8s is in the same folder)"""
import concurrent.futures
import json
import os
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

BERTH_K8S = os.path.join(os.path.dirname(os.path.abspath(sys.argv.pop(1))), "berth-k8s")
import kubelet_bed  # noqa: E402

WHY_NOT = kubelet_bed.MISSING or ("" if os.path.exists(BERTH_K8S) else "berth-k8s was not built: no gRPC")
if WHY_NOT:
    print("skipped: " + WHY_NOT)
    sys.exit(77)
import grpc  # noqa: E402

GPU = "GPU-6e4a0f0e-0000-1111-2222-333344445555"


class Asked(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.made = tempfile.TemporaryDirectory(prefix="bk")
        cls.addClassCleanup(cls.made.cleanup)
        cls.pb = kubelet_bed.messages(cls.made.name)[1]

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="bk")
        self.addCleanup(folder.cleanup)
        self.kubelet, self.state = os.path.join(folder.name, "kubelet"), os.path.join(folder.name, "state")
        os.makedirs(self.kubelet + "/pod-resources")
        os.mkdir(self.state)
        self.path = self.kubelet + "/pod-resources/kubelet.sock"

    def serve(self, list_pods):
        """`list_pods(context)` returns the bytes of the answer."""
        handler = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {
            "List": grpc.unary_unary_rpc_method_handler(lambda _request, context: list_pods(context))})
        server = grpc.server(concurrent.futures.ThreadPoolExecutor(2), options=[("grpc.max_send_message_length", -1)])
        server.add_generic_rpc_handlers((handler,))
        server.add_insecure_port("unix:" + self.path)
        server.start()
        self.addCleanup(lambda: server.stop(None).wait())

    def answer(self, *pods):
        """The answer with these pods: (namespace, name, {resource: ids})."""
        made = self.pb.ListPodResourcesResponse()
        for space, name, devices in pods:
            container = made.pod_resources.add(namespace=space, name=name).containers.add(name="c")
            for resource, ids in devices.items():
                container.devices.add(resource_name=resource, device_ids=ids)
        return made

    def held(self):
        """What the program prints, which is one line of JSON whatever happens."""
        done = subprocess.run([BERTH_K8S, "held", "--kubelet", self.kubelet, "--state", self.state, "--interval", "100ms"], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        line = done.stdout.decode()  # valid UTF-8
        self.assertEqual((line.count("\n"), line[-1]), (1, "\n"))
        self.assertEqual([one for one in line[:-1] if ord(one) < 32], [])
        return json.loads(line)

    def pairs(self):
        return [(one["device"], one["by"]) for one in self.held()["held"]]

    def assert_unknown(self, words=""):
        found = self.held()
        self.assertNotIn("held", found)
        self.assertIn("it is not known which GPUs pods have", found["error"])
        self.assertIn(words, found["error"])
        self.assertTrue(found["hint"])


class Answers(Asked):
    def serve_pods(self, *pods):
        self.serve(lambda _context: self.answer(*pods).SerializeToString())

    def test_gpus_and_shares_of_pods_are_listed_and_other_devices_are_not(self):
        self.serve_pods(("default", "train", {"berth.dev/gpu": [GPU], "nvidia.com/gpu": ["GPU-9"], "berth.devil/gpu": ["GPU-8"]}),
                        ("team-b", "notebook", {"berth.dev/gpu-share": [f"{GPU}::3", "MIG-1::0"]}), ("team-b", "cpu-only", {}))
        self.assertEqual(self.pairs(), [(GPU, "default/train"), (GPU, "team-b/notebook"), ("MIG-1", "team-b/notebook")])

    def test_no_pods_is_an_answer(self):
        self.serve(lambda _context: b"")
        self.assertEqual(self.held(), {"held": []})

    def test_what_a_newer_kubelet_adds_is_ignored(self):
        added = b"\xa2\x06\x03new" + b"\xf8\x06\x07"  # field 100, a string; field 111, a number
        self.serve(lambda _context: self.answer(("default", "train", {"berth.dev/gpu": [GPU]})).SerializeToString() + added)
        self.assertEqual(self.pairs(), [(GPU, "default/train")])

    def test_hostile_names_stay_texts(self):
        name, ids = 'a"}]}\n\x1b[2J\u202e\x00\x7f</script>', ["", "::", "::3", "a::b::c", "../../etc", "x" * 100_000]
        self.serve_pods(("n\r\n", name, {"berth.dev/gpu": ids}))
        pairs = self.pairs()
        self.assertEqual([device for device, _ in pairs], ["", "", "", "a", "../../etc", "x" * 100_000])
        self.assertEqual({by.count("/") for _, by in pairs}, {2})

    def test_ten_thousand_pods_are_listed(self):
        self.serve_pods(*(("default", f"pod-{i}", {"berth.dev/gpu": [f"GPU-{i}"]}) for i in range(10_000)))
        self.assertEqual(len(self.pairs()), 10_000)


class Names(Asked):
    """What metrics have of it: `berth-k8s pods`."""

    def pods(self):
        done = subprocess.run([BERTH_K8S, "pods", "--kubelet", self.kubelet], capture_output=True, timeout=60)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def test_devices_of_plugins_and_of_claims_have_their_containers(self):
        answer = self.answer(("lab", "a", {"berth.dev/gpu-share": [GPU + "::3"], "example.com/fpga": ["F-1"]}), ("lab", "b", {"nvidia.com/gpu": [GPU]}))
        claim = answer.pod_resources.add(namespace="lab", name="c").containers.add(name="main").dynamic_resources.add(claim_name="x")
        claim.claim_resources.add(driver_name="gpu.berth.dev", pool_name="node1", device_name="gpu-1-s0")
        claim.claim_resources.add(driver_name="other.example.com", device_name="d")
        self.serve(lambda _context: answer.SerializeToString())
        self.assertEqual([(one["device"], one["namespace"], one["pod"], one["container"]) for one in self.pods()["pods"]],
                         [(GPU, "lab", "a", "c"), (GPU, "lab", "b", "c"), ("gpu-1-s0", "lab", "c", "main")])

    def test_without_a_kubelet_it_is_an_error_and_no_list(self):
        self.assertIn("it is not known which GPUs pods have", self.pods()["error"])


class Failures(Asked):
    def test_an_error_of_the_kubelet_is_no_list_without_pods(self):
        status = {"code": grpc.StatusCode.UNIMPLEMENTED, "words": "not \x1b[31mhere\n"}
        self.serve(lambda context: context.abort(status["code"], status["words"]))
        for code in (grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.PERMISSION_DENIED, grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.RESOURCE_EXHAUSTED):
            status["code"] = code
            self.assert_unknown("the kubelet does not answer: not")
            self.assertNotIn("\x1b", self.held()["error"])  # `berth k8s reclaim` prints it on a terminal

    def test_bytes_that_are_no_list(self):
        whole = self.answer(("default", "train", {"berth.dev/gpu": [GPU]})).SerializeToString()
        not_utf8 = whole.replace(b"train", b"tr\xff\xfen")
        endless = b"\x0a\xff\xff\xff\xff\xff\xff\xff\xff\x7f"  # a pod of 2^63 - 1 bytes
        deep = b"\x0b" * 10_000  # groups that do not end
        answers = {"cut": whole[:-3], "not UTF-8": not_utf8, "no protobuf": b"\xff" * 64, "endless": endless, "deep": deep}
        now = [b""]
        self.serve(lambda _context: now[0])
        for name, now[0] in answers.items():
            with self.subTest(name):
                self.assert_unknown()

    def test_an_answer_without_bound_is_not_read(self):
        self.serve(lambda _context: b"\xa2\x06\xff\xff\xff\x0f" + bytes((17 << 20)))  # an unknown field
        self.assert_unknown("larger than max")

    def test_a_kubelet_that_does_not_answer_in_time(self):
        over = threading.Event()
        self.addCleanup(over.set)
        self.serve(lambda _context: over.wait(60) and b"")
        begun = time.monotonic()
        self.assert_unknown("Deadline Exceeded")
        self.assertLess(time.monotonic() - begun, 40)

    def test_no_socket_or_something_else_in_its_place(self):
        self.assert_unknown()
        os.mkfifo(self.path)
        self.assert_unknown()
        os.unlink(self.path)
        with socket.socket(socket.AF_UNIX) as deaf:  # nobody listens
            deaf.bind(self.path)
            self.assert_unknown()

    def test_a_server_that_does_not_speak_grpc(self):
        for reply in (b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}", os.urandom(4096), b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" * 1000):
            with self.subTest(reply[:20]), socket.socket(socket.AF_UNIX) as server:
                server.bind(self.path)
                server.listen(16)

                def talk():
                    while True:
                        try:
                            caller = server.accept()[0]
                        except OSError:
                            return
                        with caller:
                            caller.sendall(reply)
                thread = threading.Thread(target=talk, daemon=True)
                thread.start()
                self.assert_unknown()
                server.shutdown(socket.SHUT_RDWR)
                thread.join(20)
            os.unlink(self.path)

    def test_without_a_kubelet_claims_alone_are_known_and_devices_that_were_given_are_not(self):
        os.mkdir(self.state + "/claims")
        self.assertEqual(self.held(), {"held": []})
        os.mkdir(self.state + "/given")
        self.assert_unknown()


if __name__ == "__main__":
    unittest.main(verbosity=2)
