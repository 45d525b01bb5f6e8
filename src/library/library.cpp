// The C ABI: each function converts its arguments, calls one of our functions, and returns only a
// number and text.
#include <cstring>
#include <memory>
#include <new>
#include <string>

#include <berth/berth.h>
#include "base/environment_variables.hpp"
#include "base/exit_code.hpp"
#include "base/text.hpp"
#include "library/document.hpp"
#include "library/leased.hpp"
#include "library/program.hpp"
#include "output/error.hpp"

struct berth_lease {
  berth::library::Leased leased;
};

namespace {

using berth::Error;
using berth::ErrorCode;

thread_local std::string last_error = "{}";

int failed(const Error& error) {
  const int code = berth::exit_code_of(error);
  last_error = berth::output::error_json(error, code);
  return code;
}

Error wrong_call(const char* what) {
  return {ErrorCode::kInvalidArgument, "E0551",
          berth::text("libberth was called wrongly: {}", what), ""};
}

char* copy_of(const std::string& text) {
  auto* const copy = static_cast<char*>(std::malloc(text.size() + 1));
  if (copy == nullptr) throw std::bad_alloc();
  std::memcpy(copy, text.c_str(), text.size() + 1);
  return copy;
}

void choose_language() {
  for (const char* name : {"LC_ALL", "LC_MESSAGES", "LANG"})
    if (const auto locale = berth::env_nonempty(name))
      return berth::set_language(berth::language_from(*locale));
}

/// Lets no exception escape.
template <typename Work>
int guarded(Work work) noexcept {
  try {
    choose_language();
    return work();
  } catch (const std::exception& problem) {
    try {
      return failed(
          {ErrorCode::kInternal, "E7002", berth::text("a bug in berth: {}", problem.what()), ""});
    } catch (const std::exception&) {
      return berth::kBug;
    }
  }
}

}  // namespace

int berth_abi(void) {
  return BERTH_ABI;
}

const char* berth_version(void) {
  return BERTH_VERSION;
}

void berth_use_program(const char* path) {
  guarded([&] {
    berth::library::use_program(path == nullptr ? "" : path);
    return 0;
  });
}

const char* berth_last_error(void) {
  return last_error.c_str();
}

void berth_free(char* text) {
  std::free(text);
}

int berth_document(const char* const* words, char** document) {
  return guarded([&] {
    if (words == nullptr || document == nullptr) return failed(wrong_call("a null pointer"));
    *document = nullptr;
    std::vector<std::string> all;
    for (; *words != nullptr; ++words) all.emplace_back(*words);
    const auto said = berth::library::run_program(all);
    if (!said) return failed(said.error());
    if (said->exit_code != 0) last_error = said->err.starts_with('{') ? said->err : "{}";
    if (!said->out.empty() && said->exit_code <= berth::kNothing) *document = copy_of(said->out);
    if (said->exit_code != 0 && *document == nullptr && last_error == "{}")
      return failed({ErrorCode::kInternal, "E7002",
                     berth::text("berth ended with {}: {}", said->exit_code, said->err), ""});
    return said->exit_code;
  });
}

int berth_lease_ask(const char* wish, berth_lease** lease) {
  return guarded([&] {
    if (wish == nullptr || lease == nullptr) return failed(wrong_call("a null pointer"));
    *lease = nullptr;
    auto leased = berth::library::Leased::ask(wish);
    if (!leased) return failed(leased.error());
    *lease = new berth_lease{*std::move(leased)};
    return 0;
  });
}

int berth_lease_wait(berth_lease* lease, int milliseconds, char** document) {
  return guarded([&] {
    if (lease == nullptr || document == nullptr) return failed(wrong_call("a null pointer"));
    *document = nullptr;
    const auto granted = lease->leased.wait(std::chrono::milliseconds(milliseconds));
    if (!granted) return failed(granted.error());
    if (*granted) *document = copy_of(**granted);
    return 0;
  });
}

int berth_lease_why(berth_lease* lease, char** document) {
  return guarded([&] {
    if (lease == nullptr || document == nullptr) return failed(wrong_call("a null pointer"));
    *document = nullptr;
    const auto why = lease->leased.why();
    if (!why) return failed(why.error());
    *document = copy_of(*why);
    return 0;
  });
}

int berth_lease_end(berth_lease* lease, int exit_code) {
  return guarded([&] {
    const std::unique_ptr<berth_lease> ours(lease);
    if (ours) ours->leased.end(exit_code);
    return 0;
  });
}
