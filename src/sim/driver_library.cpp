// Hides functions of the simulated library by changing the first letter of their names in the
// string table. dlsym() still finds the entry by its hash, but then the name differs, so the
// look-up fails.
#include "sim/driver_library.hpp"

#include <elf.h>

#include <cstring>

#include "base/text_parts.hpp"

extern "C" {
extern const unsigned char berth_sim_nvml[], berth_sim_nvml_end[];
extern const unsigned char berth_sim_cuda[], berth_sim_cuda_end[];
extern const unsigned char berth_sim_sleeper[], berth_sim_sleeper_end[];
extern const unsigned char berth_nvml_functions[], berth_nvml_functions_end[];
extern const unsigned char berth_nvml_since[], berth_nvml_since_end[];
}

namespace berth::sim {
namespace {

std::string_view between(const unsigned char* begin, const unsigned char* end) {
  return {reinterpret_cast<const char*>(begin), static_cast<std::size_t>(end - begin)};
}

std::string_view since() {
  return between(berth_nvml_since, berth_nvml_since_end);
}

/// The range of the file that contains the names of dynamic symbols. {0, 0} if the file is not an
/// ELF file for this machine.
struct Range {
  std::size_t at = 0, size = 0;
};
Range dynamic_names(const std::string& file) {
  Elf64_Ehdr header;
  if (file.size() < sizeof(header)) return {};
  std::memcpy(&header, file.data(), sizeof(header));
  if (std::memcmp(header.e_ident, ELFMAG, SELFMAG) != 0 || header.e_shentsize != sizeof(Elf64_Shdr))
    return {};
  for (std::size_t i = 0; i < header.e_shnum; ++i) {
    Elf64_Shdr section, names;
    const std::size_t at = header.e_shoff + i * sizeof(section);
    if (at + sizeof(section) > file.size()) return {};
    std::memcpy(&section, file.data() + at, sizeof(section));
    if (section.sh_type != SHT_DYNSYM) continue;
    const std::size_t names_at = header.e_shoff + section.sh_link * sizeof(names);
    if (names_at + sizeof(names) > file.size()) return {};
    std::memcpy(&names, file.data() + names_at, sizeof(names));
    if (names.sh_offset + names.sh_size > file.size()) return {};
    return {names.sh_offset, names.sh_size};
  }
  return {};
}

}  // namespace

std::vector<std::string_view> driver_functions() {
  std::vector<std::string_view> names;
  for (const std::string_view line :
       split(between(berth_nvml_functions, berth_nvml_functions_end), '\n'))
    if (!line.empty()) names.push_back(line);
  return names;
}

std::string_view sleeper_program() {
  return between(berth_sim_sleeper, berth_sim_sleeper_end);
}

std::string_view cuda_library() {
  return between(berth_sim_cuda, berth_sim_cuda_end);
}

std::string driver_library(std::uint32_t driver_major) {
  std::string file(between(berth_sim_nvml, berth_sim_nvml_end));
  const Range names = dynamic_names(file);
  for (const std::string_view line : split(since(), '\n')) {
    const auto blank = line.find(' ');
    if (line.empty() || line[0] == '#' || blank == std::string_view::npos) continue;
    const auto branch = to_number(line.substr(blank + 1));
    if (!branch || *branch <= static_cast<std::int64_t>(driver_major)) continue;
    std::string whole(
        1,
        '\0');  // include the zero bytes on both sides, so that only whole names match
    whole.append(line.substr(0, blank)).push_back('\0');
    const auto at = file.find(whole, names.at);
    if (at != std::string::npos && at + whole.size() <= names.at + names.size) file[at + 1] = '-';
  }
  return file;
}

}  // namespace berth::sim
