// A folder in which a test creates the files of a machine. It is deleted afterwards.
#pragma once

#include <doctest/doctest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/file.hpp"

namespace berth::system {

struct TemporaryTree {
  std::string path;

  TemporaryTree() {
    std::string name = (std::filesystem::temp_directory_path() / "berth-test-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~TemporaryTree() { std::filesystem::remove_all(path); }
  TemporaryTree(const TemporaryTree&) = delete;
  TemporaryTree& operator=(const TemporaryTree&) = delete;

  [[nodiscard]] Roots roots() const {
    return {path + "/proc", path + "/sys", path + "/dev", path + "/etc", path + "/proc"};
  }
  void folder(const std::string& name) const {
    std::filesystem::create_directories(path + "/" + name);
  }
  void put(const std::string& file, const std::string& text) const {
    make_parent(file);
    std::ofstream(path + "/" + file, std::ios::binary) << text;
  }
  void link(const std::string& file, const std::string& target) const {
    make_parent(file);
    std::filesystem::create_symlink(target, path + "/" + file);
  }

 private:
  void make_parent(const std::string& file) const {
    std::filesystem::create_directories(std::filesystem::path(path + "/" + file).parent_path());
  }
};

}  // namespace berth::system
