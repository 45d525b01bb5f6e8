#include "inventory/unified_memory.hpp"

#include <doctest/doctest.h>

using namespace berth::inventory;
using namespace berth::model;

namespace {
Device host() {
  Device cpu;
  cpu.kind = DeviceKind::kCpu;
  cpu.readings.memory_total_bytes = 128U;
  cpu.readings.memory_used_bytes = 50U;
  return cpu;
}
}  // namespace

TEST_CASE("a GPU without memory of its own shows the host's and says so") {
  Device gb10;
  gb10.memory_unified = true;
  gb10.readings.memory_total_bytes = gb10.readings.memory_used_bytes = Absence::kNotSupported;
  share_host_memory(gb10, host());
  CHECK(*gb10.readings.memory_total_bytes == 128);
  CHECK(*gb10.readings.memory_used_bytes == 50);
  CHECK(!gb10.note.empty());
}

TEST_CASE("a GPU with memory of its own, or one that does not answer, is left as it is") {
  Device own;
  own.readings.memory_total_bytes = Absence::kNotSupported;
  share_host_memory(own, host());
  CHECK(!own.readings.memory_total_bytes);

  Device silent;
  silent.memory_unified = true;
  silent.readings.memory_total_bytes = Absence::kNoAnswer;
  share_host_memory(silent, host());
  CHECK(!silent.readings.memory_total_bytes);

  Device told;
  told.memory_unified = true;
  told.readings.memory_total_bytes = 7U;
  share_host_memory(told, host());
  CHECK(*told.readings.memory_total_bytes == 7);
  CHECK(told.note.empty());

  Device cpu = host();
  cpu.memory_unified = true;
  cpu.readings.memory_total_bytes = Absence::kNotSupported;
  share_host_memory(cpu, host());
  CHECK(!cpu.readings.memory_total_bytes);
}
