#include "guard/self_test.hpp"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

#include "base/file.hpp"
#include "base/text_parts.hpp"
#include "vendor/cuda/abi.hpp"
#include "vendor/cuda/memory_names.hpp"

namespace berth::guard {
namespace {

constexpr std::uint64_t kPage = 2U << 20U;

std::string file_of(const void* function) {
  Dl_info info{};
  if (function == nullptr || ::dladdr(function, &info) == 0 || info.dli_fname == nullptr) return "";
  return info.dli_fname;
}

/// The names that a loaded library exports, from its symbol table in memory.
std::vector<std::string> exports_of(void* library) {
  std::vector<std::string> names;
  link_map* map = nullptr;
  if (::dlinfo(library, RTLD_DI_LINKMAP, &map) != 0 || map == nullptr) return names;
  const ElfW(Sym)* symbols = nullptr;
  const char* words = nullptr;
  const std::uint32_t* gnu = nullptr;
  const std::uint32_t* old = nullptr;
  const auto at = [&](ElfW(Addr) value) {
    // some dynamic loaders do not add the base address
    return value < map->l_addr ? value + map->l_addr : value;
  };
  for (const ElfW(Dyn)* entry = map->l_ld; entry->d_tag != DT_NULL; ++entry) {
    const ElfW(Addr) where = at(entry->d_un.d_ptr);
    if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(where);
    if (entry->d_tag == DT_STRTAB) words = reinterpret_cast<const char*>(where);
    if (entry->d_tag == DT_GNU_HASH) gnu = reinterpret_cast<const std::uint32_t*>(where);
    if (entry->d_tag == DT_HASH) old = reinterpret_cast<const std::uint32_t*>(where);
  }
  if (symbols == nullptr || words == nullptr) return names;
  std::size_t count = old != nullptr ? old[1] : 0;
  if (count == 0 && gnu != nullptr) {
    // DT_GNU_HASH has no symbol count. The last symbol is at the end of the chain of the highest
    // bucket.
    const std::uint32_t buckets = gnu[0], first = gnu[1], bloom = gnu[2];
    const auto* bucket = reinterpret_cast<const std::uint32_t*>(
        reinterpret_cast<const ElfW(Addr)*>(gnu + 4) + bloom);
    std::uint32_t last = 0;
    for (std::uint32_t i = 0; i < buckets; ++i) last = std::max(last, bucket[i]);
    if (last >= first)
      while ((bucket[buckets + last - first] & 1U) == 0) ++last;
    count = last + 1U;
  }
  for (std::size_t i = 0; i < count; ++i)
    if (symbols[i].st_shndx != SHN_UNDEF && symbols[i].st_name != 0)
      names.emplace_back(words + symbols[i].st_name);
  return names;
}

class Test {
 public:
  Test(std::uint64_t quota, int out) : quota_(quota), out_(out) {}

  void run() {
    library_ = ::dlopen("libcuda.so.1", RTLD_NOW);
    if (library_ == nullptr) return fail("dlopen", -1);
    guard_ = file_of(::dlsym(RTLD_DEFAULT, "cuMemAlloc_v2"));
    paths();
    names();
    if (!begin()) return;
    if (amounts()) kinds();
  }

 private:
  template <typename Function>
  Function* find(const char* name) {
    return reinterpret_cast<Function*>(::dlsym(library_, name));
  }
  void say(const std::string& line) const {
    const std::string whole = line + "\n";
    static_cast<void>(!::write(out_, whole.data(), whole.size()));
  }
  void check(const std::string& id, bool holds) const {
    say("check\t" + id + "\t" + (holds ? "1" : "0"));
  }
  void fail(const char* step, int error) const {
    say(std::string("failed\t") + step + "\t" + std::to_string(error));
  }
  bool is_guarded(const void* function) const {
    const std::string file = file_of(function);
    return !guard_.empty() && file == guard_ && file.find("libberth-guard") != std::string::npos;
  }

