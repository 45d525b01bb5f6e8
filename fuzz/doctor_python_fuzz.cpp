// Texts of a Python installation, which any package can write. The first byte selects the parser.
#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "doctor/facts/package_builds.hpp"
#include "doctor/knowledge/compatibility.hpp"
#include "doctor/knowledge/python_text.hpp"
#include "doctor/knowledge/version.hpp"

namespace doctor = berth::doctor;

namespace {

void read_versions(std::string_view text) {
  const doctor::Version version = doctor::version_of(text);
  BERTH_CHECK(version.size() <= 8 && doctor::compare(version, version) == 0);
  static_cast<void>(doctor::in_range(text, text));
  static_cast<void>(doctor::cuda_of_tag(doctor::local_part(text)));
  static_cast<void>(
      doctor::torch_kernels(doctor::shipped_compatibility(), text, text, false, text));
  static_cast<void>(doctor::shipped_compatibility().capability_of(text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::string_view rest(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0] % 7) {
    case 0:
      for (const std::string& need : doctor::parse_metadata(rest).needs)
        static_cast<void>(doctor::parse_requirement(need));
      break;
    case 1:
      static_cast<void>(doctor::parse_torch_version(rest));
      for (const char* package : {"tensorflow", "onnxruntime", "xformers", "paddlepaddle"})
        static_cast<void>(doctor::parse_package_build(package, rest));
      break;
    case 2:
      static_cast<void>(doctor::parse_venv_config(rest));
      break;
    case 3:
      BERTH_CHECK(doctor::parse_pth(rest).size() <= 100);
      break;
    case 4:
      static_cast<void>(doctor::parse_info_name(rest));
      break;
    case 5:
      read_versions(rest);
      break;
    default:
      static_cast<void>(doctor::compatibility_from(rest));
  }
  return 0;
}
