#include "output/software.hpp"

#include <vector>

#include "base/file.hpp"
#include "base/text.hpp"
#include "output/diagnosis_parts.hpp"

namespace berth::output {
namespace {

using model::Software;

std::string or_unknown(const std::string& text) {
  return text.empty() ? std::string(tr("not known")) : printable(text);
}

std::string driver_line(const Software::Driver& driver) {
  if (driver.version.empty() && driver.cuda.empty())
    return std::string(tr("NVIDIA driver: not known"));
  if (driver.cuda.empty())
    return text("NVIDIA driver {}; the CUDA version that it supports is not known", driver.version);
  return text("NVIDIA driver {}: supports programs up to CUDA {}", or_unknown(driver.version),
              driver.cuda);
}

std::string toolkit_line(const Software::Toolkit& toolkit) {
  return text("CUDA toolkit {} (compiles extensions): {}", or_unknown(toolkit.version),
              printable(toolkit.nvcc));
}

void add_libraries(const char* name, const std::optional<std::vector<Software::Library>>& libraries,
                   std::vector<std::string>& lines) {
  if (!libraries) {
    lines.push_back(text("{}: not known", name));
    return;
  }
  for (const Software::Library& one : *libraries)
    lines.push_back(fmt::format("{} {}: {}", name, or_unknown(one.version), printable(one.path)));
}

std::string framework_line(const Software::Framework& one) {
  std::string line = one.name + " " + or_unknown(one.version);
  // Print the build only if the version does not contain it, as in "2.4.1+cu121".
  if (!one.build.empty() && one.version.find(one.build) == std::string::npos)
    line += " (" + printable(one.build) + ")";
  if (!one.cuda.empty()) line += ", " + text("built with CUDA {}", one.cuda);
  return line + ": " + printable(one.path);
}

void add_libraries(JsonWriter& json, const char* key,
                   const std::optional<std::vector<Software::Library>>& libraries) {
  if (!libraries) return json.field(key, nullptr);
  json.rows(key, *libraries, [&](const Software::Library& one) {
    json.text_field("version", one.version);
    json.field("path", printable(one.path));
    json.field("from", one.from);
  });
}

}  // namespace

std::string software_text(const Software& software, const Terminal& terminal) {
  std::vector<std::string> lines;
  if (software.driver) lines.push_back(driver_line(*software.driver));
  if (software.toolkit && !software.toolkit->folder.empty())
    lines.push_back(toolkit_line(*software.toolkit));
  if (software.rocm && !software.rocm->folder.empty())
    lines.push_back(fmt::format("ROCm {}: {}", or_unknown(software.rocm->version),
                                printable(software.rocm->folder)));
  add_libraries("cuDNN", software.cudnn, lines);
  add_libraries("NCCL", software.nccl, lines);
  if (!software.frameworks) lines.emplace_back(tr("frameworks: not known"));
  for (const Software::Framework& one :
       software.frameworks.value_or(std::vector<Software::Framework>{}))
    lines.push_back(framework_line(one));
  if (lines.empty())
    lines.emplace_back(tr("no NVIDIA driver, CUDA toolkit or framework was found"));
  const std::string label = std::string(tr("in use")) + "   ";
  std::string out;
  for (const std::string& line : lines)
    out += folded(out.empty() ? label : "", line, display_width(label), terminal);
  return out;
}

void add_software(JsonWriter& json, const Software& software) {
  json.key("inventory");
  json.open('{');
  const auto object = [&](const char* key, const auto& maybe, auto write) {
    if (!maybe) return json.field(key, nullptr);
    json.key(key);
    json.open('{');
    write(*maybe);
    json.close('}');
  };
  object("driver", software.driver, [&](const Software::Driver& one) {
    json.text_field("version", one.version);
    json.text_field("cuda", one.cuda);
  });
  object("toolkit", software.toolkit, [&](const Software::Toolkit& one) {
    json.text_field("version", one.version);
    json.text_field("folder", printable(one.folder));
    json.text_field("nvcc", printable(one.nvcc));
  });
  object("rocm", software.rocm, [&](const Software::Rocm& one) {
    json.text_field("version", one.version);
    json.text_field("folder", printable(one.folder));
  });
  add_libraries(json, "cudnn", software.cudnn);
  add_libraries(json, "nccl", software.nccl);
  if (!software.frameworks) {
    json.field("frameworks", nullptr);
  } else {
    json.rows("frameworks", *software.frameworks, [&](const Software::Framework& one) {
      json.field("name", one.word);
      json.text_field("version", one.version);
      json.text_field("build", one.build);
      json.text_field("cuda", one.cuda);
      json.field("path", printable(one.path));
      json.text_field("from", one.from);
    });
  }
  json.close('}');
}

}  // namespace berth::output
