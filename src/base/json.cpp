#include "base/json.hpp"

BERTH_JSON_CLASSES()
