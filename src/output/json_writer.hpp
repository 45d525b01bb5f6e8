// JsonWriter writes a JSON document from front to back into one string. A table of 500 processes
// has 10 000 values; a tree of them would take ten times as long to build as reading the processes.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace berth::output {

class JsonWriter {
 public:
  void open(char bracket) {
    separate();
    out_ += bracket;
    first_ = true;
  }
  void close(char bracket) {
    out_ += bracket;
    first_ = false;
  }
  /// Writes a key, which must be ASCII without quotes.
  void key(std::string_view name);

  /// Writes a text. Invalid UTF-8, and control characters except newlines and tabs, become U+FFFD.
  void value(std::string_view text);
  void value(const char* text) { value(std::string_view(text)); }
  void value(const std::string& text) { value(std::string_view(text)); }
  void value(bool yes) { word(yes ? "true" : "false"); }
  void value(std::nullptr_t) { word("null"); }
  /// Writes a number. Infinity and NaN become null, because JSON has no form for them.
  void value(double number);
  template <std::integral T>
  requires(!std::same_as<T, bool>) void value(T number) { word(std::to_string(number)); }
  template <typename T>
  void value(const std::optional<T>& maybe) {
    maybe ? value(*maybe) : value(nullptr);
  }
  template <typename T>
  void value(const std::vector<T>& values) {
    open('[');
    for (const T& one : values) value(one);
    close(']');
  }

  template <typename T>
  void field(std::string_view name, const T& what) {
    key(name);
    value(what);
  }
  /// Writes a text, or null for an empty text, which means that the value is unknown.
  void text_field(std::string_view name, std::string_view text) {
    key(name);
    text.empty() ? value(nullptr) : value(text);
  }

  /// Writes an array with one object per row. `write` adds the fields of a row.
  template <typename Rows, typename Write>
  void rows(std::string_view name, const Rows& rows, Write write) {
    key(name);
    open('[');
    for (const auto& row : rows) {
      open('{');
      write(row);
      close('}');
    }
    close(']');
  }

  /// Returns the document on one line, and leaves the writer empty.
  [[nodiscard]] std::string finish() { return std::move(out_) + "\n"; }

 private:
  void escape(std::string_view text);
  void separate() {
    if (!first_) out_ += ',';
    first_ = false;
  }
  void word(std::string_view text) {
    separate();
    out_ += text;
  }

  std::string out_;
  bool first_ = true;  // whether the next value is the first, so that it needs no comma
};

}  // namespace berth::output
