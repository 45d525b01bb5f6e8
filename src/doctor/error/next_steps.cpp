#include "doctor/error/next_steps.hpp"

#include <string>

#include "base/text.hpp"

namespace berth::doctor {

std::vector<model::Fix> next_steps(std::string_view message, std::string_view rules) {
  std::vector<model::Fix> steps;
  for (const NextStep& step : known_steps())
    if (step.message == message) steps.push_back({step.command, std::string(tr(step.says))});
  if (!steps.empty()) return steps;
  if (rules.starts_with("SRC"))
    return {{"berth doctor train.py", std::string(tr("finds the line in the program"))}};
  return {
      {"berth doctor -- python train.py",
       std::string(tr(
           "run it where the error occurred: it checks that command's own Python and variables"))}};
}

}  // namespace berth::doctor
