// Memory maps and descriptor links of a running job, which the job controls.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "run/gpu_files.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth::run;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  GpuFiles gpu_files;
  if (data[0] % 2 == 0)
    add_maps(text, gpu_files);
  else
    add_descriptor(text, gpu_files);
  for (const auto& file : gpu_files.files) BERTH_CHECK(file.find(".so") != std::string::npos);
  for (const auto& node : gpu_files.nodes) BERTH_CHECK(is_work_node(node));
  return 0;
}
