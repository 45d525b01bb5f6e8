#include "cli/scontrol.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <chrono>

#include "base/descriptor.hpp"
#include "base/text.hpp"
#include "system/spawn.hpp"

namespace berth::cli {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::seconds kScontrol{8};

}  // namespace

bool is_node_name(const std::string& text) {
  return !text.empty() && text.size() < 256 && text.front() != '-' &&
         std::all_of(text.begin(), text.end(), [](unsigned char c) {
           return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
         });
}

std::optional<std::string> said_by(std::vector<std::string> words) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) return std::nullopt;
  const Descriptor out(ends[0]);
  Descriptor in(ends[1]);
  words.insert(words.begin(), "env");
  const auto started = system::spawn({"/usr/bin/env", words, in.get(), 2, false});
  in.reset();
  if (started.pid < 0) return std::nullopt;
  std::string text;
  const auto deadline = steady_clock::now() + kScontrol;
  for (bool open = true; open;) {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - steady_clock::now());
    pollfd one{out.get(), POLLIN, 0};
    const int ready = left.count() > 0 ? ::poll(&one, 1, static_cast<int>(left.count())) : 0;
    if (ready < 0 && errno == EINTR) continue;
    char buffer[4096];
    const ssize_t n = ready > 0 ? ::read(out.get(), buffer, sizeof buffer) : 0;
    if (ready <= 0) ::kill(started.pid, SIGKILL);
    open = n > 0 && text.size() < 1 << 20;
    if (n > 0) text.append(buffer, static_cast<std::size_t>(n));
  }
  int status = 0;
  while (::waitpid(started.pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return std::nullopt;
  return text;
}

Error no_scontrol(const std::string& node) {
  return {ErrorCode::kUnavailable, "E1013",
          text("Slurm does not answer about the node {}", printable(node)),
          "scontrol show node " + node};
}

Result<engines::NodeState> slurm_node_state(const std::string& node) {
  const auto shown = said_by({"scontrol", "show", "node", node, "--oneliner"});
  auto state = shown ? engines::node_state(*shown) : std::nullopt;
  if (!state) return no_scontrol(node);
  return *std::move(state);
}

}  // namespace berth::cli
