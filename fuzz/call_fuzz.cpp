// Input on the broker's socket and in its journal: the target of a call, the body that submits a
// job, and a launch record. What can be read must be written back unchanged.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.hpp"
#include "broker/job_record.hpp"
#include "run/launch_record.hpp"
#include "serve/server.hpp"
#include "serve/target.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  berth::serve::Call call;
  if (berth::serve::take_target(text, call))
    BERTH_CHECK(call.path.find('\0') == std::string::npos && call.query.size() <= 32);
  if (const auto asked = berth::broker::submission_of(text)) {
    const auto again = berth::broker::job_of(berth::broker::record_of(asked->job));
    BERTH_CHECK(again && again->request.gpus == asked->job.request.gpus);
    for (const std::string& word : asked->command) BERTH_CHECK(word.find('\0') == word.npos);
  }
  if (const auto launch = berth::run::launch_in(text)) {
    const std::string record = berth::run::record_of(*launch);
    const auto again = berth::run::launch_in(record);
    BERTH_CHECK(again && berth::run::record_of(*again) == record);
  }
  return 0;
}
