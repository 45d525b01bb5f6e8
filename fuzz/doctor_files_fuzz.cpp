// Foreign files that the doctor parses: ELF, the loader's cache, and documents of a bundle. The
// first byte selects the parser.
#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/result.hpp"
#include "doctor/read/bundle_json.hpp"
#include "doctor/read/cache.hpp"
#include "doctor/read/elf.hpp"
#include "doctor/read/fatbin.hpp"
#include "doctor/read/process.hpp"

namespace doctor = berth::doctor;

namespace {

void read_elf(std::string_view bytes) {
  const doctor::ReadAt read = [bytes](std::uint64_t offset, void* into, std::size_t size) {
    if (offset > bytes.size() || bytes.size() - offset < size) return false;
    std::memcpy(into, bytes.data() + offset, size);
    return true;
  };
  if (const auto elf = doctor::parse_elf(read)) BERTH_CHECK(elf->needed.size() <= 4096);
  static_cast<void>(doctor::defines_symbol(read, "cuInit"));
  if (const auto code = doctor::gpu_code(read))
    BERTH_CHECK(code->sass.size() + code->ptx.size() > 0 && code->sass.size() < 1000);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 5) {
    case 0:
      read_elf(rest);
      break;
    case 1:
      for (const auto& [name, files] : doctor::parse_loader_cache(rest))
        BERTH_CHECK(!name.empty() && !files.empty());
      break;
    case 2:
      if (const auto answers = doctor::driver_from_json(rest, "driver.json"))
        BERTH_CHECK(doctor::driver_from_json(doctor::driver_to_json(*answers), "").has_value());
      break;
    case 3:
      if (const auto facts = doctor::process_from_json(rest, "process.json"))
        BERTH_CHECK(doctor::process_from_json(doctor::process_to_json(*facts), "").has_value());
      break;
    default:
      static_cast<void>(doctor::environment_from(rest));
  }
  return 0;
}
