// The stacks of a process's threads: Python's, requested by a signal, and the kernel's wait state.
// Nothing is stopped or ended. A Python process answers only if it has registered through the
// module in sitecustomize.py, which it loads because of PYTHONPATH.
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
  std::vector<StackFrame> frames;  // the innermost frame comes first
};
/// Parses faulthandler's output. The main thread comes last.
[[nodiscard]] std::vector<PythonThread> parse_stacks(const std::string& text);
/// The line of the thread's innermost frame, such as "train.py:12 in step". Frames of the program
/// take precedence over frames of libraries. "" if there are no frames.
[[nodiscard]] std::string innermost_user_line(const PythonThread& thread);
/// Whether the thread, which belongs to a rank, waits for other ranks.
[[nodiscard]] bool is_in_collective(const PythonThread& thread);
/// Whether the thread, which belongs to a rank, waits in the call with which ranks first connect,
/// such as init_process_group().
[[nodiscard]] bool is_connecting(const PythonThread& thread);

/// Creates the folder in which processes register, and writes sitecustomize.py into it. Returns its
/// path; "" if that fails.
[[nodiscard]] std::string make_stack_folder();
/// Sets BERTH_STACKS and PYTHONPATH.
void add_stack_variables(const std::string& folder, std::map<std::string, std::string>& variables,
                         const std::string& python_path);
/// Removes the files of processes that have ended.
void tidy_stack_folder(const std::string& folder);
/// BERTH_STACKS of a process; "" if it is not set or may not be read.
[[nodiscard]] std::string stack_folder_of(pid_t pid);

/// The Python stacks of these processes, in faulthandler's format; "" for a process that has not
/// registered or does not answer within a second.
[[nodiscard]] std::map<pid_t, std::string> ask_for_stacks(const std::string& folder,
                                                          const std::vector<pid_t>& processes);

/// A thread's state, as the kernel reports it.
struct ThreadState {
  pid_t id = 0;
  std::string name;
  char state = '?';
  // the kernel function in which it sleeps; "": it runs, or the function is not known
  std::string waits_in;
};
[[nodiscard]] std::vector<ThreadState> threads_of(pid_t pid);

}  // namespace berth::run
