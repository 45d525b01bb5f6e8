#include "doctor/tree/bundle.hpp"

#include <doctest/doctest.h>

#include <cerrno>

#include "system/temporary_tree.hpp"

using namespace berth::doctor;
using berth::system::TemporaryTree;

TEST_CASE("a bundle is files, and a side table for what files cannot be") {
  const TemporaryTree folder;
  folder.put("root/proc/modules", "nvidia 1 0 - Live 0x0\n");
  folder.put(
      "nodes.jsonl",
      R"({"path":"/dev/nvidia0","type":"char","mode":"0660","gid":44,"major":195,"open":"EPERM"})"
      "\n\n"
      R"({"path":"/dev/kmsg","open":"EACCES"})"
      "\n");
  const auto tree = bundle_tree(folder.path);
  REQUIRE(tree);
  CHECK(tree->read("/proc/modules"));
  const auto node = tree->node("/dev/nvidia0", true);
  REQUIRE(node);
  CHECK(node->mode == 0660);
  CHECK(node->gid == 44);
  CHECK(node->open_error == EPERM);
  CHECK(tree->read("/dev/kmsg").why().error_number == EACCES);
}

TEST_CASE("a malformed row is told with its line") {
  for (const char* row :
       {"{", "[]", R"({"path":"dev"})", R"({"path":"/x"})", R"({"path":"/x","open":"EWHAT"})",
        R"({"path":"/x","type":"char","mode":"rw"})", R"({"path":"/x","type":"char","uid":-1})"}) {
    CAPTURE(row);
    const TemporaryTree folder;
    folder.put("root/etc/hostname", "x");
    folder.put("nodes.jsonl", "\n" + std::string(row) + "\n");
    const auto tree = bundle_tree(folder.path);
    REQUIRE(!tree);
    CHECK(tree.error().id == "E0802");
    CHECK(tree.error().message.find("nodes.jsonl:2:") != std::string::npos);
  }
}

TEST_CASE("a folder that is not a bundle is an error") {
  const TemporaryTree folder;
  CHECK(bundle_tree(folder.path).error().id == "E0801");
  CHECK(bundle_tree("/nonexistent").error().id == "E0801");
}
