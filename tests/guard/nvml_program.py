"""Prints what NVML says inside a job, as JSON: the memory of each device by both functions, and the processes by all three."""
import ctypes
import json
import os
import sys

import program

nvml = ctypes.CDLL("libnvidia-ml.so.1")
POINTER, UINT, U64 = ctypes.c_void_p, ctypes.c_uint, ctypes.c_ulonglong
INSUFFICIENT_SIZE = 7


class Memory(ctypes.Structure):
    _fields_ = [("total", U64), ("free", U64), ("used", U64)]


class Memory2(ctypes.Structure):
    _fields_ = [("version", UINT), ("total", U64), ("reserved", U64), ("free", U64), ("used", U64)]


class Process1(ctypes.Structure):
    _fields_ = [("pid", UINT), ("used", U64)]


class Process2(ctypes.Structure):
    _fields_ = [("pid", UINT), ("used", U64), ("gpu", UINT), ("compute", UINT)]


def memory(device):
    first, second = Memory(), Memory2(version=0x02000028)
    results = nvml.nvmlDeviceGetMemoryInfo(device, ctypes.byref(first)), nvml.nvmlDeviceGetMemoryInfo_v2(device, ctypes.byref(second))
    return [*results, first.total, first.used, first.free, second.total, second.used, second.free]


def pids(device, name, record):
    count = UINT(0)
    result = getattr(nvml, name)(device, ctypes.byref(count), None)
    if count.value == 0:
        return [result]
    assert result == INSUFFICIENT_SIZE, result
    records = (record * count.value)()
    program.check(getattr(nvml, name)(device, ctypes.byref(count), records))
    return [result, *(one.pid for one in records[:count.value])]


def seen():
    device = POINTER()
    program.check(nvml.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(device)))
    lists = [pids(device, f"nvmlDeviceGetComputeRunningProcesses{suffix}", record)
             for suffix, record in (("", Process1), ("_v2", Process2), ("_v3", Process2))]
    return {"memory": memory(device), "pids": lists, "own": os.getpid()}


if __name__ == "__main__":
    program.check(nvml.nvmlInit_v2())
    print(json.dumps(seen()))
    program.begin()
    program.check(program.allocate(int(sys.argv[1]))[0])
    print(json.dumps(seen()))
