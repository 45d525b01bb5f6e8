#include "run/stacks.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <initializer_list>

#include "base/descriptor.hpp"
#include "base/file.hpp"
#include "base/write_file.hpp"
#include "run/channel.hpp"
#include "system/runtime_folder.hpp"

extern "C" const unsigned char berth_sitecustomize[];
extern "C" const unsigned char berth_sitecustomize_end[];

namespace berth::run {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr std::size_t kMostBytes = 1 << 20;

std::string proc(pid_t pid, const char* name) {
  return "/proc/" + std::to_string(pid) + "/" + name;
}

int stack_signal() {
  return SIGRTMIN + 7;
}

/// Whether the process handles the signal. Without a handler, the signal would end the process.
bool handles_the_signal(pid_t pid) {
  const std::string status = slurp(proc(pid, "status")).value_or("");
  const auto at = status.find("\nSigCgt:\t");
  if (at == std::string::npos) return false;
  const std::uint64_t mask = std::strtoull(status.c_str() + at + 9, nullptr, 16);
  return (mask >> (stack_signal() - 1) & 1) != 0;
}

/// Whether the process has exactly this file open. If so, it is the process that created the file.
bool has_open(pid_t pid, const std::string& path) {
  std::error_code problem;
  for (const auto& one : fs::directory_iterator(proc(pid, "fd"), problem)) {
    if (fs::read_symlink(one.path(), problem) == path && !problem) return true;
  }
  return false;
}

struct Question {
  pid_t pid = 0;
  Descriptor file;
  off_t from = 0, seen = 0;
  Clock::time_point grown{};
  bool is_over = false;
};

off_t size_of(const Descriptor& file) {
  struct stat about = {};
  return ::fstat(file.get(), &about) == 0 && S_ISREG(about.st_mode) ? about.st_size : -1;
}

bool ask(Question& question, const std::string& folder) {
  const std::string path = folder + "/" + std::to_string(question.pid) + ".txt";
  question.file.reset(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  question.from = question.seen = question.file ? size_of(question.file) : -1;
  const Descriptor process = open_process(question.pid);
  if (question.from < 0 || !process || !has_open(question.pid, path) ||
      !handles_the_signal(question.pid))
    return false;
  return ::syscall(SYS_pidfd_send_signal, process.get(), stack_signal(), nullptr, 0) == 0;
}

std::string answer_of(const Question& question) {
  const auto size = std::min<std::size_t>(
      kMostBytes,
      static_cast<std::size_t>(std::max<off_t>(0, size_of(question.file) - question.from)));
  std::string text(size, '\0');
  const ssize_t n = ::pread(question.file.get(), text.data(), size, question.from);
  text.resize(n > 0 ? static_cast<std::size_t>(n) : 0);
  return text;
}

bool is_of_library(const std::string& file) {
  for (const char* part : {"/site-packages/", "/dist-packages/", "/lib/python", "/lib64/python"})
    if (file.find(part) != std::string::npos) return true;
  return file.starts_with("<");
}

bool write_module(const std::string& path) {
  const std::string wanted(reinterpret_cast<const char*>(berth_sitecustomize),
                           static_cast<std::size_t>(berth_sitecustomize_end - berth_sitecustomize));
  if (slurp(path) == wanted) return true;
  return replace_file(path, wanted, 0600);
}

}  // namespace

std::vector<PythonThread> parse_stacks(const std::string& text) {
  std::vector<PythonThread> threads;
  for (std::string_view line : split(text, '\n')) {
    if (line.ends_with("(most recent call first):")) threads.emplace_back();
    constexpr std::string_view kFile = "  File \"";
    if (threads.empty() || !line.starts_with(kFile)) continue;
    line.remove_prefix(kFile.size());
    const auto end = line.rfind("\", line ");
    const auto in = end == std::string_view::npos ? end : line.find(" in ", end + 8);
    if (in == std::string_view::npos) continue;
    const auto number = to_number(line.substr(end + 8, in - end - 8));
    threads.back().frames.push_back({std::string(line.substr(0, end)),
                                     std::string(line.substr(in + 4)),
                                     static_cast<int>(number.value_or(0))});
  }
  return threads;
}

std::string innermost_user_line(const PythonThread& thread) {
  if (thread.frames.empty()) return {};
  auto found = std::find_if(thread.frames.begin(), thread.frames.end(),
                            [](const StackFrame& one) { return !is_of_library(one.file); });
  if (found == thread.frames.end()) found = thread.frames.begin();
  const std::string name = found->file.substr(found->file.rfind('/') + 1);
  return name + ":" + std::to_string(found->line) + " in " + found->function;
}

bool is_in_collective(const PythonThread& thread) {
  for (const StackFrame& one : thread.frames) {
    if (!is_of_library(one.file)) return false;
    for (const char* part : {"/torch/distributed/", "/torch/nn/parallel/", "/horovod/",
                             "/deepspeed/comm/", "/jax/_src/distributed"})
      if (one.file.find(part) != std::string::npos) return true;
  }
  return false;
}

bool is_connecting(const PythonThread& thread) {
  return is_in_collective(thread) &&
         std::any_of(thread.frames.begin(), thread.frames.end(), [](const StackFrame& one) {
           return one.function == "init_process_group" ||
                  (one.function == "initialize" &&
                   one.file.find("/jax/_src/distributed") != std::string::npos);
         });
}

std::string make_stack_folder() {
  const auto runtime = system::runtime_folder();
  if (!runtime) return {};
  bool made = false;
  std::string folder = *runtime;
  for (const char* below : {"", "/stacks", "/module"})
    if (!system::make_private_folder(folder += below, made)) return {};
  if (!write_module(folder + "/sitecustomize.py")) return {};
  return *runtime + "/stacks";
}

void add_stack_variables(const std::string& folder, std::map<std::string, std::string>& variables,
                         const std::string& python_path) {
  variables["BERTH_STACKS"] = folder;
  const std::string module = folder + "/module";
  const bool has_it = python_path == module || python_path.starts_with(module + ":");
  variables["PYTHONPATH"] = has_it                ? python_path
                            : python_path.empty() ? module
                                                  : module + ":" + python_path;
}

void tidy_stack_folder(const std::string& folder) {
  std::error_code problem;
  for (const auto& one : fs::directory_iterator(folder, problem)) {
    const auto pid = to_number(one.path().stem().string());
    if (one.path().extension() == ".txt" && pid && ::kill(static_cast<pid_t>(*pid), 0) != 0 &&
        errno == ESRCH)
      ::unlink(one.path().c_str());
  }
}

std::string stack_folder_of(pid_t pid) {
  const std::string environment = slurp(proc(pid, "environ")).value_or("");
  for (const std::string_view one : split(environment, '\0'))
    if (one.starts_with("BERTH_STACKS=")) return std::string(one.substr(one.find('=') + 1));
  return {};
}

std::map<pid_t, std::string> ask_for_stacks(const std::string& folder,
                                            const std::vector<pid_t>& processes) {
  constexpr auto kPatience = std::chrono::milliseconds(1'000);
  constexpr auto kQuiet =
      std::chrono::milliseconds(40);  // if there is no output for this long, the stack is complete
  std::map<pid_t, std::string> answers;
  std::vector<Question> questions;
  for (const pid_t pid : processes) {
    answers[pid];
    Question question;
    question.pid = pid;
    if (!folder.empty() && ask(question, folder)) questions.push_back(std::move(question));
  }
  const auto deadline = Clock::now() + kPatience;
  const auto is_open = [](const Question& one) { return !one.is_over; };
  while (Clock::now() < deadline && std::any_of(questions.begin(), questions.end(), is_open)) {
    ::poll(nullptr, 0, 5);
    for (Question& one : questions) {
      const off_t size = size_of(one.file);
      if (size > one.seen) one.grown = Clock::now();
      one.seen = std::max(one.seen, size);
      one.is_over = one.seen > one.from && Clock::now() - one.grown >= kQuiet;
    }
  }
  for (const Question& one : questions) answers[one.pid] = answer_of(one);
  return answers;
}

std::vector<ThreadState> threads_of(pid_t pid) {
  std::vector<ThreadState> threads;
  std::error_code problem;
  for (const auto& one : fs::directory_iterator(proc(pid, "task"), problem)) {
    const std::string folder = one.path().string();
    const std::string stat = slurp(folder + "/stat").value_or("");
    const auto open = stat.find('(');
    const auto close = stat.rfind(')');
    if (open == std::string::npos || close == std::string::npos || close + 2 >= stat.size())
      continue;
    ThreadState thread;
    thread.id = static_cast<pid_t>(to_number(one.path().filename().string()).value_or(0));
    thread.name = stat.substr(open + 1, close - open - 1);
    thread.state = stat[close + 2];
    const std::string function = slurp(folder + "/wchan").value_or("");
    if (function != "0") thread.waits_in = function;
    threads.push_back(std::move(thread));
  }
  std::sort(threads.begin(), threads.end(),
            [](const ThreadState& a, const ThreadState& b) { return a.id < b.id; });
  return threads;
}

}  // namespace berth::run
