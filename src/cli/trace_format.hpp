// The two formats of a trace file. Perfetto reads both: its own format, which is protobuf
// (TracePacket), and the JSON trace format.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace berth::cli {

enum class TraceFormat : unsigned char { kPackets, kJson };

/// The format for a file name: JSON if the name ends with ".json", Perfetto's format for all
/// others.
[[nodiscard]] TraceFormat trace_format_of(std::string_view file);

/// One value of a counter.
struct TraceValue {
  // The name of this value if the counter has several values, such as "used" and "limit"; "" if it
  // has one.
  std::string_view part;
  std::string_view unit;  // the unit, such as "bytes" or "per second"
  std::variant<std::uint64_t, double> value;
  friend bool operator==(const TraceValue&, const TraceValue&) = default;
};

inline constexpr std::int64_t kTracedJob = 0;  // used instead of a pid for the whole job

class TraceWriter {
 public:
  TraceWriter() = default;
  TraceWriter(const TraceWriter&) = delete;
  TraceWriter& operator=(const TraceWriter&) = delete;
  virtual ~TraceWriter() = default;
  virtual void add_process(std::int64_t pid, const std::string& name) = 0;
  /// Writes the values of a counter, which are valid from the time `at`. `pid` is its process, or
  /// kTracedJob.
  virtual void add_counter(std::int64_t pid, const std::string& name, std::chrono::microseconds at,
                           const std::vector<TraceValue>& values) = 0;
  /// Returns the bytes written since the last call.
  [[nodiscard]] virtual std::string take() = 0;
  /// The bytes to write at the end of the file.
  [[nodiscard]] virtual std::string end() const = 0;
};

[[nodiscard]] std::unique_ptr<TraceWriter> trace_writer(TraceFormat format, const std::string& job);

}  // namespace berth::cli
