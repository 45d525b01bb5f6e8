#include "run/job_processes.hpp"

#include <doctest/doctest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>

using namespace berth::run;

namespace {

/// A folder in the form of /proc, made by the test.
class FakeProc {
 public:
  FakeProc() { REQUIRE(::mkdtemp(path_.data()) != nullptr); }
  FakeProc(const FakeProc&) = delete;
  FakeProc& operator=(const FakeProc&) = delete;
  ~FakeProc() { REQUIRE(std::system(("rm -r " + path_).c_str()) == 0); }

  void process(int pid, int parent, long rss_pages, long size, const std::string& maps) const {
    const std::string folder = path_ + "/" + std::to_string(pid);
    ::mkdir(folder.c_str(), 0700);
    write(folder + "/stat", std::to_string(pid) + " (x) S " + std::to_string(parent) +
                                " 1 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 " + std::to_string(pid / 10) +
                                " 0 77 " + std::to_string(size) + " " + std::to_string(rss_pages) +
                                " 0\n");
    write(folder + "/maps", maps);
  }
  void state(int pid, char state) const { stat(path_ + "/" + std::to_string(pid), pid, state); }
  void thread(int pid, int thread, char state) const {
    const std::string tasks = path_ + "/" + std::to_string(pid) + "/task";
    ::mkdir(tasks.c_str(), 0700);
    ::mkdir((tasks + "/" + std::to_string(thread)).c_str(), 0700);
    stat(tasks + "/" + std::to_string(thread), thread, state);
  }
  void moved(int pid, long bytes) const {
    write(path_ + "/" + std::to_string(pid) + "/io",
          "rchar: 9\nread_bytes: " + std::to_string(bytes) + "\nwrite_bytes: 0\n");
  }
  void shares(int pid, long rss_kib, long pss_kib) const {
    write(path_ + "/" + std::to_string(pid) + "/smaps_rollup",
          "0-1 ---p 00000000 00:00 0 [rollup]\nRss:  " + std::to_string(rss_kib) +
              " kB\nPss:   " + std::to_string(pss_kib) + " kB\nPss_Anon:  1 kB\n");
  }
  void end(int pid) const {
    REQUIRE(std::system(("rm -r " + path_ + "/" + std::to_string(pid)).c_str()) == 0);
  }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  static void stat(const std::string& folder, int number, char state) {
    write(folder + "/stat", std::to_string(number) + " (x) " + state +
                                " 10 1 1 0 -1 0 0 0 0 0 5 6 0 0 20 0 1 0 77 1 5 0\n");
  }
  static void write(const std::string& name, const std::string& text) {
    std::FILE* file = std::fopen(name.c_str(), "w");
    REQUIRE(file != nullptr);
    std::fwrite(text.data(), 1, text.size(), file);
    std::fclose(file);
  }
  std::string path_ = "/tmp/berth-proc-XXXXXX";
};

const auto kPage = static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));

}  // namespace

TEST_CASE("the job's processes are those below its root, however listed") {
  const FakeProc proc;
  proc.process(30, 10, 5, 1, "0-1 r 0 0 0 /a.so\n");
  proc.process(10, 1, 100, 1, "0-1 r 0 0 0 /root.so\n");
  proc.process(20, 30, 7, 1, "0-1 r 0 0 0 /b.so\n");  // the parent of process 20 has a larger pid
  proc.process(40, 1, 1000, 1, "0-1 r 0 0 0 /stranger.so\n");
  JobProcesses job(10, proc.path());
  const auto now = JobProcesses::Clock::now();
  job.look(now);
  CHECK(job.contains(30));
  CHECK(job.contains(20));
  CHECK_FALSE(job.contains(10));
  CHECK_FALSE(job.contains(40));
  CHECK(job.peak_memory_bytes() == 12 * kPage);
  CHECK(job.gpu_files().files.size() == 2);
  CHECK(job.most_threads() == 3);
  CHECK(job.most_threads_of_all() == 5);

  SUBCASE("a reused pid is inspected again") {
    proc.end(40);
    job.look(now);
    proc.process(40, 20, 1, 1, "");
    job.look(now);
    CHECK(job.contains(40));
    CHECK(job.peak_memory_bytes() == 13 * kPage);
  }
  SUBCASE("a process that has grown is read again soon, one that has not later") {
    proc.process(20, 30, 7, 1, "0-1 r 0 0 0 /late.so\n");
    job.look(now + std::chrono::milliseconds(100));
    CHECK(job.gpu_files().files.count("/late.so") == 0);
    proc.process(20, 30, 7, 2, "0-1 r 0 0 0 /late.so\n");
    job.look(now + std::chrono::milliseconds(200));
    CHECK(job.gpu_files().files.count("/late.so") == 1);
    proc.process(30, 10, 5, 1, "0-1 r 0 0 0 /quiet.so\n");
    job.look(now + std::chrono::seconds(5));
    CHECK(job.gpu_files().files.count("/quiet.so") == 1);
  }
}

