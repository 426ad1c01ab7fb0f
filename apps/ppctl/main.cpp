#include "command_line.hpp"

int main(int argc, char** argv) { return ppctl::run_command_line(argc, argv); }
