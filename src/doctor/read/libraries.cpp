#include "doctor/facts/libraries.hpp"

#include <array>
#include <cerrno>
#include <string_view>

#include "base/text.hpp"
#include "doctor/loader/loader.hpp"

namespace berth::doctor {
namespace {

std::string words_for(FoundBy by) {
  switch (by) {
    case FoundBy::kRpath:
      return "DT_RPATH";
    case FoundBy::kLibraryPath:
      return "LD_LIBRARY_PATH";
    case FoundBy::kRunpath:
      return "DT_RUNPATH";
    case FoundBy::kCache:
      return "/etc/ld.so.cache";
    case FoundBy::kDefault:
      return std::string(tr("the loader's default folders"));
    case FoundBy::kPreload:
      return "LD_PRELOAD";
    case FoundBy::kPath:
      break;
  }
  return "";
}

Fact<FoundLibrary> find(const Tree& tree, Loader& loader, const char* name) {
  const LoadedObject object = loader.look_up(name, loader.objects().empty() ? -1 : 0);
  if (object.path.empty() && !loader.has_folders()) return Unreadable{"/etc/ld.so.cache", ENOENT};
  if (object.path.empty()) return {};
  FoundLibrary found;
  found.name = name;
  found.path = object.path;
  found.resolved = tree.resolve(object.path).value_or(object.path);
  found.by = words_for(object.by);
  if (const auto at = found.resolved.rfind(".so."); at != std::string::npos)
    found.version = found.resolved.substr(at + 4);
  return found;
}

/// A dynamically linked program that nearly every system has.
std::string any_program(const Tree& tree) {
  for (const char* path : {"/bin/sh", "/usr/bin/env", "/bin/ls", "/bin/bash"})
    if (tree.exists(path)) return path;
  return "";
}

LibraryFacts look_up_drivers(const Tree& tree, const Fact<Environment>& environment,
                             const std::string& program) {
  Loader loader(tree, environment.value_or({}));
  std::string start = program;
  if (!start.empty()) loader.start(start);
  if (loader.objects().empty() && !(start = any_program(tree)).empty()) loader.start(start);
  LibraryFacts facts;
  // Without a program there is no search to simulate: nothing was found out.
  if (loader.objects().empty()) {
    facts.cuda = facts.nvml = Unreadable{start.empty() ? "/bin/sh" : start, ENOENT};
    return facts;
  }
  facts.cuda = find(tree, loader, "libcuda.so.1");
  facts.nvml = find(tree, loader, "libnvidia-ml.so.1");
  return facts;
}

}  // namespace

LibraryFacts collect_libraries(const Tree& tree, const Fact<Environment>& environment,
                               const std::string& program) {
  LibraryFacts facts;
  const auto seen = tree.watched([&] {
    facts = look_up_drivers(tree, environment, program);
    return Fact(true);
  });
  // What lies in a folder that could not be looked at would have been taken first, or at all.
  if (!seen.is_whole()) {
    facts.cuda.doubt(seen.why());
    facts.nvml.doubt(seen.why());
  }
  return facts;
}

}  // namespace berth::doctor
