// Writes one line per event to stderr: text for people, or JSON for programs.
#pragma once

#include <map>
#include <string>

namespace berth::kubelet {

void log_as_json(bool yes);
/// `event` is a stable name ("registered"); `facts` are its details.
void log(const std::string& event, const std::map<std::string, std::string>& facts = {});

}  // namespace berth::kubelet
