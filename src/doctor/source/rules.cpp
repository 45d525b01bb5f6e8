// What a mark means: one row each, in the order of the rules' numbers. The readers find, this says.
#include "doctor/source/source.hpp"

#include <algorithm>
#include <map>

#include "base/file.hpp"
#include "base/text.hpp"

namespace berth::doctor::source {
namespace {

using model::Finding;
using model::Severity;

constexpr Row kRows[] = {
    {"set_device_cpu", "SRC02", Severity::kError, "torch.cuda.set_device('cpu')",
     msgid("raises ValueError; it does not switch to the CPU"),
     "berth run --gpus none -- python {file}", "", "pn"},
    {"is_available_replaced", "SRC03", Severity::kError, "torch.cuda.is_available = lambda: False",
     msgid("hides no GPU: .cuda() and .to(\"cuda\") still work, and other libraries ask elsewhere"),
     "berth run --gpus none -- python {file}", "", "pn"},
    {"cudnn_off_for_cpu", "SRC04", Severity::kError, "torch.backends.cudnn.enabled = False",
     msgid("switches off cuDNN alone: the GPU is still used, slower"),
     "berth run --gpus none -- python {file}", "", "pn"},
    {"cudnn_off", "SRC04", Severity::kInfo, "torch.backends.cudnn.enabled = False",
     msgid("switches off cuDNN alone: the GPU is still used, slower"), "",
     msgid("leave it out, unless cuDNN itself is in doubt"), "pn"},
    {"setting_nobody_reads", "SRC08", Severity::kWarning,
     "os.environ['AMP_ENABLE'], os.environ['DIST_URL']",
     msgid("PyTorch does not read the variable {0}"), "",
     msgid("pass it to the call that should use it: torch.autocast(…), "
           "init_process_group(init_method=…)"),
     "pn"},
    {"old_autocast", "SRC09", Severity::kInfo, "torch.cuda.amp.autocast()",
     msgid("deprecated since PyTorch 2.4"), "torch.amp.autocast(\"cuda\")", "", "pn"},
    {"old_grad_scaler", "SRC09", Severity::kInfo, "torch.cuda.amp.GradScaler()",
     msgid("deprecated since PyTorch 2.4"), "torch.amp.GradScaler(\"cuda\")",
     msgid("bfloat16 needs no scaler"), "pn"},
    {"apex_amp", "SRC10", Severity::kInfo, "from apex import amp",
     msgid("mixed precision is part of PyTorch since 1.6; Apex is not needed for it"),
     "with torch.amp.autocast(\"cuda\"):", "", "pn"},
    {"half_without_scaler", "SRC11", Severity::kInfo,
     "autocast(dtype=torch.float16) and backward()",
     msgid("float16 without a GradScaler: small gradients become 0"),
     "torch.amp.autocast(\"cuda\", dtype=torch.bfloat16)",
     msgid("where the hardware has bfloat16; else scale the loss by torch.amp.GradScaler"), "pn"},
    {"benchmark_for_memory", "SRC12", Severity::kInfo,
     "torch.backends.cudnn.benchmark = True  # memory",
     msgid("picks convolution algorithms by timing; it may use more memory, not less"), "",
     msgid("leave it out to save memory; it pays where the shapes stay the same"), "pn"},
    {"empty_cache_every_step", "SRC13", Severity::kWarning,
     "torch.cuda.empty_cache() in a training loop",
     msgid("in every step of the loop on line {1}: costs time and frees no live tensor"), "",
     msgid("leave it out; the cache is reused by the next step"), "pn"},
    {"empty_cache_as_cure", "SRC13", Severity::kInfo, "except …: torch.cuda.empty_cache()",
     msgid("returns unused cache alone; live tensors stay"), "",
     msgid("drop what holds the tensors first; a smaller batch helps where they are needed"), "pn"},
};

char letter(Kind kind) {
  switch (kind) {
    case Kind::kPython:
      return 'p';
    case Kind::kNotebook:
      return 'n';
    case Kind::kShell:
      return 's';
    case Kind::kDockerfile:
      return 'd';
    case Kind::kRequirements:
      return 'r';
    case Kind::kYaml:
      return 'y';
    case Kind::kUnknown:
      break;
  }
  return '?';
}

bool applies(const Row& row, Kind kind) {
  return std::string_view(row.kinds).find(letter(kind)) != std::string_view::npos;
}

/// A name as a shell takes it; one that needs no quotes stays as it is.
std::string quoted(const std::string& path) {
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/+=:@,";
  const std::string shown = printable(path);
  if (shown.find_first_not_of(plain) == std::string::npos) return shown;
  std::string out = "'";
  for (const char c : shown) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

Finding finding_of(const Source& source, const Mark& mark, const Row& row) {
  Finding finding;
  finding.id = row.id;
  finding.layer = model::Layer::kSource;
  finding.severity = row.severity;
  finding.confidence = model::Confidence::kLow;  // no public case names a rule of these yet
  finding.title = text(row.title, mark.value, mark.other);
  finding.evidence.push_back(mark.code);
  std::string command = row.command;
  if (const auto at = command.find("{file}"); at != std::string::npos)
    command.replace(at, 6, quoted(source.path));
  finding.fix.push_back({std::move(command), row.says[0] == '\0' ? "" : std::string(tr(row.says))});
  finding.file = source.path;
  finding.line = mark.line;
  return finding;
}

bool wanted(const std::vector<std::string>& only, const std::string& id) {
  return only.empty() || std::find(only.begin(), only.end(), id) != only.end();
}

}  // namespace

std::span<const Row> rows() {
  return kRows;
}

model::Diagnosis diagnose(const std::vector<Source>& sources,
                          const std::vector<std::string>& only) {
  model::Diagnosis diagnosis;
  std::map<std::string, std::string> unseen;  // rule → why
  std::map<std::string, bool> found;          // rules that some file could hold → one did
  for (const Source& source : sources) {
    for (const Row& row : kRows) {
      if (!applies(row, source.kind) || !wanted(only, row.id)) continue;
      found.try_emplace(row.id, false);
      if (!source.no_tree.empty())
        unseen.try_emplace(row.id, printable(source.path) + ": " + source.no_tree);
      for (const Mark& mark : source.marks) {
        if (mark.what != row.what) continue;
        diagnosis.findings.push_back(finding_of(source, mark, row));
        found[row.id] = true;
      }
    }
  }
  for (const auto& [id, once] : found) {
    if (const auto why = unseen.find(id); why != unseen.end())
      diagnosis.not_checked.push_back({id, why->second});
    else if (!once)
      diagnosis.checked.push_back(id);
  }
  // The files in the order given, each from its top to its end.
  std::stable_sort(diagnosis.findings.begin(), diagnosis.findings.end(),
                   [&](const Finding& a, const Finding& b) {
                     const auto place = [&](const Finding& one) {
                       return std::find_if(sources.begin(), sources.end(),
                                           [&](const Source& s) { return s.path == one.file; });
                     };
                     return std::pair(place(a), a.line) < std::pair(place(b), b.line);
                   });
  const auto worst =
      std::max_element(diagnosis.findings.begin(), diagnosis.findings.end(),
                       [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
  diagnosis.verdict =
      worst == diagnosis.findings.end() || worst->severity == Severity::kInfo
          ? std::string(tr("nothing wrong was found"))
          : fmt::format("{}:{}: {}", printable(worst->file), worst->line, worst->title);
  return diagnosis;
}

}  // namespace berth::doctor::source
