"""A fake kubelet for the device plugin API over real gRPC: registration on kubelet.sock, and calls to the plugin. protoc makes the
messages from the same file as the plugin's."""
import concurrent.futures
import importlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading

PROTOS = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "kubelet")

try:
    import google.protobuf
    import grpc
    MISSING = "" if shutil.which("protoc") else "not installed: protoc"
except ImportError as error:
    MISSING = f"not installed: {error.name}"


def messages(folder):
    """Compiles the protocols with protoc. Returns the Python modules of their messages."""
    names = ("deviceplugin", "podresources")
    subprocess.run(["protoc", "-I", PROTOS, f"--python_out={folder}", *(f"{PROTOS}/{name}.proto" for name in names)], check=True, timeout=60)
    sys.path.insert(0, folder)
    return [importlib.import_module(name + "_pb2") for name in names]


class Kubelet:
    """The fake kubelet, a context manager. `registered` has the requests in order. start() and stop() simulate a restart of the kubelet,
    which removes all sockets. `pods` has the device that each pod has; run() and finish() change it under `lock`, and it is listed by the pod
    resources API, whose socket is in `root`."""

    def __init__(self):
        self.made = tempfile.TemporaryDirectory(prefix="bk")
        self.root = os.path.join(self.made.name, "kubelet")
        self.folder = os.path.join(self.root, "device-plugins")
        os.makedirs(self.folder)
        self.pb, self.resources = messages(self.made.name)
        os.makedirs(self.root + "/pod-resources")
        self.pods, self.lock, self.resource = {}, threading.RLock(), "berth.dev/gpu"
        self.registered = []
        self.changed = threading.Condition()
        self.server = None
        self.refuses = False

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.stop()
        self.made.cleanup()

    def register(self, request, context):
        with self.changed:
            self.registered.append(request)
            self.changed.notify_all()
        if self.refuses:
            context.abort(grpc.StatusCode.INTERNAL, "not now")
        return self.pb.Empty()

    def list(self, _request, _context):
        answer = self.resources.ListPodResourcesResponse()
        with self.lock:
            for name, device in self.pods.items():
                pod = answer.pod_resources.add(name=name, namespace="default")
                pod.containers.add(name="c").devices.add(resource_name=self.resource, device_ids=[device])
        return answer

    def run(self, name, plugin, device):
        """Starts a pod with this device. Returns whether the plugin has given it."""
        with self.lock:
            try:
                plugin.allocate(device)
            except grpc.RpcError:
                return False
            self.pods[name] = device
            return True

    def finish(self, name):
        with self.lock:
            del self.pods[name]

    def start(self):
        for name in os.listdir(self.folder):
            os.unlink(os.path.join(self.folder, name))
        handler = grpc.method_handlers_generic_handler("v1beta1.Registration", {
            "Register": grpc.unary_unary_rpc_method_handler(self.register, self.pb.RegisterRequest.FromString, self.pb.Empty.SerializeToString)})
        lister = grpc.method_handlers_generic_handler("v1.PodResourcesLister", {
            "List": grpc.unary_unary_rpc_method_handler(self.list, self.resources.ListPodResourcesRequest.FromString,
                                                        self.resources.ListPodResourcesResponse.SerializeToString)})
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers((handler, lister))
        self.server.add_insecure_port("unix:" + os.path.join(self.root, "pod-resources", "kubelet.sock"))
        self.server.add_insecure_port("unix:" + os.path.join(self.folder, "kubelet.sock"))
        self.server.start()

    def stop(self):
        if self.server:
            self.server.stop(None).wait()
            self.server = None

    def wait_for(self, count, seconds=20):
        """Waits until this many registrations have arrived. Returns the last of them."""
        with self.changed:
            if not self.changed.wait_for(lambda: len(self.registered) >= count, seconds):
                raise AssertionError(f"{len(self.registered)} registrations, {count} expected")
        return self.registered[count - 1]

    def plugin(self, endpoint):
        return Plugin(self.pb, os.path.join(self.folder, endpoint))


class Plugin:
    def __init__(self, pb, path):
        self.pb = pb
        self.channel = grpc.insecure_channel("unix:" + path, options=[("grpc.use_local_subchannel_pool", 1)])

    def call(self, name, request, answer):
        return self.channel.unary_unary(f"/v1beta1.DevicePlugin/{name}", type(request).SerializeToString, answer.FromString)(request, timeout=10)

    def options(self):
        return self.call("GetDevicePluginOptions", self.pb.Empty(), self.pb.DevicePluginOptions)

    def allocate(self, *ids):
        request = self.pb.AllocateRequest()
        request.container_requests.add().devices_ids.extend(ids)
        return self.call("Allocate", request, self.pb.AllocateResponse).container_responses[0]

    def preferred(self, available, required, size):
        request = self.pb.PreferredAllocationRequest()
        one = request.container_requests.add()
        one.available_deviceIDs.extend(available)
        one.must_include_deviceIDs.extend(required)
        one.allocation_size = size
        return list(self.call("GetPreferredAllocation", request, self.pb.PreferredAllocationResponse).container_responses[0].deviceIDs)

    def watch(self, seconds=30):
        """Yields each list that the plugin sends: {id: health}."""
        stream = self.channel.unary_stream("/v1beta1.DevicePlugin/ListAndWatch", self.pb.Empty.SerializeToString,
                                           self.pb.ListAndWatchResponse.FromString)(self.pb.Empty(), timeout=seconds)
        for answer in stream:
            yield {device.ID: device.health for device in answer.devices}

    def close(self):
        self.channel.close()
