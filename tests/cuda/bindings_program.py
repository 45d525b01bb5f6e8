"""A program for cuda-python's bindings of the CUDA driver API. Takes SIZE bytes, which is all that its job may have, in several ways, and
each time one byte more. Prints "way|free bytes|result of one more|free bytes". Usage: bindings_program.py SIZE"""
import sys

from cuda.bindings import driver

SIZE = int(sys.argv[1])


def check(answer):
    """The call's values without its result; raises if that is an error."""
    result, *values = answer
    if result != driver.CUresult.CUDA_SUCCESS:
        raise SystemExit(f"{result.name}")
    return values[0] if len(values) == 1 else values


def free_and_total():
    return tuple(check(driver.cuMemGetInfo()))


def over(way, take, free):
    taken = check(take(SIZE))
    left = free_and_total()[0]
    check(free(taken))
    print(way, left, take(SIZE + 1)[0].name, free_and_total()[0], sep="|")


def here():
    location = driver.CUmemLocation()
    location.type, location.id = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    return location


def pool_properties():
    properties = driver.CUmemPoolProps()
    properties.allocType, properties.location = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED, here()
    return properties


def create(size):
    properties = driver.CUmemAllocationProp()
    properties.type, properties.location = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED, here()
    page = check(driver.cuMemGetAllocationGranularity(
        properties, driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM))
    return driver.cuMemCreate(-(-size // page) * page, properties, 0)


def array(size):
    description = driver.CUDA_ARRAY_DESCRIPTOR()
    description.Width, description.NumChannels = size, 1
    description.Format = driver.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT8
    return driver.cuArrayCreate(description)


def graph(size):
    """A graph with one allocation, launched once. Gives the address."""
    wanted = driver.CUDA_MEM_ALLOC_NODE_PARAMS()
    wanted.poolProps, wanted.bytesize = pool_properties(), size
    whole = check(driver.cuGraphCreate(0))
    check(driver.cuGraphAddMemAllocNode(whole, None, 0, wanted))
    result, = driver.cuGraphLaunch(check(driver.cuGraphInstantiate(whole, 0)), 0)
    return result, wanted.dptr


def free_of_graph(address):
    check(driver.cuMemFree(address))
    return driver.cuDeviceGraphMemTrim(0)


def main():
    check(driver.cuInit(0))
    device = check(driver.cuDeviceGet(0))
    check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(device))))
    print(check(driver.cuDeviceTotalMem(device)), *free_and_total())
    pool = check(driver.cuMemPoolCreate(pool_properties()))
    over("cuMemAlloc", driver.cuMemAlloc, driver.cuMemFree)
    over("cuMemAllocManaged", lambda size: driver.cuMemAllocManaged(size, 1), driver.cuMemFree)
    over("cuMemAllocAsync", lambda size: driver.cuMemAllocAsync(size, 0), lambda address: driver.cuMemFreeAsync(address, 0))
    over("cuMemAllocFromPoolAsync", lambda size: driver.cuMemAllocFromPoolAsync(size, pool, 0), driver.cuMemFree)
    over("cuMemCreate", create, driver.cuMemRelease)
    over("cuArrayCreate", array, driver.cuArrayDestroy)
    over("cuGraphAddMemAllocNode", graph, free_of_graph)


if __name__ == "__main__":
    main()
