#include "inventory/nvml_frames.hpp"

#include <algorithm>
#include <cmath>
#include <type_traits>

#include "base/text_parts.hpp"
#include "wire/codec.hpp"

namespace berth::inventory::frames {

namespace {

using model::Absence;
using model::Reading;
using wire::Reader;
using wire::Writer;

enum class Kind : unsigned char {
  kLoaded = 1,
  kReady,
  kFailed,
  kDevice,
  kDone,
  kInitialised,
  kEvent
};

constexpr std::uint32_t kMostProcesses = 1U << 18U;
// The maximum number of elements in each list: partitions, reasons, NVLink peers.
constexpr std::uint32_t kMostListed = 64;
constexpr std::uint32_t kMostXid = 100'000;
constexpr std::size_t kMostText = 512;

// ---- encoding

template <typename T>
void put(Writer& out, const std::optional<T>& value) {
  out.put(value.has_value());
  if (value) out.put(*value);
}

template <typename T>
void put(Writer& out, const Reading<T>& reading) {
  out.put(reading.value.has_value());
  if (reading) {
    out.put(*reading);
    out.put(reading.window_seconds);
  } else {
    out.put(reading.why);
  }
}

void put(Writer& out, const std::vector<std::string>& texts) {
  out.put(static_cast<std::uint32_t>(texts.size()));
  for (const std::string& text : texts) out.put(std::string_view(text));
}

void put(Writer& out, const std::string& text) {
  out.put(std::string_view(text));
}

void put(Writer& out, const model::Partition& partition) {
  out.put(partition.index);
  put(out, partition.name);
  put(out, partition.uuid);
  put(out, partition.gpu_instance);
  put(out, partition.compute_instance);
  put(out, partition.memory_total_bytes);
  put(out, partition.memory_used_bytes);
  put(out, partition.utilization_percent);
}

void put(Writer& out, const model::DeviceProcess& process) {
  put(out, process.partition_uuid);
  put(out, process.host_pid);
  out.put(process.kind.compute);
  out.put(process.kind.graphics);
  out.put(process.kind.mps);
  put(out, process.memory_bytes);
  put(out, process.sm_percent);
  put(out, process.encoder_percent);
  put(out, process.decoder_percent);
}

void put(Writer& out, const model::Device& device) {
  put(out, device.vendor_index);
  put(out, device.name);
  put(out, device.uuid);
  put(out, device.pci_address);
  put(out, device.pci_id);
  put(out, device.minor_number);
  put(out, device.architecture);
  put(out, device.compute_capability);
  put(out, device.compute_mode);
  put(out, device.persistence_mode);
  put(out, device.mig_enabled);
  out.put(device.memory_unified);
  out.put(device.health);
  put(out, device.health_reasons);
  put(out, device.throttle_reasons);
  out.put(static_cast<std::uint32_t>(device.partitions.size()));
  for (const model::Partition& partition : device.partitions) put(out, partition);
  put(out, device.partitions_unknown);
  out.put(static_cast<std::uint32_t>(device.nvlink_peers.size()));
  for (const model::NvLinkPeer& peer : device.nvlink_peers) {
    put(out, peer.pci_address);
    out.put(peer.links);
  }
  for_each_reading(device.readings, [&out](std::string_view, const auto& r) { put(out, r); });
}

struct BodyWriter {
  Writer& out;
  void operator()(const Loaded&) const { out.put(Kind::kLoaded); }
  void operator()(const Done&) const { out.put(Kind::kDone); }
  void operator()(const Event& event) const {
    out.put(Kind::kEvent);
    put(out, event.xid.device);
    out.put(static_cast<std::uint32_t>(event.xid.code));
    out.put(event.xid.unix_milliseconds);
  }
  void operator()(const Initialised& initialised) const {
    out.put(Kind::kInitialised);
    out.put(initialised.monotonic_nanoseconds);
  }
  void operator()(const Ready& ready) const {
    out.put(Kind::kReady);
    out.put(ready.monotonic_nanoseconds);
    out.put(ready.devices);
    put(out, ready.driver_version);
    put(out, ready.cuda_version);
    out.put(ready.left_out);
  }
  void operator()(const Failed& failed) const {
    out.put(Kind::kFailed);
    put(out, failed.id);
    put(out, failed.detail);
    out.put(failed.code);
  }
  void operator()(const Device& device) const {
    out.put(Kind::kDevice);
    out.put(device.position);
    out.put(device.complete);
    out.put(device.refused);
    out.put(device.unix_milliseconds);
    put(out, device.no_process_list);
    out.put(device.late);
    out.put(device.has_throttle);
    out.put(device.has_all);
    out.put(device.driver_microseconds);
    put(out, device.device);
    out.put(static_cast<std::uint32_t>(device.processes.size()));
    for (const model::DeviceProcess& process : device.processes) put(out, process);
  }
};

// ---- decoding: get() sets `sound` to false if the bytes are invalid

struct Input {
  Reader& in;
  bool sound = true;

