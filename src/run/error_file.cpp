#include "run/error_file.hpp"

#include "base/json.hpp"
#include "base/json_value.hpp"
#include "base/text_parts.hpp"

namespace berth::run {
namespace {

using Json = nlohmann::json;

/// The time of the error. PyTorch writes it as text.
std::optional<std::int64_t> time_in(const Json& object) {
  const auto at = object.is_object() ? object.find("timestamp") : object.end();
  if (!object.is_object() || at == object.end()) return std::nullopt;
  if (at->is_number_integer()) return at->get<std::int64_t>();
  return at->is_string() ? to_number(at->get<std::string>()) : std::nullopt;
}

Json parse(std::string_view json) {
  return Json::parse(json, nullptr, /*allow_exceptions=*/false);
}

}  // namespace

std::optional<ErrorFile> parse_error_file(std::string_view json) {
  const Json whole = parse(json);
  if (!whole.is_object() || !whole.contains("message")) return std::nullopt;
  const Json& message = whole["message"];
  ErrorFile error;
  error.message = message.is_string() ? message.get<std::string>() : json_text(message, "message");
  if (message.is_object() && message.contains("extraInfo")) {
    const Json& extra = message["extraInfo"];
    error.traceback = json_text(extra, "py_callstack");
    error.when = time_in(extra);
  }
  while (error.traceback.ends_with('\n')) error.traceback.pop_back();
  if (error.message.empty() && error.traceback.empty()) return std::nullopt;
  return error;
}

std::string error_file_text(std::string_view json, const ErrorFile& error, int exit_code) {
  Json whole = parse(json);
  if (!parse_error_file(json)) {
    Json extra{{"py_callstack", error.traceback}};
    if (error.when) extra["timestamp"] = std::to_string(*error.when);
    whole = {{"message", {{"message", error.message}, {"extraInfo", std::move(extra)}}}};
  }
  if (whole["message"].is_object()) whole["message"]["errorCode"] = exit_code;
  return whole.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace berth::run
