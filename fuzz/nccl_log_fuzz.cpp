// NCCL's log, which the ranks of a job write.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "base/result.hpp"
#include "run/nccl_log.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace berth::run;
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  if (const auto one = parse_nccl_channel(text))
    BERTH_CHECK(!one->transport.empty() && one->from >= 0 && one->to >= 0);
  NcclLogs logs;
  logs.add(0, text);
  if (const auto seen = logs.result())
    for (const auto& link : seen->links) BERTH_CHECK(link.channels > 0);
  return 0;
}
