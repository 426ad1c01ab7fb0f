#pragma once

#include <map>
#include <string>
#include <vector>

namespace ppctl::cli {

/// What a run of ppctl came to.
struct Result {
  int exit_code = -1;  ///< -1: ended by a signal
  std::string out;
  std::string err;
};

/// Runs a program to its end and captures what it writes. `environment` is added to ours; the variables of launchers
/// are removed, so that tests mean the same under mpirun.
Result run_program(const std::string& program, const std::vector<std::string>& arguments, const std::string& folder,
                   const std::map<std::string, std::string>& environment = {});

/// A folder of a test's own, with files in it, in which it runs ppctl. Removed at the end.
class Workplace {
 public:
  Workplace();
  ~Workplace();
  Workplace(const Workplace&) = delete;
  Workplace& operator=(const Workplace&) = delete;

  const std::string& folder() const { return folder_; }
  void write(const std::string& name, const std::string& text) const;
  std::string read(const std::string& name) const;
  Result ppctl(const std::vector<std::string>& arguments,
               const std::map<std::string, std::string>& environment = {}) const;

 private:
  std::string folder_;
};

}  // namespace ppctl::cli
