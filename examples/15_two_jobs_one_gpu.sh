#!/bin/sh
# Two jobs on one GPU: each gets its memory and its part of the time, and the report says so. A request above the memory fails as on a smaller
# GPU. The machine and its driver are simulated, so no GPU is needed.
set -eu
[ -n "${BERTH_SIM_DIR:-}" ] || exec berth sim --machine workstation-4090 -- sh "$0"
cat > job.py <<'END'
import ctypes, sys, time
cuda = ctypes.CDLL("libcuda.so.1")
context, address, module, kernel = ctypes.c_void_p(), ctypes.c_uint64(), ctypes.c_void_p(), ctypes.c_void_p()
cuda.cuInit(0)
cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), 0)
cuda.cuCtxSetCurrent(context)
size = 0
while cuda.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(256 << 20)) == 0:
    size += 256
print(f"{sys.argv[1]} got {size} MiB", flush=True)
cuda.cuModuleLoadData(ctypes.byref(module), b"image")
cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"k_1ms")
end = time.monotonic() + 2
while time.monotonic() < end:
    cuda.cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, None, None, None)
cuda.cuCtxSynchronize()
END
berth run --memory 2GiB --share 30% --report a.json -- python3 job.py a &
berth run --memory 4GiB --share 70% --report b.json -- python3 job.py b &
wait
for job in a b; do
    python3 -c "
import json, sys
device = json.load(open('$job.json'))['isolation']['devices'][0]
print(f\"$job: at most {device['memory_peak_bytes'] >> 20} MiB, {device['refusals']} refused, {device['device_seconds']:.1f} s on the device\")"
done
rm job.py a.json b.json
