// Loads libberth, and reads the documents that it returns. A program does not link
// libberth, so it also starts on machines without Berth. There, calls return an Error
// (docs/decisions/0023).
#pragma once

#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "berth.h"
#include "error.hpp"

namespace berth::detail {

/// Pointers to the functions of libberth that this header calls.
struct Library {
  decltype(&::berth_abi) abi = nullptr;
  decltype(&::berth_version) version = nullptr;
  decltype(&::berth_use_program) use_program = nullptr;
  decltype(&::berth_last_error) last_error = nullptr;
  decltype(&::berth_free) free = nullptr;
  decltype(&::berth_document) document = nullptr;
  decltype(&::berth_parse) parse = nullptr;
  decltype(&::berth_parsed_free) parsed_free = nullptr;
  decltype(&::berth_text_at) text_at = nullptr;
  decltype(&::berth_integer_at) integer_at = nullptr;
  decltype(&::berth_number_at) number_at = nullptr;
  decltype(&::berth_count_at) count_at = nullptr;
  decltype(&::berth_lease_ask) lease_ask = nullptr;
  decltype(&::berth_lease_wait) lease_wait = nullptr;
  decltype(&::berth_lease_why) lease_why = nullptr;
  decltype(&::berth_lease_end) lease_end = nullptr;
};

template <typename Function>
bool find_function(void* from, const char* name, Function& into) {
  into = reinterpret_cast<Function>(::dlsym(from, name));
  return into != nullptr;
}

inline Error no_library(std::string message, std::string hint) {
  if (const char* const named = ::secure_getenv("BERTH_LIBRARY");
      named != nullptr && *named != '\0')
    hint = "unset BERTH_LIBRARY\n" + hint;
  return {Kind::unavailable, "E0550", std::move(message), std::move(hint)};
}

/// The hint of the error for a library whose version is not that of this header.
inline std::string of_this_header() {
  return text("install the version of Berth that this program was built with, or a newer one",
              "安装构建本程序时所用版本的 Berth，或更新的版本");
}

/// The name of the first function that is missing in the library; a null pointer if none is.
inline const char* find_functions(void* from, Library& into) {
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto& function) {
    if (!find_function(from, name, function) && missing == nullptr) missing = name;
  };
  find("berth_use_program", into.use_program);
  find("berth_last_error", into.last_error);
  find("berth_free", into.free);
  find("berth_document", into.document);
  find("berth_lease_ask", into.lease_ask);
  find("berth_lease_wait", into.lease_wait);
  find("berth_lease_why", into.lease_why);
  find("berth_lease_end", into.lease_end);
  find("berth_parse", into.parse);
  find("berth_parsed_free", into.parsed_free);
  find("berth_text_at", into.text_at);
  find("berth_integer_at", into.integer_at);
  find("berth_number_at", into.number_at);
  find("berth_count_at", into.count_at);
  return missing;
}

/// Opens the library. The loader searches for it as for a linked library. CMake's package and
/// pkg-config add the folder of the installed library to the search path (-rpath).
inline void* open_library(std::string& why) {
  const char* const named = ::secure_getenv("BERTH_LIBRARY");
  const bool is_named = named != nullptr && *named != '\0';
  void* const found = ::dlopen(is_named ? named : "libberth.so.1", RTLD_NOW | RTLD_LOCAL);
  if (found != nullptr) return found;
  const char* const said = ::dlerror();
  why = said != nullptr ? said : "";
  return nullptr;
}

inline Result<Library> load_library() {
  std::string why;
  void* const found = open_library(why);
  if (found == nullptr)
    return no_library(text("libberth cannot be loaded: ", "无法加载 libberth：") + why,
                      text("install Berth here, or set BERTH_LIBRARY to the path of libberth.so.1",
                           "在此安装 Berth，或把 BERTH_LIBRARY 设为 libberth.so.1 的路径"));
  Library library;
  if (!find_function(found, "berth_abi", library.abi) ||
      !find_function(found, "berth_version", library.version))
    return no_library(text("this is another library, not libberth", "这是另一个库，不是 libberth"),
                      text("install Berth here", "在此安装 Berth"));
  if (const int abi = library.abi(); abi != BERTH_ABI)
    return no_library(
        text("libberth speaks version ", "libberth 的接口版本是 ") + std::to_string(abi) +
            text(" of its interface, this program ", "，本程序的是 ") + std::to_string(BERTH_ABI),
        of_this_header());
  if (const char* const missing = find_functions(found, library))
    return no_library(std::string("libberth ") + library.version() +
                          text(" is older than the header of this program; it lacks ",
                               " 比本程序所用的头文件旧；它没有 ") +
                          missing,
                      of_this_header());
  if (const char* const program = ::secure_getenv("BERTH_PROGRAM")) library.use_program(program);
  return library;
}

