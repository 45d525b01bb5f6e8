// The encoding of a chunk. Series are stored one after another, as tokens. A token is a varint. 0
// and a count: repeat the last value. 1 and a count: absent values. From 2 on: a difference to the
// last value (zigzag, plus 1). A busy GPU needs one or two bytes per value.
#include "watch/chunk.hpp"

#include <cmath>
#include <limits>

namespace berth::watch {

namespace {

constexpr std::uint64_t kSame = 0, kAbsent = 1;
constexpr unsigned char kFormat = 1;

/// A reading is the stored number multiplied by the step of its series.
constexpr std::array<double, kSeriesCount> kSteps = {1, 1, 1 << 20, 1, 100, 1};

void put(std::string& out, std::uint64_t number) {
  for (; number >= 0x80; number >>= 7U) out += static_cast<char>(0x80 | (number & 0x7FU));
  out += static_cast<char>(number);
}

std::optional<std::uint64_t> get(std::string_view& in) {
  std::uint64_t number = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (in.empty()) return std::nullopt;
    const auto byte = static_cast<unsigned char>(in.front());
    in.remove_prefix(1);
    number |= static_cast<std::uint64_t>(byte & 0x7FU) << shift;
    if ((byte & 0x80U) == 0) return number;
  }
  return std::nullopt;
}

std::uint64_t zigzag(std::int64_t number) {
  return (static_cast<std::uint64_t>(number) << 1U) ^ static_cast<std::uint64_t>(number >> 63);
}
std::int64_t unzigzag(std::uint64_t number) {
  return static_cast<std::int64_t>(number >> 1U) ^ -static_cast<std::int64_t>(number & 1U);
}

/// Returns the number to store; nullopt if the value is absent or out of range.
std::optional<std::int64_t> stored(const std::optional<double>& value, double step) {
  constexpr double kMost = 1e15;
  if (!value || !(std::abs(*value / step) < kMost)) return std::nullopt;
  return std::llround(*value / step);
}

void encode_series(const Chunk& chunk, std::size_t series, std::string& out) {
  std::int64_t last = 0;
  std::uint64_t run = 0, kind = kSame;
  const auto end_run = [&] {
    if (run == 0) return;
    put(out, kind);
    put(out, run);
    run = 0;
  };
  for (const Moment& moment : chunk) {
    const auto value = stored(moment[series], kSteps[series]);
    if (value && *value != last) {
      end_run();
      put(out, zigzag(*value - last) + 1);
      last = *value;
      continue;
    }
    const std::uint64_t now = value ? kSame : kAbsent;
    if (now != kind) end_run();
    kind = now;
    ++run;
  }
  end_run();
}

bool decode_series(std::string_view& in, std::size_t series, Chunk& chunk) {
  std::int64_t last = 0;
  for (std::size_t at = 0; at < chunk.size();) {
    const auto token = get(in);
    if (!token) return false;
    if (*token > kAbsent) {
      last = static_cast<std::int64_t>(static_cast<std::uint64_t>(last) +
                                       static_cast<std::uint64_t>(unzigzag(*token - 1)));
      chunk[at++][series] = static_cast<double>(last) * kSteps[series];
      continue;
    }
    const auto run = get(in);
    if (!run || *run == 0 || *run > chunk.size() - at) return false;
    for (std::uint64_t i = 0; i < *run; ++i, ++at)
      if (*token == kSame) chunk[at][series] = static_cast<double>(last) * kSteps[series];
  }
  return true;
}

}  // namespace

std::string_view name(Series series) {
  constexpr std::array<std::string_view, kSeriesCount> kNames = {
      "utilization_percent", "memory_utilization_percent", "memory_used_bytes",
      "temperature_celsius", "power_milliwatts",           "clock_sm_mhz"};
  return kNames[static_cast<std::size_t>(series)];
}

Moment moment_of(const model::DeviceReadings& readings) {
  Moment moment;
  model::for_each_reading(readings, [&](std::string_view key, const auto& reading) {
    if (!reading) return;
    for (std::size_t i = 0; i < kSeriesCount; ++i)
      if (key == name(static_cast<Series>(i))) moment[i] = static_cast<double>(*reading);
  });
  return moment;
}

std::string encode(const Chunk& chunk) {
  std::string out(1, static_cast<char>(kFormat));
  for (std::size_t series = 0; series < kSeriesCount; ++series) encode_series(chunk, series, out);
  return out;
}

std::optional<Chunk> decode(std::string_view bytes) {
  if (bytes.empty() || static_cast<unsigned char>(bytes.front()) != kFormat) return std::nullopt;
  bytes.remove_prefix(1);
  Chunk chunk;
  for (std::size_t series = 0; series < kSeriesCount; ++series)
    if (!decode_series(bytes, series, chunk)) return std::nullopt;
  return bytes.empty() ? std::optional(chunk) : std::nullopt;
}

void Mean::add(const Moment& moment) {
  ++moments_;
  for (std::size_t i = 0; i < kSeriesCount; ++i)
    if (moment[i]) {
      sums_[i] += *moment[i];
      ++counts_[i];
    }
}

Moment Mean::take() {
  Moment mean;
  for (std::size_t i = 0; i < kSeriesCount; ++i)
    if (counts_[i] > 0) mean[i] = sums_[i] / counts_[i];
  *this = {};
  return mean;
}

}  // namespace berth::watch
