#include "serve/page_files.hpp"

#include <algorithm>
#include <array>

extern "C" {
extern const unsigned char berth_page_index_html[], berth_page_index_html_end[];
extern const unsigned char berth_page_app_css[], berth_page_app_css_end[];
extern const unsigned char berth_page_app_js[], berth_page_app_js_end[];
extern const unsigned char berth_page_base_js[], berth_page_base_js_end[];
extern const unsigned char berth_page_chart_js[], berth_page_chart_js_end[];
extern const unsigned char berth_page_device_js[], berth_page_device_js_end[];
extern const unsigned char berth_page_health_js[], berth_page_health_js_end[];
extern const unsigned char berth_page_jobs_js[], berth_page_jobs_js_end[];
extern const unsigned char berth_page_machine_js[], berth_page_machine_js_end[];
extern const unsigned char berth_page_users_js[], berth_page_users_js_end[];
extern const unsigned char berth_page_words_js[], berth_page_words_js_end[];
}

namespace berth::serve {
namespace {

constexpr const char* kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";
constexpr const char* kScript = "text/javascript; charset=utf-8";

struct PageFile {
  std::string_view path;
  const char* type;
  const unsigned char *begin, *end;
};

const PageFile* page_file(std::string_view path) {
  static const std::array<PageFile, 11> kFiles = {{
      {"/", "text/html; charset=utf-8", berth_page_index_html, berth_page_index_html_end},
      {"/app.css", "text/css; charset=utf-8", berth_page_app_css, berth_page_app_css_end},
      {"/app.js", kScript, berth_page_app_js, berth_page_app_js_end},
      {"/base.js", kScript, berth_page_base_js, berth_page_base_js_end},
      {"/chart.js", kScript, berth_page_chart_js, berth_page_chart_js_end},
      {"/device.js", kScript, berth_page_device_js, berth_page_device_js_end},
      {"/health.js", kScript, berth_page_health_js, berth_page_health_js_end},
      {"/jobs.js", kScript, berth_page_jobs_js, berth_page_jobs_js_end},
      {"/machine.js", kScript, berth_page_machine_js, berth_page_machine_js_end},
      {"/users.js", kScript, berth_page_users_js, berth_page_users_js_end},
      {"/words.js", kScript, berth_page_words_js, berth_page_words_js_end},
  }};
  const auto* found = std::find_if(kFiles.begin(), kFiles.end(),
                                   [&](const PageFile& one) { return one.path == path; });
  return found == kFiles.end() ? nullptr : found;
}

}  // namespace

bool is_page(std::string_view path) {
  return page_file(path) != nullptr;
}

std::optional<Reply> page_reply(std::string_view path) {
  const PageFile* file = page_file(path);
  if (file == nullptr) return std::nullopt;
  const auto* bytes = reinterpret_cast<const char*>(file->begin);
  return Reply{200, std::string(bytes, static_cast<std::size_t>(file->end - file->begin)),
               file->type, kPolicy};
}

}  // namespace berth::serve
