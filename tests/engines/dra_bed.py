"""A fake API server over HTTPS and a fake kubelet over gRPC for dynamic resource allocation. The API server keeps ResourceSlices and claims, and
can be told to fail."""
import concurrent.futures
import http.server
import importlib
import json
import os
import re
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import urllib.parse

import grpc

PROTOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "kubelet")
SLICES = "/apis/resource.k8s.io/v1/resourceslices"
TOKEN = "the-token"


def messages(folder):
    """The modules of both protocols, compiled by protoc."""
    names = ("dra", "pluginregistration")
    subprocess.run(["protoc", "-I", PROTOS, f"--python_out={folder}", *(f"{PROTOS}/{name}.proto" for name in names)], check=True, timeout=60)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return [importlib.import_module(name + "_pb2") for name in names]


class ApiServer:
    """`answers`: statuses that the next calls get, in place of the real answer; "hang" is none. `calls`: (method, path) of each. `bodies`: each
    ResourceSlice that it stored, with what it dropped. `slow`: seconds before the answer, by path. `retry_after`: what it says with 429.
    `nodes`: uid by name. `machines`: systemUUID of nodes that are other machines. `refuses_deletes`: as the policy of dra.yaml does for slices
    of other nodes."""

    def __init__(self, folder, node="node1", consumable=True, taints=True):
        self.node, self.consumable, self.taints = node, consumable, taints
        self.nodes, self.machines, self.refuses_deletes = {node: "uid-of-node"}, {}, False
        self.slices, self.claims, self.answers, self.calls = {}, {}, [], []
        self.bodies, self.slow, self.retry_after = [], {}, 1
        self.version = 1
        self.lock = threading.Lock()
        self.account = os.path.join(folder, "account")
        os.mkdir(self.account)
        with open(self.account + "/token", "w") as file:
            file.write(TOKEN)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2", "-subj", "/CN=api",
                        "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", folder + "/key.pem", "-out", self.account + "/ca.crt"],
                       check=True, capture_output=True, timeout=60)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.account + "/ca.crt", folder + "/key.pem")
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_):
                pass

            def answer(self):
                outer.handle(self)
            do_GET = do_POST = do_PUT = do_DELETE = answer

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.socket = context.wrap_socket(self.server.socket, server_side=True)
        self.url = f"https://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def handle(self, request):
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        path, _, query = request.path.partition("?")
        with self.lock:
            self.calls.append((request.command, path))
            fault = self.answers.pop(0) if self.answers else None
            if fault is None:
                status, answer = self.result(request, path, urllib.parse.unquote(query), json.loads(body) if body else None)
        time.sleep(self.slow.get(path, 0))
        if fault == "hang":
            time.sleep(30)
            return
        if fault is not None:
            status, answer = fault, {"kind": "Status", "message": f"status {fault} on purpose"}
        data = json.dumps(answer).encode()
        request.send_response(status)
        if status == 429:
            request.send_header("Retry-After", str(self.retry_after))
        request.send_header("Content-Length", str(len(data)))
        request.end_headers()
        request.wfile.write(data)

    def result(self, request, path, query, body):
        if request.headers.get("Authorization") != "Bearer " + TOKEN:
            return 401, {"message": "no token"}
        if path.startswith("/api/v1/nodes/") and (uid := self.nodes.get(name := path.rsplit("/", 1)[1])):
            return 200, {"metadata": {"name": name, "uid": uid}, "status": {"nodeInfo": {"systemUUID": self.machines.get(name, "the-machine")}}}
        if path.startswith(SLICES):
            return self.slice(request.command, path[len(SLICES) + 1:], query, body)
        parts = path.split("/")
        if "resourceclaims" in parts and (claim := self.claims.get((parts[5], parts[7]))):
            return 200, claim
        return 404, {"message": "not found"}

    def slice(self, method, name, query, body):
        if method == "GET":
            node, = re.fullmatch(r"fieldSelector=spec\.nodeName=([a-z0-9.-]+),spec\.driver=gpu\.berth\.dev", query).groups()
            return 200, {"items": [one for one in self.slices.values() if one["spec"]["nodeName"] == node]}
        is_dry = query == "dryRun=All"
        assert not query or is_dry, query
        if method == "DELETE" and self.refuses_deletes:
            return 403, {"message": "berth-dra may only write the ResourceSlices of its own node"}
        if method == "DELETE":
            return (200, {}) if self.slices.pop(name, None) else (404, {})
        self.version += 1
        name = body["metadata"]["name"]
        old = self.slices.get(name)
        if method == "POST" and old or method == "PUT" and old and old["metadata"]["resourceVersion"] != body["metadata"].get("resourceVersion"):
            return 409, {"message": "conflict"}
        if method == "PUT" and not old:
            return 404, {"message": "not found"}
        body["metadata"]["resourceVersion"] = str(self.version)
        if not is_dry:
            self.bodies.append(json.loads(json.dumps(body)))
        for device in body["spec"]["devices"]:
            if not self.consumable:
                device.pop("allowMultipleAllocations", None)
            if not self.taints:
                device.pop("taints", None)
            for taint in device.get("taints", ()):
                assert taint["effect"] in ("None", "NoSchedule", "NoExecute"), taint
                assert re.fullmatch(r"[a-z.]+/[a-z-]+", taint["key"]) and re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", taint["value"]), taint
                taint.setdefault("timeAdded", time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()))
        if not is_dry:
            self.slices[name] = body
        return 200 if method == "PUT" else 201, body

    def devices(self):
        with self.lock:
            return [device for one in self.slices.values() for device in one["spec"]["devices"]]

    def generation(self):
        with self.lock:
            return max((one["spec"]["pool"]["generation"] for one in self.slices.values()), default=0)

    def allocate(self, name, uid, *devices, memory=None, space="default"):
        """A claim with these devices."""
        results = [{"request": f"r{i}", "driver": "gpu.berth.dev", "pool": self.node, "device": device,
                    **({"shareID": f"share-{i}", "consumedCapacity": {"memory": memory}} if memory else {})} for i, device in enumerate(devices)]
        with self.lock:
            self.claims[space, name] = {"metadata": {"namespace": space, "name": name, "uid": uid},
                                        "status": {"allocation": {"devices": {"results": results}}}}

    def end(self):
        self.server.shutdown()
        self.server.server_close()


