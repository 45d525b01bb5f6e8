// The JSON documents of a bundle: driver.json, what the driver's library answered, and
// process.json, who asked. A key that is not there was not asked; null is "absent".
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "doctor/facts/driver_answers.hpp"
#include "doctor/facts/probe.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// Every fact unreadable with error 0: nobody asked.
[[nodiscard]] DriverAnswers driver_not_asked();
[[nodiscard]] GpuAnswer gpu_not_asked();
/// Fails with E0802; so does the other.
[[nodiscard]] Result<DriverAnswers> driver_from_json(std::string_view document,
                                                     const std::string& origin);
[[nodiscard]] std::string driver_to_json(const DriverAnswers& answers);

/// All but the environment, which has a file of its own.
[[nodiscard]] Result<ProcessFacts> process_from_json(std::string_view document,
                                                     const std::string& origin);
[[nodiscard]] std::string process_to_json(const ProcessFacts& facts);

/// {"answers":[…]}: what frameworks did when a kernel was tried (--deep). Fails with E0802.
[[nodiscard]] Result<ProbeFacts> probe_from_json(std::string_view document,
                                                 const std::string& origin);
[[nodiscard]] std::string probe_to_json(const std::vector<ProbeAnswer>& answers);

}  // namespace berth::doctor
