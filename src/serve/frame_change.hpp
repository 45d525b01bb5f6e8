// Makes a document for the event stream that contains what differs between two documents of `berth
// top --json`. Most values of a machine do not change within a second, so they are not sent again.
// Pure.
#pragma once

#include <string>
#include <string_view>

namespace berth::serve {

/// Both are documents of output::frame_json. Returns a document in one line, with the members that
/// differ. A list such as `devices` becomes `devices_changed` if it has as many rows as before: for
/// each row that differs, the changed members and its position (`row`). If a process has moved in
/// the order, `from` is its earlier position. The age of a process is left out, because it changes
/// all the time.
[[nodiscard]] std::string frame_change(std::string_view before, std::string_view after);

}  // namespace berth::serve
