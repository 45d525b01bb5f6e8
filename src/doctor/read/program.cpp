#include "doctor/facts/program.hpp"
#include "doctor/read/collectors.hpp"

#include <cerrno>

#include "base/text_parts.hpp"
#include "doctor/read/loader.hpp"

namespace berth::doctor {

Fact<ProgramFacts> collect_program(const Tree& tree, const Fact<Environment>& environment,
                                   const std::string& program) {
  if (program.empty()) return {};
  const Fact<std::string> head = tree.read(program, 4);
  if (head.is_unreadable()) return head.why();
  if (!head || *head !=
                   "\x7f"
                   "ELF")
    return {};
  Loader loader(tree, environment.value_or({}));
  loader.start(program);
  if (!loader.has_folders()) return Unreadable{"/etc/ld.so.cache", ENOENT};
  if (loader.objects().empty()) return Unreadable{program, ENOEXEC};
  ProgramFacts facts;
  facts.path = program;
  for (const LoadedObject& one : loader.objects()) {
    if (!one.path.empty() || facts.missing.size() >= 50) continue;
    const auto by = static_cast<std::size_t>(one.loader);
    facts.missing.push_back({printable(one.name), one.loader >= 0 && by < loader.objects().size()
                                                      ? printable(loader.objects()[by].path)
                                                      : "LD_PRELOAD"});
  }
  return facts;
}

}  // namespace berth::doctor
