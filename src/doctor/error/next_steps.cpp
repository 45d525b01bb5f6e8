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
    return {{"berth doctor train.py",
             std::string(tr("finds the line in the program that causes the error"))}};
  return {{"berth doctor -- python train.py",
           std::string(tr("run this on the machine where the error occurred: it checks the Python "
                          "and the variables of that command"))}};
}

}  // namespace berth::doctor
