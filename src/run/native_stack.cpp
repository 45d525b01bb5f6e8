#include "run/native_stack.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "run/elf_functions.hpp"
#include "run/launch.hpp"

namespace berth::run {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr std::size_t kMostFrames = 16, kMostCandidates = 64;
constexpr std::size_t kStackBytes = 64 << 10;
constexpr std::size_t kMostMapBytes = 16 << 20;
constexpr std::size_t kMostAnswerBytes = 16 << 20;

struct Mapping {
  std::uint64_t begin = 0, end = 0, offset = 0;
  std::string file;  // device and inode of the file, such as "08:01 1234"
  std::string path;
};

std::optional<std::uint64_t> hexadecimal(std::string_view word) {
  if (word.starts_with("0x")) word.remove_prefix(2);
  if (word.empty() || word.size() > 16) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : word) {
    const auto at = std::string_view("0123456789abcdef").find(c);
    if (at == std::string_view::npos) return std::nullopt;
    value = value << 4U | at;
  }
  return value;
}

/// The executable mappings of files, by address.
std::vector<Mapping> code_of(pid_t pid) {
  std::vector<Mapping> found;
  const std::string path = "/proc/" + std::to_string(pid) + "/maps";
  const std::string all = slurp(path, kMostMapBytes).value_or("");
  for (const std::string_view line : split(all, '\n')) {
    const auto words = split(line, ' ');
    const auto slash = line.find('/');
    if (words.size() < 6 || words[1].size() != 4 || words[1][2] != 'x' || slash == line.npos)
      continue;
    const auto dash = words[0].find('-');
    const auto begin = hexadecimal(words[0].substr(0, dash));
    const auto end = dash == words[0].npos ? begin : hexadecimal(words[0].substr(dash + 1));
    const auto offset = hexadecimal(words[2]);
    if (begin && end && offset)
      found.push_back({*begin, *end, *offset, std::string(words[3]) + " " + std::string(words[4]),
                       std::string(line.substr(slash))});
  }
  return found;
}

const Mapping* mapping_of(const std::vector<Mapping>& code, std::uint64_t address) {
  const auto next =
      std::upper_bound(code.begin(), code.end(), address,
                       [](std::uint64_t value, const Mapping& one) { return value < one.begin; });
  if (next == code.begin()) return nullptr;
  const Mapping& found = *std::prev(next);
  return address < found.end ? &found : nullptr;
}

bool read_at(int fd, std::uint64_t at, void* into, std::size_t size) {
  return at <= static_cast<std::uint64_t>(INT64_MAX) &&
         ::pread(fd, into, size, static_cast<off_t>(at)) == static_cast<ssize_t>(size);
}

/// Whether the instruction before a return address is a call.
bool is_after_call([[maybe_unused]] int memory, [[maybe_unused]] std::uint64_t address) {
#if defined(__x86_64__)
  std::array<unsigned char, 7> before{};
  if (address < before.size() ||
      !read_at(memory, address - before.size(), before.data(), before.size()))
    return false;
  if (before[2] == 0xe8) return true;  // call rel32
  // a call through a register or memory: ff /2, with 0, 1 or 4 bytes of displacement and perhaps a
  // SIB byte
  for (const std::size_t length : {2U, 3U, 4U, 6U, 7U})
    if (before[7 - length] == 0xff && (before[8 - length] >> 3U & 7U) == 2U) return true;
#endif
  return false;
}

struct Place {
  const Mapping* in;
  std::uint64_t address;
  bool is_exact;
};

/// Where a thread waits, and the return addresses on its stack.
std::vector<Place> places_of(const NativeThread& thread, const std::vector<Mapping>& code) {
  const std::string folder = "/proc/" + std::to_string(thread.pid);
  const auto said =
      slurp(folder + "/task/" + std::to_string(thread.thread) + "/syscall").value_or("");
  const auto words = split(std::string_view(said).substr(0, said.find('\n')), ' ');
  if (words.size() < 3) return {};  // the thread runs, or it belongs to another user
  const auto stack = hexadecimal(words[words.size() - 2]);
  const auto instruction = hexadecimal(words.back());
  if (!stack || !instruction) return {};
  std::vector<Place> places;
  if (const Mapping* in = mapping_of(code, *instruction))
    places.push_back({in, *instruction, true});
  const Descriptor memory(::open((folder + "/mem").c_str(), O_RDONLY | O_CLOEXEC));
  std::vector<std::uint64_t> values(kStackBytes / sizeof(std::uint64_t));
  const ssize_t got = memory && *stack <= static_cast<std::uint64_t>(INT64_MAX)
                          ? ::pread(memory.get(), values.data(), kStackBytes,
                                    static_cast<off_t>(*stack & ~std::uint64_t{7}))
                          : -1;
  values.resize(got > 0 ? static_cast<std::size_t>(got) / sizeof(std::uint64_t) : 0);
  for (const std::uint64_t value : values) {
    if (places.size() >= kMostCandidates) break;
    const Mapping* in = mapping_of(code, value);
    // The return address points after the call instruction, so look up the byte before it.
    if (in != nullptr && is_after_call(memory.get(), value))
      places.push_back({in, value - 1, false});
  }
  return places;
}