TEST_CASE("a real child is seen with what it has loaded") {
  const pid_t child = ::fork();
  if (child == 0) {
    for (;;) ::pause();
  }
  JobProcesses job(::getpid());
  job.look(JobProcesses::Clock::now());
  CHECK(job.contains(child));
  CHECK(job.peak_memory_bytes() > 0);
  CHECK_FALSE(job.gpu_files().files.empty());  // at least libc is mapped
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  job.look(JobProcesses::Clock::now());
  CHECK_FALSE(job.contains(child));
  CHECK(job.looks() == 2);
}

TEST_CASE("time that this thread waits, as on a busy machine, is not a cost of a look") {
  const auto begin = processor_time();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  const auto waited = processor_time() - begin;
  CHECK(waited < std::chrono::milliseconds(100));
  // time in which this thread computes does count
  while (processor_time() - begin < waited + std::chrono::milliseconds(1)) continue;
}

TEST_CASE("pages that forked children share count once, and one process is as large as it is") {
  const FakeProc proc;
  proc.process(10, 1, 0, 1, "");
  proc.process(20, 10, 100, 1, "");
  JobProcesses job(10, proc.path());
  const auto now = JobProcesses::Clock::now();
  job.look(now);
  CHECK(job.peak_memory_bytes() == 100 * kPage);
  CHECK_FALSE(job.peak_is_pss());
  for (const int pid : {21, 22, 23}) proc.process(pid, 20, 100, 1, "");
  for (const int pid : {20, 21, 22, 23}) proc.shares(pid, 400, 120);
  job.look(now + std::chrono::seconds(1));
  CHECK(job.peak_memory_bytes() == 120 * kPage);
  CHECK(job.peak_is_pss());
  // The kernel has freed the memory of an exiting process, but its stat may have been read before.
  proc.process(25, 20, 100, 1, "");
  proc.shares(25, 0, 0);
  job.look(now + std::chrono::milliseconds(1500));
  CHECK(job.peak_memory_bytes() == 120 * kPage);
  CHECK(job.peak_is_pss());
  proc.end(25);
  // A process that may not be inspected counts with its RSS. Then the sum is no longer PSS.
  proc.process(24, 20, 50, 1, "");
  job.look(now + std::chrono::seconds(2));
  CHECK(job.peak_memory_bytes() == 170 * kPage);
  CHECK_FALSE(job.peak_is_pss());
}

TEST_CASE("threads that run are counted, and bytes of processes that wait for a disk") {
  const FakeProc proc;
  proc.process(20, 10, 5, 1, "");
  JobProcesses job(10, proc.path());
  const auto now = JobProcesses::Clock::now();
  CHECK_FALSE(job.mean_runnable());
  proc.state(20, 'D');
  proc.thread(20, 20, 'D');
  proc.thread(20, 21, 'R');
  proc.thread(20, 22, 'R');
  proc.moved(20, 1000);
  job.look(now);
  job.count_runnable(now);
  REQUIRE(job.seen().size() == 1);
  CHECK(job.seen().front().state == 'D');
  CHECK(job.mean_runnable() == 2);
  proc.moved(20, 5000);
  job.look(now);
  job.count_runnable(now);  // too soon
  CHECK(job.mean_runnable() == 2);
  CHECK(job.disk_bytes() == 4000);
}
