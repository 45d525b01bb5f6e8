#include "doctor/facts/machine.hpp"

#include <cerrno>

#include "base/file.hpp"

namespace berth::doctor {
namespace {

/// A file that every Linux has: not seeing it says something about our view, not about the machine.
template <typename T>
Fact<T> expected(Fact<T> fact, const std::string& path) {
  if (fact.is_absent()) return Unreadable{path, ENOENT};
  return fact;
}

std::uint32_t hexadecimal(const Fact<std::string>& text) {
  return text ? static_cast<std::uint32_t>(to_number(*text).value_or(0)) : 0;
}

Fact<std::vector<PciFunction>> read_pci(const Tree& tree) {
  const std::string bus = "/sys/bus/pci/devices";
  return tree.list(bus).map([&](const std::vector<std::string>& addresses) {
    std::vector<PciFunction> found;
    for (const std::string& address : addresses) {
      const std::string folder = bus + "/" + address;
      PciFunction one;
      one.address = address;
      one.vendor = hexadecimal(tree.line(folder + "/vendor"));
      one.device = hexadecimal(tree.line(folder + "/device"));
      one.class_code = hexadecimal(tree.line(folder + "/class"));
      one.driver = tree.link(folder + "/driver").map([](const std::string& target) {
        return target.substr(target.rfind('/') + 1);
      });
      found.push_back(std::move(one));
    }
    return found;
  });
}

Fact<std::vector<std::string>> read_modules(const Tree& tree) {
  return expected(tree.read("/proc/modules", 1 << 20), "/proc/modules")
      .map([](const std::string& text) {
        std::vector<std::string> names;
        for (const std::string_view line : split(text, '\n'))
          if (!line.empty()) names.emplace_back(line.substr(0, line.find(' ')));
        return names;
      });
}

}  // namespace

MachineFacts collect_machine(const Tree& tree) {
  MachineFacts facts;
  const std::string release = "/proc/sys/kernel/osrelease";
  facts.kernel = expected(tree.line(release), release);
  facts.pci = read_pci(tree);
  facts.modules = read_modules(tree);
  return facts;
}

}  // namespace berth::doctor