/// Writes a line of the child's answer. Names come from hostile files, so a newline in them must
/// not add a line.
bool write_line(int to, std::string line) {
  std::replace(line.begin(), line.end(), '\n', '?');
  line += '\n';
  for (std::string_view left = line; !left.empty();) {
    const ssize_t n = ::write(to, left.data(), left.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    left.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

/// Runs in the child. It first writes all places: "p THREAD EXACT LIBRARY", numbered from 0. Then
/// it writes the functions that it finds: "f PLACE FUNCTION".
void look(const std::vector<NativeThread>& threads, int to) noexcept {
  struct Wanted {
    std::string path;
    std::vector<std::uint64_t> offsets;
    std::vector<std::size_t> places;
  };
  std::map<pid_t, std::vector<Mapping>> code;
  std::map<std::string, Wanted> files;
  std::size_t number = 0;
  for (std::size_t i = 0; i < threads.size(); ++i) {
    const pid_t pid = threads[i].pid;
    if (!code.contains(pid)) code[pid] = code_of(pid);
    for (const Place& place : places_of(threads[i], code[pid])) {
      const std::string& path = place.in->path;
      if (!write_line(to, "p " + std::to_string(i) + (place.is_exact ? " 1 " : " 0 ") +
                              path.substr(path.rfind('/') + 1)))
        return;
      Wanted& file = files[place.in->file];
      if (file.path.empty()) file.path = "/proc/" + std::to_string(pid) + "/root" + path;
      file.offsets.push_back(place.address - place.in->begin + place.in->offset);
      file.places.push_back(number++);
    }
  }
  for (const auto& [key, file] : files) {
    const auto names = functions_at(file.path, file.offsets);
    for (std::size_t i = 0; i < names.size(); ++i)
      if (!names[i].empty() &&
          !write_line(to, "f " + std::to_string(file.places[i]) + " " + names[i]))
        return;
  }
}

/// What the child has written when it ends, or when the time is over.
std::string answer_of_child(const std::vector<NativeThread>& threads, milliseconds patience) {
  std::array<int, 2> ends{-1, -1};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return {};
  const Descriptor from(ends[0]);
  Descriptor to(ends[1]);
  const auto deadline = Clock::now() + patience;
  const pid_t child = ::fork();
  if (child == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    close_all_but({to.get()});
    look(threads, to.get());
    ::_exit(0);
  }
  to.reset();
  if (child < 0) return {};
  std::string answer;
  std::array<char, 4096> room{};
  while (answer.size() < kMostAnswerBytes) {
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now()).count();
    pollfd wait{from.get(), POLLIN, 0};
    if (left <= 0) break;
    const int ready = ::poll(&wait, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) break;
    const ssize_t n = ::read(from.get(), room.data(), room.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    answer.append(room.data(), static_cast<std::size_t>(n));
  }
  ::kill(child, SIGKILL);
  // A read through FUSE may not end even after SIGKILL, so do not wait for the child.
  constexpr int kMostWaits = 100;
  for (int i = 0; i < kMostWaits && ::waitpid(child, nullptr, WNOHANG) == 0; ++i)
    ::poll(nullptr, 0, 1);
  return answer;
}

struct Found {
  std::size_t thread = 0;
  NativeFrame frame;
};

/// Parses the child's answer, except an incomplete last line.
std::vector<Found> found_in(std::string_view answer) {
  std::vector<Found> found;
  answer = answer.substr(0, answer.rfind('\n') == answer.npos ? 0 : answer.rfind('\n'));
  for (const std::string_view line : split(answer, '\n')) {
    const auto space = line.find(' ', 2);
    if (line.size() < 2 || space == line.npos) continue;
    const auto number = to_number(line.substr(2, space - 2));
    if (!number || *number < 0) continue;
    const auto at = static_cast<std::size_t>(*number);
    std::string_view words = line.substr(space + 1);
    if (line[0] == 'p' && words.size() >= 2)
      found.push_back({at, {std::string(words.substr(2)), "", words[0] == '1'}});
    else if (line[0] == 'f' && at < found.size())
      found[at].frame.function = words;
  }
  return found;
}

}  // namespace

std::vector<std::vector<NativeFrame>> native_stacks(const std::vector<NativeThread>& threads,
                                                    milliseconds patience) {
  std::vector<std::vector<NativeFrame>> all(threads.size());
  if (threads.empty()) return all;
  for (Found& one : found_in(answer_of_child(threads, patience))) {
    if (one.thread >= all.size()) continue;
    std::vector<NativeFrame>& frames = all[one.thread];
    if (frames.size() >= kMostFrames || (one.frame.function.empty() && !one.frame.is_exact))
      continue;
    if (!frames.empty() && frames.back().function == one.frame.function) continue;
    frames.push_back(std::move(one.frame));
  }
  return all;
}

std::string native_lines(const std::vector<NativeFrame>& frames) {
  std::string out;
  for (const NativeFrame& one : frames)
    out +=
        (out.empty() ? "" : "\n") + one.library + " " + (one.function.empty() ? "?" : one.function);
  return out;
}

}  // namespace berth::run
