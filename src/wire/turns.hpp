// Processes take turns on one device, through a file that a user's guarded jobs share. A process
// holds the device for a quantum, waits until its work is done, and passes the device on. Processes
// of an earlier class (enum Class) come first; within a class, the job with the least time per
// weight; within a job, the process with the least time. A holder that dies or idles loses its
// turn. A turn also ends early if a process of an earlier class waits.
//
// A process that uses CUDA and OpenCL has two entries (struct Place) with the same job.
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
  std::uint32_t waiting;     // 1 if the process waits for the device
  std::uint16_t weight;      // permille
  std::uint16_t rank;        // Class
  std::uint64_t had;         // device time of its job in nanoseconds, times 1000 / weight
  std::uint64_t own;         // device time of this process in nanoseconds
  std::uint64_t busy_until;  // when the work that the process has submitted will probably be done
  std::uint64_t sent;        // number of driver calls; while it changes, the process is not idle
  std::uint32_t job;         // a number that all processes of a job share
  std::uint16_t idle;        // milliseconds without work after which the process loses its turn
  std::uint16_t unused;
};
static_assert(sizeof(Place) == 64 && offsetof(Place, sent) == 48);

struct Turns {
  std::uint64_t magic;
  std::uint32_t version;
  std::uint32_t places;  // number of entries that were ever used
  std::uint64_t unused[6];
  // The process that holds the device, as place + 1; 0 if none does. Waiting processes use this
  // word as a futex.
  std::uint32_t holder;
  std::uint32_t waiters;
  std::uint32_t last;  // the process that got the newest turn, as place + 1
  std::uint32_t unused_too;
  std::uint64_t now[3];  // for each Class: Place::had of the process that got the newest turn
  std::uint64_t more[3];
  Place place[kPlaces];
  // For each entry: when another process took over the turn, because the process of this entry
  // paused. 0 if that has not happened.
  std::uint64_t lost[kPlaces];
  // For each entry: how much managed memory its process has moved to the device (--spill).
  std::uint64_t moved[kPlaces];
};
static_assert(offsetof(Turns, holder) == 64 && offsetof(Turns, place) == 128);

/// The name of the file through which jobs take turns on a device with CUDA and OpenCL, such as
/// "turns-3-6e4a…". It contains the version of the format, because an older Berth may have left
/// another file.
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
