"""Runs in the target's interpreter (3.6 and later): imports one framework, waits for its turn, and runs one kernel on
every GPU that the framework sees. Writes answers as lines of JSON to descriptor 3; stdout and stderr are not parsed."""
import json
import os
import sys

MOST_DEVICES = 16


def tell(**what):
    os.write(3, (json.dumps(what)[:3500] + "\n").encode("ascii", "replace"))


def said(problem):
    """The message of an exception, shortened to one line."""
    words = " ".join(str(problem).split())
    return ("%s: %s" % (type(problem).__name__, words) if words else type(problem).__name__)[:400]


def begin(module):
    tell(version=str(getattr(module, "__version__", None) or getattr(module, "VERSION_TEXT", "")))


def turn():
    tell(waits=True)
    if not os.read(0, 1):
        os._exit(1)


def text(name):
    return name.decode("utf-8", "replace") if isinstance(name, bytes) else str(name)


def on_each(count, name_of, run):
    for index in range(min(count, MOST_DEVICES)):
        name = ""
        try:
            name = text(name_of(index))
            got = float(run(index))
            if got != 2.0:
                raise RuntimeError("1 + 1 came out as %r" % got)
            tell(device=index, name=name[:100], ran=True)
        except Exception as problem:
            tell(device=index, name=name[:100], ran=False, message=said(problem))


def probe_torch():
    import torch
    begin(torch)
    build = getattr(torch, "version", None)
    kinds = [kind for kind in ("cuda", "hip", "xpu") if getattr(build, kind, None)]
    if not kinds:
        return tell(cpu_build=True)
    turn()
    kind = "xpu" if kinds == ["xpu"] else "cuda"
    api = getattr(torch, kind)
    count = api.device_count()
    if not count:
        api.init()  # raises an exception with the cause
    on_each(count, api.get_device_name,
            lambda i: (torch.ones(1, device="%s:%d" % (kind, i)) + 1).item())


def probe_tensorflow():
    import tensorflow as tf
    begin(tf)
    if not (tf.test.is_built_with_cuda() or tf.test.is_built_with_rocm()):
        return tell(cpu_build=True)
    turn()
    gpus = tf.config.list_physical_devices("GPU")
    for gpu in gpus:
        tf.config.experimental.set_memory_growth(gpu, True)
    tf.config.set_soft_device_placement(False)

    def run(i):
        with tf.device("/GPU:%d" % i):
            return tf.add(tf.constant([1.0]), tf.constant([1.0])).numpy()[0]

    on_each(len(gpus), lambda i: tf.config.experimental.get_device_details(gpus[i]).get("device_name", ""), run)


def has_distribution(*beginnings):
    """Whether a package with this name prefix is installed."""
    for folder in sys.path:
        try:
            names = os.listdir(folder)
        except OSError:
            continue
        for name in names:
            if name.replace("_", "-").startswith(beginnings):
                return True
    return False


def probe_jax():
    import jax
    begin(jax)
    if not has_distribution("jax-cuda", "jax-rocm", "intel-extension-for-openxla", "jax-plugins"):
        try:
            from jax.lib import cuda_versions  # in older releases, jaxlib itself supports CUDA
        except ImportError:
            cuda_versions = None
        if cuda_versions is None:
            return tell(cpu_build=True)
    turn()
    import jax.numpy as jnp
    devices = [one for one in jax.devices() if one.platform != "cpu"]
    if not devices:
        devices = list(jax.devices("gpu"))  # raises an exception with the cause
    on_each(len(devices), lambda i: devices[i].device_kind,
            lambda i: (jax.device_put(jnp.ones(1, jnp.float32), devices[i]) + 1)[0])


def probe_cupy():
    import cupy
    begin(cupy)
    turn()
    count = cupy.cuda.runtime.getDeviceCount()

    def run(i):
        with cupy.cuda.Device(i):
            return (cupy.ones(1) + 1).get()[0]

    on_each(count, lambda i: cupy.cuda.runtime.getDeviceProperties(i)["name"], run)


def probe_pycuda():
    import pycuda
    begin(pycuda)
    import pycuda.driver as driver
    turn()
    driver.init()

    def run(i):
        context = driver.Device(i).make_context()
        try:
            memory = driver.mem_alloc(4)
            driver.memset_d32(memory, 0x40000000, 1)  # 2.0
            got = bytearray(4)
            driver.memcpy_dtoh(got, memory)
            import struct
            return struct.unpack("f", bytes(got))[0]
        finally:
            context.pop()
            context.detach()

    on_each(driver.Device.count(), lambda i: driver.Device(i).name(), run)


def probe_numba():
    import numba
    begin(numba)
    from numba import cuda
    turn()
    try:
        from numba.cuda.cudadrv import nvvm
        nvvm.NVVM()
    except Exception:
        return tell(cpu_build=True)  # numba is often used only on the CPU, without NVVM
    devices = list(cuda.gpus)

    def one_and_one(into):
        into[0] = into[0] + 1.0

    def run(i):
        with cuda.gpus[i]:
            import numpy
            memory = cuda.to_device(numpy.ones(1, numpy.float32))
            cuda.jit(one_and_one)[1, 1](memory)
            return memory.copy_to_host()[0]

    on_each(len(devices), lambda i: devices[i].name, run)


def varint(number):
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number, value):
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def addition():
    """Returns the ONNX model y = x + x for one float, encoded as protobuf."""
    kind = field(1, field(1, 1) + field(2, field(1, field(1, 1))))
    graph = (field(1, field(1, b"x") + field(1, b"x") + field(2, b"y") + field(4, b"Add")) + field(2, b"g")
             + field(11, field(1, b"x") + field(2, kind)) + field(12, field(1, b"y") + field(2, kind)))
    return field(1, 7) + field(7, graph) + field(8, field(1, b"") + field(2, 13))


def probe_onnxruntime():
    import onnxruntime as ort
    begin(ort)
    wanted = [one for one in ort.get_available_providers()
              if one in ("CUDAExecutionProvider", "ROCMExecutionProvider", "MIGraphXExecutionProvider")]
    if not wanted:
        return tell(cpu_build=True)
    turn()
    import numpy

    def add(i):
        session = ort.InferenceSession(addition(), providers=[(wanted[0], {"device_id": str(i)})])
        if wanted[0] not in session.get_providers():
            raise RuntimeError(wanted[0] + " could not be used; it fell back to the CPU")
        return session.run(None, {"x": numpy.ones(1, numpy.float32)})[0][0]

    def run(i):
        try:
            return add(i)
        except Exception:
            # Loads the CUDA libraries from pip's packages, as onnxruntime's documentation tells programs to do.
            if not hasattr(ort, "preload_dlls"):
                raise
            ort.preload_dlls()
            return add(i)

    on_each(1, lambda i: wanted[0], run)


def main():
    sys.path[:] = [folder for folder in sys.path if folder]  # the folder of this script does not belong to the target
    probes = {"torch": probe_torch, "tensorflow": probe_tensorflow, "jax": probe_jax, "cupy": probe_cupy,
              "pycuda": probe_pycuda, "numba": probe_numba, "onnxruntime": probe_onnxruntime}
    framework = sys.argv[1]
    try:
        __import__(framework)
    except BaseException as problem:
        tell(not_imported=said(problem))
        os._exit(0)
    try:
        probes[framework]()
        tell(done=True)
    except BaseException as problem:
        tell(failed=said(problem))
    # Skip finalizers: some drivers hang at exit, and all answers are already written.
    os._exit(0)


main()
