// Knowledge: what is true of the world rather than of one machine; read from data/ (each row with
// its source), so that a new release needs a row and no code.
#pragma once

namespace berth::doctor {

struct Knowledge {};

}  // namespace berth::doctor
