// The JSON documents of a bundle. driver.json has the answers of the driver's library, process.json
// the facts about the target process. A fact without a key was not requested; null means "absent".
#pragma once

#include <string>
#include <string_view>

#include "base/result.hpp"
#include "doctor/facts/driver_answers.hpp"
#include "doctor/facts/probe.hpp"
#include "doctor/facts/process.hpp"

namespace berth::doctor {

/// Answers in which all facts are unreadable with error 0, which means "not requested".
[[nodiscard]] DriverAnswers driver_not_asked();
[[nodiscard]] GpuAnswer gpu_not_asked();
/// Reads and writes driver.json. All readers in this file fail with E0802.
[[nodiscard]] Result<DriverAnswers> driver_from_json(std::string_view document,
                                                     const std::string& origin);
[[nodiscard]] std::string driver_to_json(const DriverAnswers& answers);

/// Reads and writes process.json, which has all facts about the process except its environment.
[[nodiscard]] Result<ProcessFacts> process_from_json(std::string_view document,
                                                     const std::string& origin);
[[nodiscard]] std::string process_to_json(const ProcessFacts& facts);

/// Reads and writes {"answers":[…]}, the results of the probe that runs a kernel in each framework
/// (--deep). Fails with E0802.
[[nodiscard]] Result<ProbeFacts> probe_from_json(std::string_view document,
                                                 const std::string& origin);
[[nodiscard]] std::string probe_to_json(const std::vector<ProbeAnswer>& answers);

}  // namespace berth::doctor