  std::string text() {
    const std::string raw = in.text();
    if (raw.size() > kMostText) sound = false;
    return sound ? printable(raw) : std::string();
  }
  std::uint32_t count(std::uint32_t most) {
    const auto number = in.get<std::uint32_t>();
    // Each element takes at least one byte, so a count above the number of remaining bytes is
    // invalid. Reject it before allocating memory for it.
    if (number > most || number > in.left()) sound = false;
    return sound ? number : 0;
  }
  template <typename Enum>
  Enum checked(Enum last) {
    const auto raw = in.get<unsigned char>();
    if (raw > static_cast<unsigned char>(last)) sound = false;
    return sound ? static_cast<Enum>(raw) : Enum{};
  }
};

void get(Input& in, std::string& text) {
  text = in.text();
}

template <typename T>
void get(Input& in, std::optional<T>& value) {
  if (in.in.get<bool>()) value = in.in.get<T>();
}

void get(Input& in, std::optional<Absence>& value) {
  if (in.in.get<bool>()) value = in.checked(Absence::kFailed);
}

template <typename T>
void get(Input& in, Reading<T>& reading) {
  if (!in.in.get<bool>()) {
    reading = in.checked(Absence::kFailed);
    return;
  }
  const T value = in.in.get<T>();
  const auto window = in.in.get<float>();
  reading = Reading<T>(value).over(window >= 0 && window < 86'400 ? window : -1);
  if constexpr (std::is_floating_point_v<T>) {
    if (!std::isfinite(value) || value < 0 || value > 1e6) reading = Absence::kFailed;
  }
}

void get(Input& in, std::vector<std::string>& texts) {
  const std::uint32_t count = in.count(kMostListed);
  for (std::uint32_t i = 0; i < count && in.sound; ++i) texts.push_back(in.text());
}

void get(Input& in, model::Partition& partition) {
  partition.index = in.in.get<std::uint32_t>();
  get(in, partition.name);
  get(in, partition.uuid);
  get(in, partition.gpu_instance);
  get(in, partition.compute_instance);
  get(in, partition.memory_total_bytes);
  get(in, partition.memory_used_bytes);
  get(in, partition.utilization_percent);
}

void get(Input& in, model::DeviceProcess& process) {
  get(in, process.partition_uuid);
  get(in, process.host_pid);
  process.kind.compute = in.in.get<bool>();
  process.kind.graphics = in.in.get<bool>();
  process.kind.mps = in.in.get<bool>();
  get(in, process.memory_bytes);
  get(in, process.sm_percent);
  get(in, process.encoder_percent);
  get(in, process.decoder_percent);
  if (process.host_pid.value_or(1) <= 0) in.sound = false;
}

void get(Input& in, model::Device& device) {
  device.kind = model::DeviceKind::kGpu;
  device.vendor = model::Vendor::kNvidia;
  device.vendor_name = "NVIDIA";
  get(in, device.vendor_index);
  get(in, device.name);
  get(in, device.uuid);
  get(in, device.pci_address);
  get(in, device.pci_id);
  get(in, device.minor_number);
  get(in, device.architecture);
  get(in, device.compute_capability);
  get(in, device.compute_mode);
  get(in, device.persistence_mode);
  get(in, device.mig_enabled);
  device.memory_unified = in.in.get<bool>();
  device.health = in.checked(model::Health::kNotChecked);
  get(in, device.health_reasons);
  get(in, device.throttle_reasons);
  const std::uint32_t partitions = in.count(kMostListed);
  for (std::uint32_t i = 0; i < partitions && in.sound; ++i)
    get(in, device.partitions.emplace_back());
  get(in, device.partitions_unknown);
  const std::uint32_t peers = in.count(kMostListed);
  for (std::uint32_t i = 0; i < peers && in.sound; ++i) {
    model::NvLinkPeer& peer = device.nvlink_peers.emplace_back();
    get(in, peer.pci_address);
    peer.links = in.in.get<std::uint32_t>();
  }
  for_each_reading(device.readings, [&in](std::string_view, auto& reading) { get(in, reading); });
}

std::optional<Frame> device_frame(Input& in) {
  Device device;
  device.position = in.in.get<std::uint32_t>();
  if (device.position >= kMostDevices) in.sound = false;
  device.complete = in.in.get<bool>();
  device.refused = in.in.get<std::uint32_t>();
  device.unix_milliseconds = in.in.get<std::int64_t>();
  get(in, device.no_process_list);
  device.late = in.in.get<bool>();
  device.has_throttle = in.in.get<bool>();
  device.has_all = in.in.get<bool>();
  device.driver_microseconds = in.in.get<std::uint32_t>();
  get(in, device.device);
  const std::uint32_t processes = in.count(kMostProcesses);
  for (std::uint32_t i = 0; i < processes && in.sound; ++i) {
    get(in, device.processes.emplace_back());
  }
  return device;
}

std::optional<Frame> frame_of(Input& in) {
  const auto kind = in.in.get<unsigned char>();
  switch (static_cast<Kind>(kind)) {
    case Kind::kLoaded:
      return Loaded{};
    case Kind::kDone:
      return Done{};
    case Kind::kInitialised:
      return Initialised{in.in.get<std::int64_t>()};
    case Kind::kReady: {
      Ready ready;
      ready.monotonic_nanoseconds = in.in.get<std::int64_t>();
      ready.devices = in.in.get<std::uint32_t>();
      if (ready.devices > kMostDevices) in.sound = false;
      get(in, ready.driver_version);
      get(in, ready.cuda_version);
      ready.left_out = in.in.get<std::uint32_t>();
      return ready;
    }
    case Kind::kFailed: {
      Failed failed;
      get(in, failed.id);
      get(in, failed.detail);
      failed.code = in.in.get<std::uint32_t>();
      return failed;
    }
    case Kind::kDevice:
      return device_frame(in);
    case Kind::kEvent: {
      Event event;
      get(in, event.xid.device);
      const auto code = in.in.get<std::uint32_t>();
      if (code > kMostXid) in.sound = false;
      event.xid.code = static_cast<int>(code);
      event.xid.unix_milliseconds = in.in.get<std::int64_t>();
      return event;
    }
  }
  return std::nullopt;
}

}  // namespace

std::string encode(const Frame& frame) {
  Writer body;
  std::visit(BodyWriter{body}, frame);
  Writer whole;
  whole.put(std::string_view(body.bytes()));
  return whole.bytes();
}

void Parser::add(std::string_view bytes) {
  if (damaged_) return;
  buffer_.erase(0, read_);
  read_ = 0;
  buffer_.append(bytes);
}

std::optional<Frame> Parser::next() {
  const std::string_view waiting = std::string_view(buffer_).substr(read_);
  if (damaged_ || waiting.size() < sizeof(std::uint32_t)) return std::nullopt;
  Reader head(waiting);
  const auto size = head.get<std::uint32_t>();
  if (size > kMostBytes) {
    damaged_ = true;
    return std::nullopt;
  }
  if (head.left() < size) return std::nullopt;
  read_ += sizeof(std::uint32_t) + size;
  Reader body(waiting.substr(sizeof(std::uint32_t), size));
  Input in{body};
  std::optional<Frame> frame = frame_of(in);
  if (!frame || !in.sound || body.failed() || body.left() != 0) {
    damaged_ = true;
    return std::nullopt;
  }
  return frame;
}

}  // namespace berth::inventory::frames