class Kubelet:
    """Watches the registry as the kubelet does, and calls the driver."""

    def __init__(self, folder):
        self.folder = os.path.join(folder, "kubelet")
        os.makedirs(self.folder + "/plugins_registry")
        self.dra, self.registration = messages(folder)
        self.info = None

    def register(self, seconds=20):
        """Waits for the socket, asks who is there, and confirms. Returns the endpoint."""
        path = self.folder + "/plugins_registry/gpu.berth.dev-reg.sock"
        end = time.monotonic() + seconds
        while not os.path.exists(path):
            if time.monotonic() > end:
                raise AssertionError("no socket in plugins_registry")
            time.sleep(0.02)
        pb = self.registration
        with grpc.insecure_channel("unix:" + path, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            self.info = channel.unary_unary("/pluginregistration.Registration/GetInfo", pb.InfoRequest.SerializeToString,
                                            pb.PluginInfo.FromString)(pb.InfoRequest(), timeout=10, wait_for_ready=True)
            channel.unary_unary("/pluginregistration.Registration/NotifyRegistrationStatus", pb.RegistrationStatus.SerializeToString,
                                pb.RegistrationStatusResponse.FromString)(pb.RegistrationStatus(plugin_registered=True), timeout=10)
        return self.info.endpoint

    def call(self, method, request, answer, seconds=30):
        with grpc.insecure_channel("unix:" + self.info.endpoint, options=[("grpc.use_local_subchannel_pool", 1)]) as channel:
            return channel.unary_unary(f"/k8s.io.kubelet.pkg.apis.dra.v1.DRAPlugin/{method}", type(request).SerializeToString,
                                       answer.FromString)(request, timeout=seconds, wait_for_ready=True)

    def prepare(self, *claims):
        """Claims as (name, uid). Returns {uid: answer}."""
        request = self.dra.NodePrepareResourcesRequest()
        for name, uid in claims:
            request.claims.add(namespace="default", name=name, uid=uid)
        return self.call("NodePrepareResources", request, self.dra.NodePrepareResourcesResponse).claims

    def unprepare(self, *claims):
        request = self.dra.NodeUnprepareResourcesRequest()
        for name, uid in claims:
            request.claims.add(namespace="default", name=name, uid=uid)
        return self.call("NodeUnprepareResources", request, self.dra.NodeUnprepareResourcesResponse).claims
