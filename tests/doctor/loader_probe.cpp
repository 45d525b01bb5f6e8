// loader_probe PROGRAM [NAME=value…]: prints which libraries the loader simulation loads for the
// program on this machine with these variables, in order. Format of LD_TRACE_LOADED_OBJECTS=1:
// "NAME => PATH" or "NAME => not found".
#include <cstdio>

#include "doctor/read/loader.hpp"
#include "doctor/read/process.hpp"
#include "doctor/tree/tree.hpp"

int main(int count, char** words) {
  if (count < 2) return 2;
  const berth::doctor::Tree tree("/");
  berth::doctor::Loader loader(tree, berth::doctor::environment_of(words + 2));
  loader.start(words[1]);
  bool first = true;
  for (const auto& one : loader.objects()) {
    if (one.is_empty) {
      std::printf("%s: file too short\n", one.path.c_str());
      return 1;
    }
    if (!first)
      std::printf("%s => %s\n", one.name.c_str(),
                  one.path.empty() ? "not found" : one.path.c_str());
    first = false;
  }
  return 0;
}
