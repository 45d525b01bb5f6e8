// Processes take turns on one device, through a file that a user's guarded jobs share. A process
// holds the device for a quantum, waits until its work is done, and passes the device on. Processes
// of an earlier class come first; within a class, the job with the least time per weight; within a
// job, the process with the least time. A holder that dies or idles loses its turn. A turn also
// ends early if a process of an earlier class waits.
//
// A process that uses CUDA and OpenCL has two places of the same job.
#pragma once

#include <cstddef>
#include <cstdint>

#include "wire/guard.hpp"

namespace berth::wire::turns {

inline constexpr std::uint64_t kMagic = 0x534e525554545242;  // "BRTTURNS"
inline constexpr std::uint32_t kVersion = 3, kPlaces = 256;

enum State : std::uint32_t { kFree = 0, kTaken = 1, kLives = 2 };

enum Class : std::uint32_t { kLatency = 0, kNormal = 1, kBestEffort = 2 };

struct Place {
  std::uint64_t start;
  std::int32_t pid;
  std::uint32_t state;
  std::uint32_t waiting;     // 1: waits for the device
  std::uint16_t weight;      // permille
  std::uint16_t rank;        // Class
  std::uint64_t had;         // nanoseconds of device time of its job, times 1000 / weight
  std::uint64_t own;         // nanoseconds of device time of this process
  std::uint64_t busy_until;  // when the work it sent will probably be done
  std::uint64_t sent;        // counts calls; a process whose count changes is not idle
  std::uint32_t job;         // the same for all processes of a job
  std::uint16_t idle;        // milliseconds without work after which it loses its turn
  std::uint16_t unused;
};
static_assert(sizeof(Place) == 64 && offsetof(Place, sent) == 48);

struct Turns {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t places;  // places ever used
  std::uint64_t unused[6];
  // number (place + 1) of the holder; 0: none. Waiting processes use it as a futex.
  std::uint32_t holder;
  std::uint32_t waiters;
  std::uint32_t last;  // number (place + 1) of the process that got the newest turn
  std::uint32_t unused_too;
  std::uint64_t now[3];  // per Class: Place::had of the process that got the newest turn
  std::uint64_t more[3];
  Place place[kPlaces];
  // For each place: when another process took the turn from its process, because that process
  // paused; 0: none did.
  std::uint64_t lost[kPlaces];
  // Managed memory that the process of each place has moved to the device (--spill).
  std::uint64_t moved[kPlaces];
};
static_assert(offsetof(Turns, holder) == 64 && offsetof(Turns, place) == 128);

/// "turns-3-6e4a…": the file in which jobs take turns on the device, the same for CUDA and OpenCL.
/// It has the version in its name, because an older Berth may have left its file.
struct FileName {
  char text[44] = "turns-3-";
};
static_assert(kVersion == 3);
inline FileName file_name(const guard::DeviceLimit& device) {
  FileName name;
  unsigned char key[16] = {};
  bool has_uuid = false;
  for (int i = 0; i < 16; ++i) has_uuid = has_uuid || device.uuid[i] != 0;
  for (unsigned i = 0; i < 16; ++i)
    key[i] = has_uuid ? device.uuid[i]
             : i < 8  ? static_cast<unsigned char>(device.pci >> (8 * i))
                      : static_cast<unsigned char>(0);
  for (int i = 0; i < 16; ++i) {
    name.text[8 + 2 * i] = "0123456789abcdef"[key[i] >> 4U];
    name.text[9 + 2 * i] = "0123456789abcdef"[key[i] & 15U];
  }
  return name;
}

}  // namespace berth::wire::turns
