// SocketFile: the broker's socket as others find it: a file with a time, in a folder. Of two that
// start at once one gets its lock. It is there from the moment on that somebody listens; whether it
// goes with the broker, or says that one is to come back, is the broker's to decide.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace berth::serve {

class SocketFile {
 public:
  /// Listens; mode 0600 or, for all users, 0666. What lies there and answers nobody is replaced.
  /// Fails with kUnavailable (E0909: another broker listens there; E0910: it cannot be made).
  [[nodiscard]] static Result<SocketFile> make(const std::string& path, bool for_all);
  SocketFile(SocketFile&&) = default;
  SocketFile& operator=(SocketFile&&) = default;
  ~SocketFile() { take_away(); }

  /// Whoever takes it listens, and closes it.
  [[nodiscard]] Descriptor take_socket() { return std::move(socket_); }
  /// A link to it in another place; who answers there already keeps it. Fails as make().
  [[nodiscard]] Status show_at(const std::string& link);
  void mark_time() const;
  void take_away();
  /// From now on nothing takes it away.
  void leave() { lock_.reset(); }

 private:
  SocketFile(std::string path, Descriptor lock, Descriptor socket)
      : path_(std::move(path)), lock_(std::move(lock)), socket_(std::move(socket)) {}

  std::string path_, link_;
  Descriptor lock_;  // of path_ + ".lock"; without it nothing here is ours
  Descriptor socket_;
};

}  // namespace berth::serve
