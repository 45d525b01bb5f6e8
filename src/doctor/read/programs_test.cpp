#include <doctest/doctest.h>

#include "doctor/facts/container.hpp"
#include "doctor/facts/platform.hpp"
#include "doctor/read/collectors.hpp"
#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using berth::system::TemporaryTree;

TEST_CASE("Ollama's libraries are found where distributions put them") {
  for (const char* folder : {"usr/lib/ollama", "usr/lib64/ollama", "usr/libexec/ollama"}) {
    CAPTURE(folder);
    const TemporaryTree root;
    root.put("usr/bin/ollama", "");
    root.put(std::string(folder) + "/libggml-cuda.so", "");
    const auto files = collect_ollama(Tree(root.path));
    REQUIRE(files);
    CHECK(files->folder == std::string("/") + folder);
    CHECK(files->libraries == std::vector<std::string>{"libggml-cuda.so"});
  }
}

TEST_CASE("a service has the variables of its files and those that systemd passes") {
  const TemporaryTree root;
  root.put("etc/systemd/system/ollama.service",
           "[Service]\nEnvironmentFile=-/etc/default/ollama\nEnvironment=OLLAMA_KEEP_ALIVE=5m\n"
           "PassEnvironment=OLLAMA_MODELS CUDA_VISIBLE_DEVICES\n");
  root.put("etc/default/ollama",
           "# of this machine\nOLLAMA_FLASH_ATTENTION=\"1\"\nOLLAMA_KEEP_ALIVE=-1\n");
  auto service = collect_ollama_service(Tree(root.path));
  REQUIRE(service.is_whole());
  const auto& variables = service->variables;
  CHECK(variables.at("OLLAMA_FLASH_ATTENTION").value == "1");
  CHECK(variables.at("OLLAMA_FLASH_ATTENTION").file == "/etc/default/ollama");
  /// The value in the environment file overrides the value in the unit.
  CHECK(variables.at("OLLAMA_KEEP_ALIVE").value == "-1");
  CHECK(variables.at("OLLAMA_MODELS").is_passed);
  // Environment files of other programs are not read, so it is unknown whether they set a variable.
  root.put("etc/systemd/system/ollama.service.d/more.conf",
           "[Service]\nEnvironmentFile=/srv/secrets.env\n");
  service = collect_ollama_service(Tree(root.path));
  CHECK(service);
  CHECK_FALSE(service.is_whole());
}

TEST_CASE("Slurm's GPU files are read with tabs, over several lines and with commas") {
  const TemporaryTree folder;
  const Tree tree(folder.path);
  folder.put("usr/sbin/slurmd", "");
  folder.put("etc/slurm/gres.conf",
             "NodeName=gpu[01-04] Name=gpu \\\n  File=/dev/nvidia[0-7]\n"
             "Name=gpu\tFile=/dev/nvidia0,/dev/nvidia[2-3,5]\tCores=0-7\nAutoDetect=off # \\\n");
  const auto settings = collect_slurm(tree);
  REQUIRE(settings);
  CHECK(settings->files ==
        std::vector<std::string>{"/dev/nvidia0", "/dev/nvidia2", "/dev/nvidia3", "/dev/nvidia5"});
}

TEST_CASE("whether Ollama's user is in a group is known only where /etc/group has all members") {
  const TemporaryTree root;
  root.put("etc/systemd/system/ollama.service", "[Service]\nUser=ollama\n");
  root.put("etc/group", "render:x:992:ada\n");
  const auto grouped = [&] { return collect_ollama_service(Tree(root.path))->grouped; };
  CHECK_FALSE(grouped());
  for (const char* own : {"group: files\n", "group:\tfiles systemd\n", "group: compat # sss\n",
                          "group: files [SUCCESS=merge] systemd\npasswd: files sss\n"}) {
    CAPTURE(own);
    root.put("etc/nsswitch.conf", own);
    CHECK_FALSE(grouped());
  }
  for (const char* more : {"group: files sss\n", "group: files ldap\n", "group:\tsss files\n"}) {
    CAPTURE(more);
    root.put("etc/nsswitch.conf", more);
    CHECK(grouped());
  }
  root.put("etc/nsswitch.conf", "group: files systemd\n");
  root.put("etc/userdb/ollama:render.membership", "");
  CHECK(grouped());
}
