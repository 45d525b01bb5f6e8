#include "cli/trace_format.hpp"

#include <fmt/format.h>

#include <bit>
#include <map>
#include <tuple>
#include <utility>

#include "base/text_parts.hpp"

namespace berth::cli {
namespace {

/// Text as a JSON string. Names of processes may contain any character.
std::string in_quotes(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += fmt::format("\\{}", c);
    else
      out += static_cast<unsigned char>(c) < ' ' || static_cast<unsigned char>(c) > '~' ? '?' : c;
  }
  return out + "\"";
}

class JsonTrace : public TraceWriter {
 public:
  explicit JsonTrace(const std::string& job) : text_("[") { name_process(kTracedJob, job); }
  void add_process(std::int64_t pid, const std::string& name) override {
    text_ += ",";
    name_process(pid, name);
  }
  void add_counter(std::int64_t pid, const std::string& name, std::chrono::microseconds at,
                   const std::vector<TraceValue>& values) override {
    std::string args;
    for (const TraceValue& one : values) {
      args += fmt::format("{}\"{}{}{}\":", args.empty() ? "" : ",", one.part,
                          one.part.empty() ? "" : ", ", one.unit);
      if (const auto* count = std::get_if<std::uint64_t>(&one.value))
        args += fmt::format("{}", *count);
      else
        args += fmt::format("{:.1f}", std::get<double>(one.value));
    }
    text_ += fmt::format(",\n{{\"ph\":\"C\",\"pid\":{},\"ts\":{},\"name\":{},\"args\":{{{}}}}}",
                         pid, at.count(), in_quotes(name), args);
  }
  std::string take() override { return std::exchange(text_, ""); }
  [[nodiscard]] std::string end() const override { return "\n]\n"; }

 private:
  void name_process(std::int64_t pid, const std::string& name) {
    text_ += fmt::format(
        "\n{{\"ph\":\"M\",\"pid\":{},\"name\":\"process_name\",\"args\":{{\"name\":{}}}}}", pid,
        in_quotes(name));
  }
  std::string text_;
};

/// Field numbers of protobuf messages, from Perfetto's protos/perfetto/trace/*.proto.
enum Field : std::uint32_t {
  kTracePacket = 1,
  kPacketTimestamp = 8,  // in nanoseconds
  kPacketSequence = 10,
  kPacketEvent = 11,
  kPacketTrack = 60,
  kTrackUuid = 1,
  kTrackName = 2,
  kTrackProcess = 3,
  kTrackParent = 5,
  kTrackCounter = 8,
  kProcessPid = 1,
  kProcessName = 6,
  kCounterUnit = 3,
  kCounterUnitName = 6,
  kEventType = 9,
  kEventTrack = 11,
  kEventCount = 30,  // int64
  kEventDouble = 44,
};
constexpr std::uint64_t kTypeCounter = 4, kUnitBytes = 3, kSequence = 1;

/// Writes a protobuf message. Each field is its number and wire type, followed by its value.
class Message {
 public:
  Message& number(Field field, std::uint64_t value) {
    varint(field << 3U);
    varint(value);
    return *this;
  }
  Message& real(Field field, double value) {
    varint(field << 3U | 1U);
    const auto bits = std::bit_cast<std::uint64_t>(value);
    for (unsigned i = 0; i < 64; i += 8) bytes_ += static_cast<char>(bits >> i & 0xffU);
    return *this;
  }
  Message& text(Field field, std::string_view value) {
    varint(field << 3U | 2U);
    varint(value.size());
    bytes_ += value;
    return *this;
  }
  Message& part(Field field, const Message& value) { return text(field, value.bytes_); }
  [[nodiscard]] const std::string& bytes() const { return bytes_; }

 private:
  void varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7U) bytes_ += static_cast<char>(value | 0x80U);
    bytes_ += static_cast<char>(value);
  }
  std::string bytes_;
};

/// Writes TracePackets. Each counter is a track below the track of its process. Counters of the
/// whole job have a track without a process.
class PacketTrace : public TraceWriter {
 public:
  explicit PacketTrace(const std::string& job) {
    owners_[kTracedJob] = ++tracks_;
    add(Message().part(kPacketTrack,
                       Message().number(kTrackUuid, tracks_).text(kTrackName, printable(job))));
  }
  void add_process(std::int64_t pid, const std::string& name) override {
    owners_[pid] = ++tracks_;
    const Message process = Message()
                                .number(kProcessPid, static_cast<std::uint64_t>(pid))
                                .text(kProcessName, printable(name));
    add(Message().part(kPacketTrack,
                       Message().number(kTrackUuid, tracks_).part(kTrackProcess, process)));
  }
  void add_counter(std::int64_t pid, const std::string& name, std::chrono::microseconds at,
                   const std::vector<TraceValue>& values) override {
    const auto time = static_cast<std::uint64_t>(std::chrono::nanoseconds(at).count());
    for (const TraceValue& one : values) {
      auto& [track, newest] = counters_[{pid, name, one.part}];
      if (track != 0 && newest == one.value) continue;
      if (track == 0) track = new_counter(pid, name, one);
      newest = one.value;
      Message event;
      event.number(kEventType, kTypeCounter).number(kEventTrack, track);
      if (const auto* count = std::get_if<std::uint64_t>(&one.value))
        event.number(kEventCount, *count);
      else
        event.real(kEventDouble, std::get<double>(one.value));
      add(Message()
              .number(kPacketTimestamp, time)
              .number(kPacketSequence, kSequence)
              .part(kPacketEvent, event));
    }
  }
  std::string take() override { return std::exchange(bytes_, ""); }
  [[nodiscard]] std::string end() const override { return ""; }

 private:
  struct Counter {
    std::uint64_t track = 0;
    std::variant<std::uint64_t, double> newest;
  };
  void add(const Message& packet) { bytes_ += Message().part(kTracePacket, packet).bytes(); }
  std::uint64_t new_counter(std::int64_t pid, const std::string& name, const TraceValue& value) {
    Message counter;
    if (value.unit == "bytes")
      counter.number(kCounterUnit, kUnitBytes);
    else
      counter.text(kCounterUnitName, value.unit);
    const std::string whole = name + (value.part.empty() ? "" : " ") + std::string(value.part);
    add(Message().part(kPacketTrack, Message()
                                         .number(kTrackUuid, ++tracks_)
                                         .number(kTrackParent, owners_[pid])
                                         .text(kTrackName, whole)
                                         .part(kTrackCounter, counter)));
    return tracks_;
  }

  std::string bytes_;
  // Number of tracks. Their uuids are 1 to tracks_.
  std::uint64_t tracks_ = 0;
  std::map<std::int64_t, std::uint64_t> owners_;  // by pid
  std::map<std::tuple<std::int64_t, std::string, std::string_view>, Counter> counters_;
};

}  // namespace

TraceFormat trace_format_of(std::string_view file) {
  return file.ends_with(".json") ? TraceFormat::kJson : TraceFormat::kPackets;
}

std::unique_ptr<TraceWriter> trace_writer(TraceFormat format, const std::string& job) {
  if (format == TraceFormat::kJson) return std::make_unique<JsonTrace>(job);
  return std::make_unique<PacketTrace>(job);
}

}  // namespace berth::cli
