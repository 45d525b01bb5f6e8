// A Recording collects everything that is read from a tree. A bundle is made from a Recording, so
// it contains only what the rules needed.
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
    bool is_cut = false;                         // the file is longer than the part that was read
    std::map<std::uint64_t, std::string> parts;  // the parts that were read, by offset
  };

  std::map<std::string, File> files;
  std::map<std::string, std::vector<std::string>>
      folders;                      // folders that were listed, with the names of their entries
  std::set<std::string> looked_at;  // folders whose attributes were read
  std::map<std::string, std::string> links;  // from a link's path to its target
  std::map<std::string, Special> specials;
};

}  // namespace berth::doctor
