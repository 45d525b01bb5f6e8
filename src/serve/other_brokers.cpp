#include "serve/other_brokers.hpp"

#include <algorithm>
#include <utility>

#include "system/runtime_folder.hpp"

namespace berth::serve {

bool OtherBrokers::gives_way() const {
  return options_.gives_way && system::system_broker_expected_for().count() > 0;
}

std::vector<std::string> OtherBrokers::leased(const std::vector<std::string>& units) {
  if (gives_way()) return units;
  if (!options_.for_all) return locks_.take(units);
  std::erase_if(earlier_, [this](const std::string& unit) {
    return !system::holder_of(system::lock_file(options_.lock_folder, unit));
  });
  return earlier_;
}

void OtherBrokers::find_earlier(const std::vector<std::string>& units,
                                const std::vector<std::string>& leased_here) {
  if (!options_.for_all || std::exchange(has_looked_, true)) return;
  earlier_ = units;
  std::erase_if(earlier_, [&](const std::string& unit) {
    return std::find(leased_here.begin(), leased_here.end(), unit) != leased_here.end();
  });
  static_cast<void>(leased(units));  // removes the units that no other broker leases from earlier_
}

}  // namespace berth::serve
