// Recording: everything that was read from a tree, so that a bundle contains what the rules needed
// and nothing else.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "doctor/facts/node.hpp"

namespace berth::doctor {

struct Recording {
  struct File {
    std::uint64_t size = 0;
    bool is_cut = false;                         // the file is longer than what was read
    std::map<std::uint64_t, std::string> parts;  // by offset: only the parts that were read
  };

  std::map<std::string, File> files;
  std::map<std::string, std::vector<std::string>> folders;  // with their entries' names
  std::set<std::string> looked_at;                          // folders that were looked up directly
  std::map<std::string, std::string> links;                 // path → target
  std::map<std::string, Special> specials;
};

}  // namespace berth::doctor
