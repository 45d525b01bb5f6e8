// A trace of many nodes through the node's policy: policy::place() for each job that a cluster's
// scheduler sends to a node. Prints CPU time per decision, and checks that no GPU is given twice.
// Started by hand: build/release/bench_nodes [NODES] [JOBS]; docs/scale.md has its figures.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <random>
#include <vector>

#include "policy/candidates.hpp"
#include "policy/machines_for_tests.hpp"
#include "policy/placement.hpp"

namespace {

using namespace berth;
using policy::machines::kGiB;

constexpr int kGpus = 8;
constexpr std::uint64_t kGpuMemory = 80 * kGiB;

double cpu_seconds() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) / 1e9;
}

model::Request random_request(std::mt19937& random) {
  model::Request request;
  if (random() % 2 == 0) {
    request.gpus = std::vector<int>{1, 1, 1, 2, 4, 8}[random() % 6];
  } else {
    request.memory_bytes = (4 + random() % 37) * kGiB;
  }
  return request;
}

/// Whether a unit of the ledger is given twice: to two jobs alone, or for more memory than it has.
bool given_twice(const model::Ledger& ledger) {
  std::map<std::string, std::pair<int, std::uint64_t>> units;
  for (const model::Holding& held : ledger.holdings) {
    auto& [alone, memory] = units[held.unit];
    alone += held.memory_bytes == 0 ? 1 : 0;
    memory += held.memory_bytes;
    if (alone > 1 || (alone == 1 && memory > 0) || memory > kGpuMemory) return true;
  }
  return false;
}

}  // namespace

int main(int argc, char** argv) {
  const std::size_t nodes = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1000;
  const std::size_t jobs = argc > 2 ? std::strtoul(argv[2], nullptr, 10) : 200'000;
  if (nodes == 0 || jobs == 0) return 2;
  const model::Snapshot snapshot = policy::machines::nvidia(kGpus, 2);
  std::vector<model::Ledger> ledgers(nodes);
  for (model::Ledger& ledger : ledgers) ledger.kept = true;
  std::mt19937 random(1);
  std::vector<double> times;
  times.reserve(jobs);
  std::size_t placed = 0, refused = 0;
  for (std::size_t job = 1; job <= jobs; ++job) {
    model::Ledger& ledger = ledgers[random() % nodes];
    if (!ledger.holdings.empty() && random() % 2 == 0) {  // a job on this node ends
      const auto ended = ledger.holdings[random() % ledger.holdings.size()].job;
      std::erase_if(ledger.holdings, [&](const model::Holding& one) { return one.job == ended; });
    }
    const model::Request request = random_request(random);
    const double begun = cpu_seconds();
    const auto placement = policy::place(request, snapshot, ledger);
    times.push_back(cpu_seconds() - begun);
    if (!placement) {
      ++refused;
      continue;
    }
    ++placed;
    for (const int device : placement->devices)
      ledger.holdings.push_back(
          {job, "zhao",
           policy::unit_id(snapshot.devices[static_cast<std::size_t>(device)], nullptr),
           request.memory_bytes.value_or(0)});
    if (given_twice(ledger)) {
      std::fprintf(stderr, "a GPU is given twice by job %zu\n", job);
      return 1;
    }
  }
  double total = 0;
  for (const double one : times) total += one;
  std::ranges::sort(times);
  std::printf(
      "{\"nodes\": %zu, \"decisions\": %zu, \"placed\": %zu, \"refused\": %zu, "
      "\"mean_microseconds\": %.2f, \"p50_microseconds\": %.2f, \"p99_microseconds\": %.2f}\n",
      nodes, jobs, placed, refused, total / static_cast<double>(jobs) * 1e6, times[jobs / 2] * 1e6,
      times[jobs * 99 / 100] * 1e6);
  return 0;
}
