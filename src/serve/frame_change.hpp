// What differs between two documents of `berth top --json`, as a document for the event stream:
// most of a machine is the same as a second ago. Pure.
#pragma once

#include <string>
#include <string_view>

namespace berth::serve {

/// Both are documents of output::frame_json. Returns a document in one line, with the members that
/// differ. A list with as many rows as before, such as `devices`, is `devices_changed`: rows of the
/// members that differ, each with its position (`row`). If a process has moved in the order, `from`
/// is its earlier position. The age of a process is left out, because it changes all the time.
[[nodiscard]] std::string frame_change(std::string_view before, std::string_view after);

}  // namespace berth::serve
