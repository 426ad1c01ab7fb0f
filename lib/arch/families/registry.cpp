#include <array>

#include "arch/families/families.hpp"
#include "arch/family.hpp"
#include "base/error.hpp"

namespace ppctl {
namespace {

std::array<const Family*, 6> families() {
  return {
      &llama_family(), &qwen3_family(), &gpt2_family(), &mixtral_family(), &qwen3_moe_family(), &llava_family(),
  };
}

}  // namespace

const Family* find_family(std::string_view name) {
  for (const Family* family : families()) {
    if (family->name == name) return family;
  }
  return nullptr;
}

const Family& family_of(const ModelSpec& spec) {
  const Family* family = find_family(spec.family);
  PPCTL_CHECK(family != nullptr, "no family '{}'", spec.family);
  return *family;
}

std::vector<std::string> family_names() {
  std::vector<std::string> names;
  for (const Family* family : families()) names.emplace_back(family->name);
  return names;
}

}  // namespace ppctl
