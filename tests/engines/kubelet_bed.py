"""A fake kubelet for the device plugin API over real gRPC: registration on kubelet.sock, and calls to the plugin. protoc makes the
messages from the same file as the plugin's."""
import concurrent.futures
import os
import shutil
import subprocess
import sys
import tempfile
import threading

PROTO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "src", "kubelet", "deviceplugin.proto")

try:
    import google.protobuf
    import grpc
    MISSING = "" if shutil.which("protoc") else "not installed: protoc"
except ImportError as error:
    MISSING = f"not installed: {error.name}"


def messages(folder):
    """Compiles the protocol with protoc. Returns the Python module of its messages."""
    subprocess.run(["protoc", "-I", os.path.dirname(PROTO), f"--python_out={folder}", PROTO], check=True, timeout=60)
    sys.path.insert(0, folder)
    import deviceplugin_pb2
    return deviceplugin_pb2


class Kubelet:
    """The fake kubelet, a context manager. `registered` has the requests in order. start() and stop() simulate a restart of the kubelet,
    which removes all sockets."""

    def __init__(self):
        self.made = tempfile.TemporaryDirectory(prefix="bk")
        self.folder = os.path.join(self.made.name, "dp")
        os.mkdir(self.folder)
        self.pb = messages(self.made.name)
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

    def start(self):
        for name in os.listdir(self.folder):
            os.unlink(os.path.join(self.folder, name))
        handler = grpc.method_handlers_generic_handler("v1beta1.Registration", {
            "Register": grpc.unary_unary_rpc_method_handler(self.register, self.pb.RegisterRequest.FromString, self.pb.Empty.SerializeToString)})
        self.server = grpc.server(concurrent.futures.ThreadPoolExecutor(4))
        self.server.add_generic_rpc_handlers((handler,))
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
