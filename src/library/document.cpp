#include "library/document.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>

#include "base/descriptor.hpp"
#include "base/error_words.hpp"
#include "base/text.hpp"
#include "base/text_parts.hpp"
#include "library/program.hpp"
#include "system/spawn.hpp"

namespace berth::library {
namespace {

Error no_program(const std::string& why) {
  return {ErrorCode::kUnavailable, "E0550", text("the program berth cannot be started: {}", why),
          "pip install --force-reinstall berth-gpu"};
}

struct Pipe {
  Descriptor in, out;
};

Result<Pipe> make_pipe() {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return no_program(error_words(errno));
  return Pipe{Descriptor(ends[0]), Descriptor(ends[1])};
}

/// Reads both pipes at the same time, until both are closed.
void read_all(const Pipe& out, const Pipe& err, Said& said) {
  std::array<pollfd, 2> ends{{{out.in.get(), POLLIN, 0}, {err.in.get(), POLLIN, 0}}};
  std::array<std::string*, 2> into{&said.out, &said.err};
  std::vector<char> bytes(64 << 10);
  while (ends[0].fd >= 0 || ends[1].fd >= 0) {
    if (::poll(ends.data(), ends.size(), -1) < 0 && errno != EINTR) return;
    for (std::size_t i = 0; i < ends.size(); ++i) {
      if (ends[i].fd < 0 || ends[i].revents == 0) continue;
      const ssize_t n = ::read(ends[i].fd, bytes.data(), bytes.size());
      if (n > 0) into[i]->append(bytes.data(), static_cast<std::size_t>(n));
      if (n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN)) ends[i].fd = -1;
    }
  }
}

}  // namespace

Result<Said> run_program(const std::vector<std::string>& words) {
  const std::string path = program();
  if (path.empty()) return no_program(text("it is not on PATH"));
  auto out = make_pipe();
  if (!out) return std::move(out).error();
  auto err = make_pipe();
  if (!err) return std::move(err).error();
  std::vector<std::string> all{"berth"};
  all.insert(all.end(), words.begin(), words.end());
  all.emplace_back("--json");
  const auto child = system::spawn(
      {.program = path, .words = std::move(all), .out = out->out.get(), .err = err->out.get()});
  if (child.problem != 0) return no_program(printable(path) + ": " + error_words(child.problem));
  out->out.reset();
  err->out.reset();
  Said said;
  read_all(*out, *err, said);
  int status = 0;
  while (::waitpid(child.pid, &status, 0) < 0 && errno == EINTR) {
  }
  said.exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return said;
}

}  // namespace berth::library
