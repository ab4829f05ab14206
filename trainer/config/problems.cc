#include "trainer/config/problems.h"

#include <fmt/core.h>

namespace nxdkit::trainer {
namespace {

std::string ProblemText(const ConfigProblem& problem) {
  std::string text;
  if (!problem.place.empty()) text += problem.place + ": ";
  if (!problem.key.empty()) text += problem.key + ": ";
  text += problem.message;
  if (!problem.fix.empty()) text += "; " + problem.fix;
  return text;
}

}  // namespace

Error ProblemsError(const std::vector<ConfigProblem>& problems) {
  NXDKIT_CHECK(!problems.empty());
  const ConfigProblem& first = problems.front();
  if (problems.size() == 1) {
    Error error = Error(first.code, first.message).in(first.place).member(first.key);
    return first.fix.empty() ? error : std::move(error).hint(first.fix);
  }
  std::string text = fmt::format("{} problems in the configuration:", problems.size());
  for (size_t i = 0; i < problems.size(); ++i)
    text += fmt::format("\n[{}] {}", i + 1, ProblemText(problems[i]));
  return Error(first.code, text);
}

}  // namespace nxdkit::trainer
