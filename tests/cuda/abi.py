"""Writes a C++ file whose static_asserts compare Berth's own declarations of the CUDA driver with NVIDIA's headers: structs, constants, the
functions that the guard wraps and those that the simulated driver has."""
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
OURS = "src/vendor/cuda/abi.hpp"
# Fields that have another name here, because the header's names changed or are inside a union.
FIELDS = {("CUDA_EXTERNAL_MEMORY_HANDLE_DESC", "fd"): "handle.fd", ("CUDA_EXTERNAL_MEMORY_HANDLE_DESC", "handles"): "handle.win32",
          **{("CUmemAllocationProp", name): f"allocFlags.{name}" for name in ("compressionType", "gpuDirectRDMACapable", "usage", "reserved")},
          ("CUDA_MEMCPY3D_PEER", "reserved0"): "srcContext", ("CUDA_MEMCPY3D_PEER", "reserved1"): "dstContext"}
# Fields that replace reserved bytes of older headers: the first version that has them. `reserved` is shorter there.
NEWER = {("CUmemPoolProps", "gpuDirectRDMACapable"): 13000, ("CUmemPoolProps", "reserved"): 13000}


def structs(text):
    """The fields of each struct."""
    out = {}
    for name, body in re.findall(r"^struct (\w+) \{\n(.*?)^\};", text, re.M | re.S):
        words = re.split("[,;]", re.sub(r"//.*|\bunion \{|\};", "", body))
        out[name] = [found[1] for word in words if (found := re.search(r"(\w+)(?:\[\d+\])?\s*$", word))]
    out.update({name: out[same] for name, same in re.findall(r"^using (\w+) = (\w+);", text, re.M) if same in out})
    return out


def constants(text):
    """Names of numbers, but not those of the header's own enumerations' types."""
    return re.findall(r"\b(CU[A-Z_0-9]*_[A-Z_0-9]+) = (?:0x)?[-\d]", text) + ["CUDA_SUCCESS"]


def functions():
    """(where, function, parameters) of the guard and of the simulated driver."""
    for name, parameters in re.findall(r"^HOOK\((\w+), (\(.*\))\)$", (ROOT / "preload/cuda/hooks.inc").read_text(), re.M):
        yield "guard", name, parameters
    known = {}
    for path in sorted((ROOT / "simulator").glob("cuda_*.cpp")):
        text = path.read_text()
        for name, parameters in re.findall(r"^CUDA\((cu\w+)\)\s*(\([^{;]*\))\s*\{", text, re.M):
            known[name] = parameters
        for name, target in re.findall(r"^CUDA_ALIAS\((\w+), (\w+)\)", text, re.M):
            known[name] = known[target]
    for name, parameters in known.items():
        yield "simulator", name, " ".join(parameters.split())


def types(header):
    """The header's type of each exported function, from the table for cuGetProcAddress. Variants for per-thread default streams that came
    later than their function, with CUDA 7, have that version."""
    has, out = set(re.findall(r"\*(PFN_\w+)\)", header)), {}
    for name, since, function, per_thread in re.findall(
            r"^BERTH_CUDA\((\w+), (\d+), (\w+), (\w+)\)", (ROOT / "src/vendor/cuda/versions.inc").read_text(), re.M):
        for exported, version, variant in ((function, since, ""), (per_thread, since, per_thread[-5:]), (per_thread, 7000, per_thread[-5:])):
            if f"PFN_{name}_v{version}{variant}" in has:
                out.setdefault(exported, f"PFN_{name}_v{version}{variant}")
    return out


def cuda_version(header):
    return int(re.search(r"^#define CUDA_VERSION (\d+)", header, re.M)[1])


def same_struct(struct, fields, version):
    theirs = f"::{struct}"
    yield f'static_assert(sizeof(ours::{struct}) == sizeof({theirs}) && alignof(ours::{struct}) == alignof({theirs}), "{struct}");'
    for field in fields:
        if (struct, field) in NEWER and version < NEWER[struct, field]:
            continue
        name = FIELDS.get((struct, field), field)
        yield f'static_assert(offsetof(ours::{struct}, {field}) == offsetof({theirs}, {name}), "{struct}.{field}");'
        yield f'static_assert(sizeof(ours::{struct}{{}}.{field}) == sizeof({theirs}{{}}.{name}), "{struct}.{field}");'


def written(include):
    """The lines of the file. Functions that are newer than these headers become comments."""
    header, version = (include / "cudaTypedefs.h").read_text(), cuda_version((include / "cuda.h").read_text())
    text = (ROOT / OURS).read_text()
    yield '#include "abi.hpp"\nnamespace ours {\n#include "vendor/cuda/abi.hpp"\n}\n#define __CUDA_API_VERSION_INTERNAL\n#include <cudaTypedefs.h>'
    numbers = sorted(set(constants(text)))
    for name in numbers:  # some are macros, which would also replace ours
        yield f"#ifdef {name}\nconstexpr auto their_{name} = {name};\n#undef {name}\n#else\nconstexpr auto their_{name} = ::{name};\n#endif"
    yield from (f'static_assert(long(ours::{name}) == long(their_{name}), "{name}");' for name in numbers)
    for struct, fields in structs(text).items():
        yield from same_struct(struct, fields, version)
    of = types(header)
    for where, name, parameters in functions():
        if name in of:
            yield (f"namespace ours {{ static_assert(abi::Call<CUresult{parameters}, std::remove_pointer_t<::{of[name]}>>::value, "
                   f'"{where}: {name}"); }}')
        else:
            yield f"// newer than these headers: {where}: {name}"


def source(include):
    """The file for the headers of this folder."""
    return "\n".join(written(pathlib.Path(include))) + "\nint main() {}\n"
