#include <cstring>

#include "command_line.hpp"
#include "heap.hpp"

int main(int argc, char** argv) {
  const auto is_command = [&](const char* name) { return argc > 1 && std::strcmp(argv[1], name) == 0; };
  if (is_command("train") || is_command("bench")) ppctl::run_on_tuned_heap(argv);
  return ppctl::run_command_line(argc, argv);
}
