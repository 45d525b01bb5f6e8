// What a running job shows of itself: its memory maps and descriptor links, all of its own making.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "run/traces.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth::run;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data + 1), size - 1);
  Traces traces;
  if (data[0] % 2 == 0)
    add_maps(text, traces);
  else
    add_descriptor(text, traces);
  for (const auto& file : traces.files) BERTH_CHECK(file.find(".so") != std::string::npos);
  for (const auto& node : traces.nodes) BERTH_CHECK(is_work_node(node));
  return 0;
}
