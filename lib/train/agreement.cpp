#include "train/agreement.hpp"

#include <fmt/ranges.h>

#include <algorithm>
#include <exception>

namespace ppctl {
namespace {

constexpr char kOk = '+';
constexpr char kFailed = '-';

std::string run(const std::function<std::string()>& work) {
  std::string answer;
  try {
    answer = work();
    answer.insert(answer.begin(), kOk);
  } catch (const std::exception& error) {
    answer = error.what();
    answer.insert(answer.begin(), kFailed);
  }
  return answer;
}

/// The messages of the ranks that failed, each once.
std::string describe(const std::vector<std::string>& answers) {
  std::vector<std::string> texts;
  std::vector<std::vector<int>> ranks;
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    if (answers[rank].front() == kOk) continue;
    const auto found = std::ranges::find(texts, answers[rank].substr(1));
    const auto index = static_cast<std::size_t>(found - texts.begin());
    if (found == texts.end()) {
      texts.push_back(answers[rank].substr(1));
      ranks.emplace_back();
    }
    ranks[index].push_back(static_cast<int>(rank));
  }
  std::string text;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (i > 0) text += '\n';
    if (ranks[i].size() < answers.size()) text += fmt::format("rank {}: ", fmt::join(ranks[i], ", "));
    text += texts[i];
  }
  return text;
}

}  // namespace

std::vector<std::string> agree(Group& world, Deadline deadline, const std::function<std::string()>& work) {
  std::vector<std::string> answers = world.all_gather_strings(run(work), deadline);
  if (std::ranges::any_of(answers, [](const std::string& answer) { return answer.front() == kFailed; })) {
    throw AgreedError(describe(answers));
  }
  for (std::string& answer : answers) answer.erase(0, 1);
  return answers;
}

}  // namespace ppctl
