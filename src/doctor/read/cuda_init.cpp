#include "doctor/read/cuda_init.hpp"

#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

namespace berth::doctor {
namespace {

struct Answer {
  int opened;  // 1: cuInit was called; 0: the library does not exist; -1: it cannot be opened
  int code;
};

bool is_not_there(const char* error) {
  return error != nullptr && std::strstr(error, "No such file") != nullptr;
}

[[noreturn]] void be_the_child(int pipe, pid_t parent, const char* library) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(1);
  const int nothing = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (const int stream : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(nothing, stream);
  Answer answer{-1, 0};
  if (void* handle = ::dlopen(library, RTLD_NOW | RTLD_LOCAL)) {
    using Init = int (*)(unsigned);
    if (const auto init = reinterpret_cast<Init>(::dlsym(handle, "cuInit"))) answer = {1, init(0)};
  } else if (is_not_there(::dlerror())) {  // NOLINT(concurrency-mt-unsafe): the child's only thread
    answer.opened = 0;
  }
  static_cast<void>(!::write(pipe, &answer, sizeof answer));
  ::_exit(0);
}

}  // namespace

CudaInit::CudaInit(const std::string& library) : start_(std::chrono::steady_clock::now()) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  pipe_.reset(ends[0]);
  const Descriptor writing(ends[1]);
  const pid_t parent = ::getpid();
  child_ = ::fork();
  if (child_ == 0) be_the_child(writing.get(), parent, library.c_str());
}

CudaInit::~CudaInit() {
  if (child_ <= 0) return;
  ::kill(child_, SIGKILL);
  // A child that is blocked in the driver cannot be killed. Stop waiting for it after a short time.
  for (int tries = 0; tries < 20 && ::waitpid(child_, nullptr, WNOHANG) == 0; ++tries)
    ::poll(nullptr, 0, 5);
}

Fact<int> CudaInit::finish(std::chrono::milliseconds deadline) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      start_ + deadline - std::chrono::steady_clock::now());
  pollfd ready{pipe_.get(), POLLIN, 0};
  if (::poll(&ready, 1, std::max(0, static_cast<int>(left.count()))) <= 0)
    return Unreadable{"cuInit", ETIMEDOUT};
  Answer answer{};
  if (::read(pipe_.get(), &answer, sizeof answer) != sizeof answer)
    return Unreadable{"cuInit", ECHILD};
  if (answer.opened == 0) return {};
  if (answer.opened < 0) return Unreadable{"libcuda.so.1", ELIBBAD};
  return answer.code;
}

}  // namespace berth::doctor