  /// Checks each way in which a program can get a driver function. A linked program gets what
  /// RTLD_DEFAULT finds. The CUDA runtime's cudaGetDriverEntryPoint calls cuGetProcAddress.
  void paths() {
    check("path linked", is_guarded(::dlsym(RTLD_DEFAULT, "cuMemAlloc_v2")));
    check("path dlsym", is_guarded(::dlsym(library_, "cuMemAlloc_v2")));
    using First = CUresult(const char*, void**, int, std::uint64_t);
    using Second = CUresult(const char*, void**, int, std::uint64_t, int*);
    void* found = nullptr;
    int status = 0;
    if (auto* ask = find<First>("cuGetProcAddress")) {
      const bool has = ask("cuMemAlloc", &found, 11030, 0) == CUDA_SUCCESS;
      check("path cuGetProcAddress", has && is_guarded(found));
    } else {
      say("check\tpath cuGetProcAddress\t-");
    }
    if (auto* ask = find<Second>("cuGetProcAddress_v2")) {
      const bool has = ask("cuMemAlloc", &found, 12000, 0, &status) == CUDA_SUCCESS;
      check("path cuGetProcAddress_v2", has && is_guarded(found));
      const bool has_own =
          ask("cuLaunchKernel", &found, 12000, CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM,
              &status) == CUDA_SUCCESS;
      check("path cuGetProcAddress_v2 per thread", has_own && is_guarded(found));
    } else {
      say("check\tpath cuGetProcAddress_v2\t-");
    }
  }

  void names() {
    using namespace vendor::cuda;
    for (const std::string& name : exports_of(library_)) {
      if (!name.starts_with("cu") || name.size() < 3 || name[2] < 'A' || name[2] > 'Z') continue;
      if (!may_take_memory(name.c_str()) || memory_name(name.c_str()) != MemoryName::kUnknown ||
          is_guarded(::dlsym(library_, name.c_str())))
        continue;
      say("unknown\t" + printable(name));
    }
  }

  bool begin() {
    CUcontext context = nullptr;
    CUresult result = CUDA_ERROR_NOT_FOUND;
    if (auto* init = find<CUresult(unsigned)>("cuInit")) result = init(0);
    if (result != CUDA_SUCCESS) return fail("cuInit", result), false;
    result = CUDA_ERROR_NOT_FOUND;
    if (auto* create = find<CUresult(CUcontext*, unsigned, CUdevice)>("cuCtxCreate_v2"))
      result = create(&context, 0, 0);
    if (result != CUDA_SUCCESS) return fail("cuCtxCreate_v2", result), false;
    return true;
  }

  bool amounts() {
    auto* info = find<CUresult(std::size_t*, std::size_t*)>("cuMemGetInfo_v2");
    auto* allocate = find<CUresult(CUdeviceptr*, std::size_t)>("cuMemAlloc_v2");
    auto* release = find<CUresult(CUdeviceptr)>("cuMemFree_v2");
    if (info == nullptr || allocate == nullptr || release == nullptr)
      return fail("cuMemAlloc_v2", CUDA_ERROR_NOT_FOUND), false;
    std::size_t left = 0, total = 0;
    check("total", info(&left, &total) == CUDA_SUCCESS && total == quota_);
    // If the device has too little free memory, the driver itself refuses. Then a refusal would
    // prove nothing about the guard.
    if (left < std::min<std::uint64_t>(total, quota_))
      return fail("cuMemAlloc_v2", CUDA_ERROR_OUT_OF_MEMORY), false;
    CUdeviceptr half = 0, more = 0;
    const bool fits = allocate(&half, quota_ / 2) == CUDA_SUCCESS;
    check("within", fits);
    check("over", fits && allocate(&more, quota_ / 2 + 1) == CUDA_ERROR_OUT_OF_MEMORY);
    if (more != 0) release(more);
    check("freed", fits && release(half) == CUDA_SUCCESS &&
                       allocate(&half, quota_ / 2) == CUDA_SUCCESS &&
                       release(half) == CUDA_SUCCESS);
    return true;
  }

