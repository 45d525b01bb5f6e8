// Where the threads of a process are: Python's stacks, asked for by a signal, and what the kernel
// says. Nothing is stopped or ended. Python is asked only if it has registered itself: by the
// module in sitecustomize.py, which PYTHONPATH makes it load.
#pragma once

#include <sys/types.h>

#include <map>
#include <string>
#include <vector>

namespace berth::run {

struct StackFrame {
  std::string file, function;
  int line = 0;
};
struct PythonThread {
  std::vector<StackFrame> frames;  // the innermost first
};
/// What faulthandler writes. The main thread is the last one.
[[nodiscard]] std::vector<PythonThread> parse_stacks(const std::string& text);
/// "train.py:12 in step": the innermost frame of the program itself; of libraries if there is no
/// such frame; "" without frames.
[[nodiscard]] std::string innermost_user_line(const PythonThread& thread);
/// Whether it waits for other ranks.
[[nodiscard]] bool is_in_collective(const PythonThread& thread);

/// The folder that processes register in, with the module in it; "" where it cannot be made.
[[nodiscard]] std::string make_stack_folder();
/// Sets BERTH_STACKS and PYTHONPATH.
void add_stack_variables(const std::string& folder, std::map<std::string, std::string>& variables,
                         const std::string& python_path);
/// Removes the files of processes that have ended.
void tidy_stack_folder(const std::string& folder);
/// BERTH_STACKS of a process; "" where it has none, or may not be read.
[[nodiscard]] std::string stack_folder_of(pid_t pid);

/// Python's stacks of these processes, as faulthandler writes them; "" of one that has not
/// registered or does not answer within a second.
[[nodiscard]] std::map<pid_t, std::string> ask_for_stacks(const std::string& folder,
                                                          const std::vector<pid_t>& processes);

/// One thread, as the kernel has it.
struct ThreadState {
  pid_t id = 0;
  std::string name;
  char state = '?';
  std::string waits_in;  // the kernel function that it sleeps in; "" unknown, or it runs
};
[[nodiscard]] std::vector<ThreadState> threads_of(pid_t pid);

}  // namespace berth::run
