#include "compare/settings.hpp"

#include <doctest/doctest.h>

namespace berth::compare {
namespace {

/// The settings as text, such as "--cpu; --gpus 1".
std::string shown(const Wish& wish, const Machine& machine) {
  std::string out;
  for (const auto& setting : settings_of(wish, machine)) {
    out += out.empty() ? "" : "; ";
    for (const auto& [name, value] : setting.variables) out += name + "=" + value + " ";
    std::string options;
    for (const auto& word : run_options(setting)) options += (options.empty() ? "" : " ") + word;
    out += options;
  }
  return out;
}

constexpr Machine kWithGpu{true, 8};
constexpr Machine kWithout{false, 8};

}  // namespace

TEST_CASE("without options: the CPU and a GPU, or numbers of threads where there is no GPU") {
  CHECK(shown({}, kWithGpu) == "--cpu; --gpus 1");
  CHECK(shown({}, kWithout) == "--cpu --cpus 2; --cpu --cpus 4; --cpu --cpus 8");
  CHECK(shown({}, {false, 1}) == "--cpu --cpus 1");
}

TEST_CASE("named devices, and the settings that replace a missing GPU") {
  Wish wish;
  wish.cpu = true;
  wish.gpus = {1, 2};
  CHECK(shown(wish, kWithGpu) == "--cpu; --gpus 1; --gpus 2");
  CHECK(shown(wish, kWithout) == "--cpu --cpus 2; --cpu --cpus 4; --cpu --cpus 8");
  wish.threads = {1, 4};
  CHECK(shown(wish, kWithGpu) == "--cpu; --cpu --cpus 1; --cpu --cpus 4; --gpus 1; --gpus 2");
  CHECK(shown(wish, kWithout) == "--cpu; --cpu --cpus 1; --cpu --cpus 4");
  CHECK(shown({true, {}, {}, {}}, kWithout) == "--cpu");
}

TEST_CASE("variables change the last setting, which also runs without them") {
  Wish wish;
  wish.changes = {{"", {{"A", "1"}}, ""}, {"", {{"A", "2"}}, ""}};
  CHECK(shown(wish, kWithGpu) == "--gpus 1; A=1 --gpus 1; A=2 --gpus 1");
  CHECK(shown(wish, kWithout) == "--cpu; A=1 --cpu; A=2 --cpu");
  wish.gpus = {1};
  CHECK(shown(wish, kWithout) == "--cpu; A=1 --cpu; A=2 --cpu");
  wish.cpu = true;
  CHECK(shown(wish, kWithGpu) == "--cpu; --gpus 1; A=1 --gpus 1; A=2 --gpus 1");
}

TEST_CASE("the line to paste quotes words and values") {
  const model::RunSetting setting{1, std::nullopt, "", {{"A", "x y"}}, ""};
  CHECK(model::run_line(setting, {"python", "a b.py"}) ==
        "A='x y' berth run --gpus 1 -- python 'a b.py'");
}

}  // namespace berth::compare