/// The library, which is loaded once, at the first call.
inline const Result<Library>& library() {
  static const Result<Library> loaded = load_library();
  return loaded;
}

/// A JSON document. Its values are read by JSON pointers. A missing value and null both give
/// std::nullopt.
class Document {
 public:
  static std::optional<Document> parse(const Library& library, const char* document) {
    berth_parsed* parsed = nullptr;
    if (document == nullptr || library.parse(document, &parsed) != 0) return std::nullopt;
    return Document(library, parsed);
  }

  [[nodiscard]] std::optional<std::string> text(const std::string& pointer) const {
    const char* found = nullptr;
    if (library_->text_at(parsed_.get(), pointer.c_str(), &found) != 0) return std::nullopt;
    return found;
  }
  [[nodiscard]] std::optional<long long> integer(const std::string& pointer) const {
    long long found = 0;
    if (library_->integer_at(parsed_.get(), pointer.c_str(), &found) != 0) return std::nullopt;
    return found;
  }
  [[nodiscard]] std::optional<double> number(const std::string& pointer) const {
    double found = 0;
    if (library_->number_at(parsed_.get(), pointer.c_str(), &found) != 0) return std::nullopt;
    return found;
  }
  /// The JSON pointers to the elements of the array at `pointer`; empty if there is no array.
  [[nodiscard]] std::vector<std::string> elements(const std::string& pointer) const {
    int count = 0;
    std::vector<std::string> all;
    if (library_->count_at(parsed_.get(), pointer.c_str(), &count) != 0) return all;
    for (int at = 0; at < count; ++at) all.push_back(pointer + "/" + std::to_string(at));
    return all;
  }

 private:
  Document(const Library& library, berth_parsed* parsed)
      : library_(&library), parsed_(parsed, library.parsed_free) {}
  const Library* library_;
  std::unique_ptr<berth_parsed, decltype(&::berth_parsed_free)> parsed_;
};

inline Kind kind_of(const std::string& code) {
  constexpr std::pair<const char*, Kind> kKinds[] = {{"invalid_argument", Kind::invalid_request},
                                                     {"not_found", Kind::not_found},
                                                     {"no_device", Kind::no_device},
                                                     {"unsupported", Kind::unsupported},
                                                     {"unavailable", Kind::unavailable},
                                                     {"permission_denied", Kind::not_permitted},
                                                     {"refused", Kind::refused}};
  for (const auto& [name, kind] : kKinds)
    if (code == name) return kind;
  return Kind::internal;
}

/// The last error that libberth reported in this thread.
inline Error last_error(const Library& library) {
  const auto said = Document::parse(library, std::string(library.last_error()).c_str());
  const auto value = [&](const char* key) {
    return said ? said->text(std::string("/error/") + key).value_or("") : std::string();
  };
  std::string message = value("message");
  if (message.empty())
    message = text("Berth failed and did not say why", "Berth 失败了，但没有说明原因");
  return {kind_of(value("code")), value("id"), std::move(message), value("hint")};
}

/// Parses a text that libberth returned, and frees the text.
inline Result<Document> taken(const Library& library, char* document) {
  const std::unique_ptr<char, decltype(library.free)> held(document, library.free);
  auto parsed = Document::parse(library, document);
  if (!parsed) return last_error(library);
  return *std::move(parsed);
}

/// Runs `berth WORDS… --json` and returns its output.
inline Result<Document> document(std::initializer_list<const char*> words) {
  const auto& loaded = library();
  if (!loaded) return loaded.error();
  std::vector<const char*> all(words);
  if (in_chinese()) all.insert(all.end(), {"--lang", "zh"});
  all.push_back(nullptr);
  char* found = nullptr;
  loaded->document(all.data(), &found);
  if (found == nullptr) return last_error(*loaded);
  return taken(*loaded, found);
}

}  // namespace berth::detail
