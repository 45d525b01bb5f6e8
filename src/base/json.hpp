// nlohmann/json for all sources. With g++ -O2, a file that reads and writes JSON compiles in 5.4 s,
// or in 3.1 s if it uses the classes compiled in json.cpp. With sanitizers, the two times are 5.8 s
// and 2.2 s.
#pragma once

#include <nlohmann/json.hpp>

// json.cpp compiles the class templates only for version 3.11. With another version, each source
// file compiles them itself.
#if NLOHMANN_JSON_VERSION_MAJOR == 3 && NLOHMANN_JSON_VERSION_MINOR == 11
namespace berth::json_detail {
using FromString = nlohmann::detail::iterator_input_adapter<std::string::const_iterator>;
using FromBytes = nlohmann::detail::iterator_input_adapter<const char*>;
}  // namespace berth::json_detail

#define BERTH_JSON_CLASSES(EXTERN)                                                                \
  EXTERN template class nlohmann::basic_json<>;                                                   \
  EXTERN template class nlohmann::basic_json<nlohmann::ordered_map>;                              \
  EXTERN template class nlohmann::detail::serializer<nlohmann::json>;                             \
  EXTERN template class nlohmann::detail::serializer<nlohmann::ordered_json>;                     \
  EXTERN template class nlohmann::detail::json_sax_dom_parser<nlohmann::json>;                    \
  EXTERN template class nlohmann::detail::json_sax_dom_callback_parser<nlohmann::json>;           \
  EXTERN template class nlohmann::detail::lexer<nlohmann::json, berth::json_detail::FromString>;  \
  EXTERN template class nlohmann::detail::lexer<nlohmann::json, berth::json_detail::FromBytes>;   \
  EXTERN template class nlohmann::detail::parser<nlohmann::json, berth::json_detail::FromString>; \
  EXTERN template class nlohmann::detail::parser<nlohmann::json, berth::json_detail::FromBytes>;
#else
#define BERTH_JSON_CLASSES(EXTERN)
#endif

BERTH_JSON_CLASSES(extern)
