// Recording: everything that was looked at in a tree, so that a bundle holds what the rules needed
// and nothing else of the machine.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "doctor/node.hpp"

namespace berth::doctor {

struct Recording {
  struct File {
    std::uint64_t size = 0;
    bool is_cut = false;                         // there is more than was read
    std::map<std::uint64_t, std::string> parts;  // by offset: only what was read
  };

  std::map<std::string, File> files;
  std::map<std::string, std::vector<std::string>> folders;  // with the names in them
  std::set<std::string> looked_at;           // folders that were asked for by their own names
  std::map<std::string, std::string> links;  // path → target
  std::map<std::string, Special> specials;
};

}  // namespace berth::doctor
