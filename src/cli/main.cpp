#include "cli/verb.hpp"

int main(int argc, char** argv) {
  return berth::cli::main_of(argc, argv);
}
