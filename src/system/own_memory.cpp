#include "system/own_memory.hpp"

#include <link.h>
#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>

namespace berth::system {
namespace {

int release_pages(dl_phdr_info* object, std::size_t, void*) {
  const auto page = static_cast<std::uintptr_t>(::sysconf(_SC_PAGESIZE));
  if (std::string_view(object->dlpi_name).starts_with("linux-"))
    return 0;  // the vDSO belongs to no file, so the kernel could not load its pages again
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = object->dlpi_phdr[i];
    // Skip writable parts. The kernel can load only unmodified pages of a file again.
    if (part.p_type != PT_LOAD || (part.p_flags & PF_W) != 0) continue;
    const std::uintptr_t begin = (object->dlpi_addr + part.p_vaddr) & ~(page - 1);
    const std::uintptr_t end = object->dlpi_addr + part.p_vaddr + part.p_memsz;
    ::madvise(reinterpret_cast<void*>(begin), end - begin, MADV_DONTNEED);
  }
  return 0;
}

}  // namespace

void use_one_heap() {
  ::mallopt(M_ARENA_MAX, 1);  // NOLINT(concurrency-mt-unsafe): there is no other thread yet
}

void release_startup_memory() {
  ::malloc_trim(0);
  ::dl_iterate_phdr(release_pages, nullptr);
}

}  // namespace berth::system