  /// Requests every kind of memory, each time more than the quota.
  void kinds() {
    const std::uint64_t over = quota_ + kPage;
    CUdeviceptr address = 0;
    CUarray array = nullptr;
    CUmipmappedArray mipmap = nullptr;
    CUmemoryPool pool = nullptr;
    CUmemGenericAllocationHandle handle = 0;
    std::size_t pitch = 0;
    const CUDA_ARRAY_DESCRIPTOR plane = {8192, over / 8192 / 16 + 1, 0x20, 4};
    const CUDA_ARRAY3D_DESCRIPTOR cube = {8192, over / 8192 / 16 + 1, 0, 0x20, 4, 0};
    CUmemAllocationProp place = {};
    place.type = 1;
    place.location = {CU_MEM_LOCATION_TYPE_DEVICE, 0};
    refuses<CUresult(CUdeviceptr*, std::size_t, unsigned)>(
        "cuMemAllocManaged", [&](auto* call) { return call(&address, over, 1); });
    refuses<CUresult(CUdeviceptr*, std::size_t*, std::size_t, std::size_t, unsigned)>(
        "cuMemAllocPitch_v2",
        [&](auto* call) { return call(&address, &pitch, 8192, over / 8192 + 1, 4); });
    refuses<CUresult(CUdeviceptr*, std::size_t, CUstream)>(
        "cuMemAllocAsync", [&](auto* call) { return call(&address, over, nullptr); });
    if (auto* get = find<CUresult(CUmemoryPool*, CUdevice)>("cuDeviceGetDefaultMemPool"))
      if (get(&pool, 0) == CUDA_SUCCESS)
        refuses<CUresult(CUdeviceptr*, std::size_t, CUmemoryPool, CUstream)>(
            "cuMemAllocFromPoolAsync",
            [&](auto* call) { return call(&address, over, pool, nullptr); });
    refuses<CUresult(CUmemGenericAllocationHandle*, std::size_t, const CUmemAllocationProp*,
                     unsigned long long)>(
        "cuMemCreate", [&](auto* call) { return call(&handle, over / kPage * kPage, &place, 0); });
    refuses<CUresult(CUarray*, const CUDA_ARRAY_DESCRIPTOR*)>(
        "cuArrayCreate_v2", [&](auto* call) { return call(&array, &plane); });
    refuses<CUresult(CUarray*, const CUDA_ARRAY3D_DESCRIPTOR*)>(
        "cuArray3DCreate_v2", [&](auto* call) { return call(&array, &cube); });
    refuses<CUresult(CUmipmappedArray*, const CUDA_ARRAY3D_DESCRIPTOR*, unsigned)>(
        "cuMipmappedArrayCreate", [&](auto* call) { return call(&mipmap, &cube, 1); });
  }

  template <typename Function, typename Call>
  void refuses(const char* name, Call&& call) {
    auto* function = find<Function>(name);
    const CUresult result = function == nullptr ? CUDA_ERROR_NOT_FOUND : call(function);
    if (result == CUDA_ERROR_NOT_FOUND || result == CUDA_ERROR_NOT_SUPPORTED)
      say(std::string("check\t") + name + "\t-");
    else
      check(name, result == CUDA_ERROR_OUT_OF_MEMORY);
  }

  std::uint64_t quota_;
  int out_;
  void* library_ = nullptr;
  std::string guard_;
};

}  // namespace

void run_self_test(std::uint64_t quota, int out) {
  Test(quota, out).run();
}

SelfTest read_self_test(std::string_view lines) {
  SelfTest out;
  for (const std::string_view line : split(lines, '\n')) {
    const auto parts = split(line, '\t');
    if (parts.size() == 3 && parts[0] == "check")
      out.checks.push_back(
          {std::string(parts[1]), parts[2] == "-" ? std::nullopt : std::optional(parts[2] == "1")});
    if (parts.size() == 2 && parts[0] == "unknown") out.unknown.emplace_back(parts[1]);
    if (parts.size() == 3 && parts[0] == "failed") {
      out.step = std::string(parts[1]);
      out.error = static_cast<int>(to_number(parts[2]).value_or(0));
    }
  }
  return out;
}

}  // namespace berth::guard
