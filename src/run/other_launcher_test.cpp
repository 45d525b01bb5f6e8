#include "run/other_launcher.hpp"

#include <doctest/doctest.h>

#include "base/text_parts.hpp"

using namespace berth;
using run::other_launcher;

namespace {

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> words;
  for (const std::string_view word : split(line, ' ')) words.emplace_back(word);
  return words;
}

std::string join(const std::vector<std::string>& words, const char* with) {
  std::string all;
  for (const std::string& word : words) all += (all.empty() ? "" : with) + word;
  return all;
}

struct LauncherCase {
  const char *command, *name, *needless, *instead;
};

}  // namespace

TEST_CASE(
    "launchers inside the command are recognised, with the options that Berth makes needless") {
  const std::vector<LauncherCase> cases{
      {"torchrun --standalone --nproc_per_node=2 train.py --lr 1", "torchrun",
       "--standalone|--nproc_per_node=2", "berth run --ranks 2 -- python train.py --lr 1"},
      {"/opt/x/bin/torchrun --nproc-per-node gpu --max-restarts 3 -m a.train", "torchrun",
       "--nproc-per-node gpu|--max-restarts 3",
       "berth run --ranks gpu --retries 3 -- python -m a.train"},
      {"torchrun --nproc_per_node auto t.py", "torchrun", "--nproc_per_node auto",
       "berth run --ranks auto -- python t.py"},
      {"python3 -m torch.distributed.run --nnodes 1 --nproc_per_node 4 t.py", "torchrun",
       "--nnodes 1|--nproc_per_node 4", "berth run --ranks 4 -- python t.py"},
      {"torchrun --nnodes 2 --nproc_per_node 4 t.py", "torchrun", "--nnodes 2|--nproc_per_node 4",
       ""},
      {"torchrun --no-python --nproc_per_node 4 ./a.out", "torchrun", "", ""},
      {"torchrun t.py", "torchrun", "", "berth run --ranks 1 -- python t.py"},
      {"accelerate launch --multi_gpu --num_processes 2 --mixed_precision=bf16 t.py",
       "accelerate launch", "--multi_gpu|--num_processes 2", ""},
      {"accelerate launch --num_processes 2 --main_process_port 0 t.py", "accelerate launch",
       "--num_processes 2|--main_process_port 0", "berth run --ranks 2 -- python t.py"},
      {"deepspeed --num_gpus 2 --master_port 29501 t.py --deepspeed", "deepspeed",
       "--num_gpus 2|--master_port 29501", "berth run --ranks 2 -- python t.py --deepspeed"}};
  for (const LauncherCase& one : cases) {
    CAPTURE(one.command);
    const auto found = other_launcher(words_of(one.command));
    REQUIRE(found);
    CHECK(found->name == one.name);
    CHECK(join(found->needless, "|") == one.needless);
    CHECK(join(found->instead, " ") == one.instead);
  }
}

TEST_CASE("other commands are not launchers") {
  for (const char* command : {"python train.py", "python -m torch.distributed", "accelerate config",
                              "python -c torchrun", "echo torchrun", ""})
    CHECK_FALSE(other_launcher(words_of(command)));
  CHECK_FALSE(other_launcher({}));
}

TEST_CASE("the sentence has the options and the command") {
  const auto found = other_launcher(words_of("torchrun --nproc_per_node 2 t.py"));
  REQUIRE(found);
  const std::string sentence = needless_sentence(*found);
  CHECK(sentence.find("--nproc_per_node 2") != std::string::npos);
  CHECK(sentence.ends_with("berth run --ranks 2 -- python t.py"));
}
