#include "policy/thread_pools.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <string_view>

namespace berth::policy {
namespace {

/// A row of the tables. `part`: if a file's path contains this text, the file is the library.
struct Row {
  std::string_view part, name;
};

constexpr std::array<Row, 6> kPools{{
    {"/libgomp", "GNU OpenMP"},
    {"/libiomp5", "Intel OpenMP"},
    {"/libomp.so", "LLVM OpenMP"},
    {"/libomp-", "LLVM OpenMP"},
    {"/libtbb.so", "TBB"},
    {"/libtbb-", "TBB"},
}};

/// The first row that matches a file determines the library's name. On Debian and Fedora, the name
/// of the folder or file shows which kind of threads the library uses. The wheels of NumPy and
/// SciPy each contain an OpenBLAS with POSIX threads.
constexpr std::array<Row, 18> kBlas{{
    {"/openblas-openmp/", "OpenBLAS (OpenMP)"},
    {"/openblas-serial/", "OpenBLAS (one thread)"},
    {"/openblas-pthread/", "OpenBLAS (pthreads)"},
    {"/libopenblaso", "OpenBLAS (OpenMP)"},
    {"/libopenblasp", "OpenBLAS (pthreads)"},
    {"/libscipy_openblas", "OpenBLAS (pthreads)"},
    {"/libopenblas64_p", "OpenBLAS (pthreads)"},
    {"/libopenblas", "OpenBLAS"},
    {"/libmkl_core", "MKL"},
    {"/libmkl_rt", "MKL"},
    {"/blis-serial/", "BLIS (one thread)"},
    {"/libblis", "BLIS"},
    {"/blis-", "BLIS"},
    {"/libnvpl_blas", "NVPL"},
    {"/libarmpl", "Arm Performance Libraries"},
    {"/atlas/", "ATLAS"},
    {"/libatlas", "ATLAS"},
    {"/libsatlas", "ATLAS"},
}};

void add(std::vector<std::string>& names, std::string name) {
  if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(std::move(name));
}

bool is_digit(char c) {
  return std::isdigit(static_cast<unsigned char>(c)) != 0;
}

/// Returns the version in a file's name: "0.3.21" for "libopenblasp-r0.3.21.so". A wheel adds a
/// checksum before it: also "0.3.21" for "libopenblas64_p-r0-15028c96.3.21.so".
std::string version_of(std::string_view file) {
  const std::string_view name = file.substr(file.rfind('/') + 1);
  const auto at = name.find("-r");
  const auto end = name.find(".so", at == std::string_view::npos ? 0 : at);
  if (at == std::string_view::npos || end == std::string_view::npos) return {};
  const std::string_view words = name.substr(at + 2, end - at - 2);
  const std::string_view first = words.substr(0, words.find_first_of("-."));
  const std::string_view rest =
      words.find('.') == std::string_view::npos ? "" : words.substr(words.find('.'));
  const auto is_part = [](char c) { return is_digit(c) || c == '.'; };
  constexpr std::size_t kMost = 12;
  if (first.empty() || rest.size() < 2 || first.size() + rest.size() > kMost ||
      !std::all_of(first.begin(), first.end(), is_digit) ||
      !std::all_of(rest.begin(), rest.end(), is_part))
    return {};
  return std::string(first) + std::string(rest);
}

/// A BLAS can consist of several files. Only some of them have the version in their name.
struct Blas {
  std::string_view name;
  std::string version;

  /// The name with the version: "OpenBLAS 0.3.21 (pthreads)".
  [[nodiscard]] std::string words() const {
    std::string out(name);
    if (!version.empty()) out.insert(std::min(out.find(" ("), out.size()), " " + version);
    return out;
  }
};

void add_blas(std::vector<Blas>& all, Blas seen) {
  const auto known = std::find_if(all.begin(), all.end(), [&](const Blas& one) {
    return one.name == seen.name &&
           (one.version.empty() || seen.version.empty() || one.version == seen.version);
  });
  if (known == all.end())
    all.push_back(std::move(seen));
  else if (known->version.empty())
    known->version = std::move(seen.version);
}

bool is_in_set(std::string_view file, const Row& row) {
  return file.find(row.part) != std::string_view::npos;
}

}  // namespace

ThreadPools thread_pools(const std::vector<std::string>& mapped_files) {
  ThreadPools found;
  std::vector<Blas> all;
  bool has_plain = false;
  for (const std::string& file : mapped_files) {
    for (const Row& row : kPools)
      if (is_in_set(file, row)) add(found.pools, std::string(row.name));
    const auto* blas = std::find_if(kBlas.begin(), kBlas.end(),
                                    [&](const Row& row) { return is_in_set(file, row); });
    if (blas != kBlas.end()) {
      add_blas(all, {blas->name, version_of(file)});
      if (blas->name.find("pthreads") != std::string_view::npos) add(found.pools, "OpenBLAS");
    } else {
      has_plain = has_plain || file.find("/libblas.so") != std::string::npos;
    }
  }
  // libblas.so.3 is the reference BLAS only if no other BLAS is mapped. Other libraries are
  // installed under this name, too, but they also map a file of their own.
  for (const Blas& one : all) found.blas.push_back(one.words());
  if (has_plain && all.empty()) found.blas.emplace_back(kReferenceBlas);
  return found;
}

}  // namespace berth::policy
