// Maps the files of BERTH_SIM_DIR, for the simulated drivers.
#pragma once

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstddef>

namespace berth::simulator {

/// Maps a file; nullptr if it does not exist or is shorter than `least` bytes.
inline void* map_file(const char* name, bool writable, std::size_t least, std::size_t* bytes) {
  const char* folder = getenv("BERTH_SIM_DIR");  // NOLINT(concurrency-mt-unsafe): never set here
  if (folder == nullptr) return nullptr;
  char path[4096];
  const int length = snprintf(path, sizeof(path), "%s/%s", folder, name);
  if (length < 0 || static_cast<std::size_t>(length) >= sizeof(path)) return nullptr;
  const int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat status = {};
  void* where = MAP_FAILED;
  if (fstat(fd, &status) == 0 && status.st_size >= static_cast<off_t>(least)) {
    *bytes = static_cast<std::size_t>(status.st_size);
    where = mmap(nullptr, *bytes, writable ? PROT_READ | PROT_WRITE : PROT_READ, MAP_SHARED, fd, 0);
  }
  close(fd);
  return where == MAP_FAILED ? nullptr : where;
}

}  // namespace berth::simulator
