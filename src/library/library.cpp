// The C ABI. Each function converts its arguments, calls a C++ function of Berth, and returns only
// numbers and text.
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <new>
#include <string>

#include <berth/berth.h>
#include "base/environment_variables.hpp"
#include "base/exit_code.hpp"
#include "base/json.hpp"
#include "base/text.hpp"
#include "library/document.hpp"
#include "library/leased.hpp"
#include "library/program.hpp"
#include "output/error.hpp"

struct berth_lease {
  berth::library::Leased leased;
};

struct berth_parsed {
  nlohmann::json values;
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
  return {ErrorCode::kInvalidArgument, "E0551", berth::text("wrong call of libberth: {}", what),
          ""};
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

/// Calls `work`, and returns exceptions as errors, so that no exception leaves the library.
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

/// Passes the value at a JSON pointer to `take`, which returns false if the value has the wrong
/// type.
template <typename Take>
int value_at(const berth_parsed* parsed, const char* pointer, const void* into, Take take) {
  return guarded([&] {
    if (parsed == nullptr || pointer == nullptr || into == nullptr)
      return failed(wrong_call("a null pointer"));
    try {
      const nlohmann::json::json_pointer where(pointer);
      if (!parsed->values.contains(where)) return static_cast<int>(berth::kNothing);
      return take(parsed->values.at(where)) ? 0 : static_cast<int>(berth::kNothing);
    } catch (const nlohmann::json::exception&) {
      return failed(wrong_call("not a JSON pointer"));
    }
  });
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

int berth_parse(const char* document, berth_parsed** parsed) {
  return guarded([&] {
    if (document == nullptr || parsed == nullptr) return failed(wrong_call("a null pointer"));
    *parsed = nullptr;
    auto values = nlohmann::json::parse(document, nullptr, false);
    if (values.is_discarded()) return failed(wrong_call("not a JSON document"));
    *parsed = new berth_parsed{std::move(values)};
    return 0;
  });
}

void berth_parsed_free(berth_parsed* parsed) {
  delete parsed;
}

int berth_text_at(const berth_parsed* parsed, const char* pointer, const char** text) {
  return value_at(parsed, pointer, text, [&](const nlohmann::json& value) {
    if (!value.is_string()) return false;
    *text = value.get_ref<const std::string&>().c_str();
    return true;
  });
}

int berth_integer_at(const berth_parsed* parsed, const char* pointer, long long* value) {
  return value_at(parsed, pointer, value, [&](const nlohmann::json& found) {
    if (found.is_boolean()) {
      *value = found.get<bool>() ? 1 : 0;
      return true;
    }
    constexpr auto kMost = static_cast<std::uint64_t>(std::numeric_limits<long long>::max());
    if (!found.is_number_integer() ||
        (found.is_number_unsigned() && found.get<std::uint64_t>() > kMost))
      return false;
    *value = found.get<long long>();
    return true;
  });
}

int berth_number_at(const berth_parsed* parsed, const char* pointer, double* value) {
  return value_at(parsed, pointer, value, [&](const nlohmann::json& found) {
    if (!found.is_number()) return false;
    *value = found.get<double>();
    return true;
  });
}

int berth_count_at(const berth_parsed* parsed, const char* pointer, int* count) {
  return value_at(parsed, pointer, count, [&](const nlohmann::json& found) {
    if (!found.is_array() || found.size() > std::numeric_limits<int>::max()) return false;
    *count = static_cast<int>(found.size());
    return true;
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
