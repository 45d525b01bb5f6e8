// SocketFile: the broker's socket and its file. mark_time() updates the file's time, which shows
// clients when a broker last served there. If two brokers start at the same time, only one gets the
// lock. The file appears only when the broker already listens. The broker decides whether to remove
// it on exit or to leave it as a sign that a broker will return.
#pragma once

#include <string>

#include "base/descriptor.hpp"
#include "base/result.hpp"

namespace berth::serve {

class SocketFile {
 public:
  /// Listens on the socket; mode 0600, or 0666 for all users. Replaces a socket that no process
  /// serves. Fails with kUnavailable (E0909: another broker listens there; E0910: it cannot be
  /// created).
  [[nodiscard]] static Result<SocketFile> make(const std::string& path, bool for_all);
  SocketFile(SocketFile&&) = default;
  SocketFile& operator=(SocketFile&&) = default;
  ~SocketFile() { take_away(); }

  /// Gives the socket to the caller, which accepts connections and closes it.
  [[nodiscard]] Descriptor take_socket() { return std::move(socket_); }
  /// Adds a symbolic link to the socket at another path. If another broker already answers at that
  /// path, its link stays, and this call fails. Fails with the errors of make().
  [[nodiscard]] Status show_at(const std::string& link);
  void mark_time() const;
  void take_away();
  /// Keeps the file after exit.
  void leave() { lock_.reset(); }

 private:
  SocketFile(std::string path, Descriptor lock, Descriptor socket)
      : path_(std::move(path)), lock_(std::move(lock)), socket_(std::move(socket)) {}

  std::string path_, link_;
  /// The lock on path_ + ".lock". Without this lock, the files belong to another broker.
  Descriptor lock_;
  Descriptor socket_;
};

}  // namespace berth::serve
