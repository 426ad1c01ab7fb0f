#include "engine_loader.hpp"

#include <dlfcn.h>

#include <filesystem>

#include "base/error.hpp"

namespace ppctl {
namespace {

std::filesystem::path engine_path() {
  std::error_code failed;
  const std::filesystem::path program = std::filesystem::read_symlink("/proc/self/exe", failed);
  if (failed) throw_error("cannot find the program's own folder (/proc/self/exe): {}", failed.message());
  return (program.parent_path() / ".." / "lib" / "libppctl_engine.so").lexically_normal();
}

}  // namespace

int run_engine(const EngineRequest& request) {
  const std::filesystem::path path = engine_path();
  if (!std::filesystem::exists(path)) {
    throw_error(
        "the training engine is not there: {}\nThis ppctl was built without LibTorch (PPCTL_WITH_TORCH=OFF), or the "
        "file was not "
        "installed with it; commands that do not compute, such as plan, work without it.",
        path.string());
  }
  // Never closed: LibTorch's threads may outlive any moment at which that could be safe.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) throw_error("the training engine cannot be loaded: {}", dlerror());
  auto* entry = reinterpret_cast<decltype(&ppctl_engine_main)>(dlsym(library, "ppctl_engine_main"));
  if (entry == nullptr) throw_error("{} is not ppctl's engine: {}", path.string(), dlerror());
  return entry(&request);
}

}  // namespace ppctl
