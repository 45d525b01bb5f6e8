// How programs find driver functions, and how the guard intercepts that: linked symbols (the loader
// finds ours first), dlsym(), and cuGetProcAddress(). The real function is always asked first, and
// a result is replaced only if it is one of the driver's own functions. So versions, flags and
// functions that the guard does not know still work.
#include <dlfcn.h>
#include <elf.h>
#include <pthread.h>
#include <string.h>

#include "preload/cuda/hooks.hpp"
#include "preload/old_glibc.hpp"
#include "vendor/cuda/memory_names.hpp"

namespace berth::guard {

namespace real {
#define HOOK(name, parameters) constinit decltype(&::name) name = nullptr;
#include "preload/cuda/hooks.inc"
#undef HOOK
}  // namespace real

namespace {

const Hook kHooks[] = {
#define HOOK(name, parameters) \
  {#name, reinterpret_cast<void*>(&::name), reinterpret_cast<void**>(&real::name)},
#include "preload/cuda/hooks.inc"
#undef HOOK
};
constexpr std::size_t kCount = sizeof(kHooks) / sizeof(kHooks[0]);

using Dlsym = void* (*)(void*, const char*);
constinit Dlsym g_dlsym = nullptr;
constinit void* g_driver = nullptr;
// 1: the driver's functions are loaded; -1: there is no driver; 0: not tried yet
constinit int g_loaded = 0;
constinit pthread_mutex_t g_lock = PTHREAD_MUTEX_INITIALIZER;

struct Symbols {
  const Elf64_Sym* first = nullptr;
  const char* names = nullptr;
  std::size_t count = 0;
};

/// The symbols that the library at `base` exports.
Symbols symbols_of(const char* base) {
  Symbols out;
  const auto* head = reinterpret_cast<const Elf64_Ehdr*>(base);
  const auto* parts = reinterpret_cast<const Elf64_Phdr*>(base + head->e_phoff);
  const Elf64_Dyn* row = nullptr;
  for (int i = 0; i < head->e_phnum; ++i)
    if (parts[i].p_type == PT_DYNAMIC)
      row = reinterpret_cast<const Elf64_Dyn*>(base + parts[i].p_vaddr);
  const Elf64_Word* hash = nullptr;
  for (; row != nullptr && row->d_tag != DT_NULL; ++row) {
    const char* where = base + row->d_un.d_ptr;
    if (row->d_tag == DT_SYMTAB) out.first = reinterpret_cast<const Elf64_Sym*>(where);
    if (row->d_tag == DT_STRTAB) out.names = where;
    if (row->d_tag == DT_HASH) hash = reinterpret_cast<const Elf64_Word*>(where);
  }
  if (out.first == nullptr || out.names == nullptr) return {};
  // DT_HASH contains the number of symbols. Without it, assume that the names follow the symbols,
  // because all linkers place them so.
  const auto* end = reinterpret_cast<const Elf64_Sym*>(out.names);
  if (hash != nullptr)
    out.count = hash[1];
  else if (end > out.first)
    out.count = static_cast<std::size_t>(end - out.first);
  return out;
}

/// The dlsym of musl, which has no dlvsym. No GPU driver runs on musl, but a program that was
/// preloaded with the guard must run as before.
void* dlsym_of_musl() {
  Dl_info libc = {};
  if (dladdr(reinterpret_cast<void*>(&dladdr), &libc) == 0 || libc.dli_fbase == nullptr)
    return nullptr;
  char* base = static_cast<char*>(libc.dli_fbase);
  const Symbols all = symbols_of(base);
  for (std::size_t i = 0; i < all.count; ++i)
    if (all.first[i].st_shndx != SHN_UNDEF &&
        strcmp(all.names + all.first[i].st_name, "dlsym") == 0)
      return base + all.first[i].st_value;
  return nullptr;
}

/// libc's own dlsym; its version depends on libc's age and on the processor.
Dlsym real_dlsym() {
  if (g_dlsym != nullptr) return g_dlsym;
  if (&dlvsym == nullptr) {
    g_dlsym = reinterpret_cast<Dlsym>(dlsym_of_musl());
    return g_dlsym;
  }
  constexpr const char* kVersions[] = {"GLIBC_2.34", "GLIBC_2.17", "GLIBC_2.2.5"};
  for (const char* version : kVersions) {
    void* found = dlvsym(RTLD_NEXT, "dlsym", version);
    if (found == nullptr) continue;
    g_dlsym = reinterpret_cast<Dlsym>(found);
    break;
  }
  return g_dlsym;
}

/// Finds the driver's functions. Call it with the lock held.
int load() {
  g_driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_LOCAL);
  if (g_driver == nullptr) return -1;
  const Dlsym find = real_dlsym();
  if (find == nullptr) return -1;
  for (const Hook& hook : kHooks) {
    void* function = find(g_driver, hook.name);
    // Do not store our own wrapper: if the driver lacks the function, dlsym() continues to search
    // in the whole program.
    if (function != hook.wrapper) __atomic_store_n(hook.real, function, __ATOMIC_RELEASE);
  }
  return 1;
}

bool is_of_driver(void* function) {
  static void* known = nullptr;
  void* base = __atomic_load_n(&known, __ATOMIC_ACQUIRE);
  Dl_info own = {}, its = {};
  if (base == nullptr && real::cuInit != nullptr &&
      dladdr(reinterpret_cast<void*>(real::cuInit), &own) != 0) {
    base = own.dli_fbase;
    __atomic_store_n(&known, base, __ATOMIC_RELEASE);
  }
  return base != nullptr && dladdr(function, &its) != 0 && its.dli_fbase == base;
}

/// Records that the program found a function of a newer driver, because the report must say that
/// the memory of this function may not be counted.
void note_name(const char* name, void* function) {
  using namespace berth::vendor::cuda;
  if (function == nullptr || !may_take_memory(name) || memory_name(name) != MemoryName::kUnknown ||
      region() == nullptr || !is_of_driver(function))
    return;
  wire::Usage& usage = *region()->usage;
  std::uint32_t none = 0;
  if (!__atomic_compare_exchange_n(&usage.names, &none, 1, false, __ATOMIC_ACQ_REL,
                                   __ATOMIC_RELAXED))
    return;
  strncpy(usage.unknown_name, name, sizeof(usage.unknown_name) - 1);
  __atomic_store_n(&usage.trouble, wire::kUnknownMemory, __ATOMIC_RELEASE);
}

/// Whether the name is one of the driver's, such as "cuMemAlloc", but not "cublasCreate" or
/// "cudaMalloc".
bool is_driver_name(const char* name) {
  return name[0] == 'c' && name[1] == 'u' && name[2] >= 'A' && name[2] <= 'Z';
}

bool is_nvml_name(const char* name) {
  return strncmp(name, "nvmlDeviceGet", 13) == 0;
}

}  // namespace

void* libc_dlsym(void* library, const char* name) {
  const Dlsym find = real_dlsym();
  return find == nullptr ? nullptr : find(library, name);
}

const Hook* hooks(std::size_t& count) {
  count = kCount;
  return kHooks;
}

const Hook* hook_named(const char* name) {
  std::size_t low = 0, high = kCount;
  while (low < high) {
    const std::size_t middle = (low + high) / 2;
    const int order = strcmp(kHooks[middle].name, name);
    if (order == 0) return &kHooks[middle];
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return nullptr;
}

bool load_driver() {
  const int known = __atomic_load_n(&g_loaded, __ATOMIC_ACQUIRE);
  if (known != 0) return known > 0;
  pthread_mutex_lock(&g_lock);
  if (g_loaded == 0) __atomic_store_n(&g_loaded, load(), __ATOMIC_RELEASE);
  pthread_mutex_unlock(&g_lock);
  return g_loaded > 0;
}

void* driver_function(const char* name) {
  return load_driver() ? real_dlsym()(g_driver, name) : nullptr;
}

void* instead_of(void* function) {
  if (function == nullptr || !load_driver()) return function;
  for (const Hook& hook : kHooks)
    if (*hook.real == function) return hook.wrapper;
  return function;
}

}  // namespace berth::guard

using namespace berth::guard;

/// Jumps to libc's dlsym for other functions, so that libc sees the real caller: RTLD_NEXT means
/// the next object after it.
GUARD_EXPORT void* dlsym(void* handle, const char* name) noexcept {
  const Dlsym find = real_dlsym();
  if (find == nullptr) return nullptr;
  if (is_nvml_name(name) && handle != RTLD_NEXT)
    return instead_of_nvml(name, find(handle, name), __builtin_return_address(0));
  if (!is_driver_name(name) || handle == RTLD_NEXT) return find(handle, name);
  const bool is_wrapped = hook_named(name) != nullptr;
  if (!is_wrapped && !berth::vendor::cuda::may_take_memory(name)) return find(handle, name);
  void* function = find(handle, name);
  if (is_wrapped) return instead_of(function);
  note_name(name, function);
  return function;
}

namespace {

void replace(const char* name, void*& function) {
  void* const wrapper = instead_of(function);
  if (wrapper == function) note_name(name, function);
  function = wrapper;
}

}  // namespace

CUresult cuGetProcAddress_v2(const char* name, void** function, int version, std::uint64_t flags,
                             CUdriverProcAddressQueryResult* status) {
  NEED_REAL(cuGetProcAddress_v2);
  const CUresult result = real::cuGetProcAddress_v2(name, function, version, flags, status);
  if (result == CUDA_SUCCESS && function != nullptr) replace(name, *function);
  return result;
}
CUresult cuGetProcAddress(const char* name, void** function, int version, std::uint64_t flags) {
  NEED_REAL(cuGetProcAddress);
  const CUresult result = real::cuGetProcAddress(name, function, version, flags);
  if (result == CUDA_SUCCESS && function != nullptr) replace(name, *function);
  return result;
}
