#include "lib/system/process_facts.h"

#include <unistd.h>

#include <array>
#include <fstream>
#include <sstream>

namespace nxdkit {
namespace {

std::optional<std::string> AllOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return std::nullopt;
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

std::optional<ProcessFacts> FactsOfProcess(int64_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  const std::optional<std::string> name = AllOf(folder + "/comm");
  const std::optional<std::string> line = AllOf(folder + "/cmdline");
  if (pid <= 0 || !name || !line) return std::nullopt;
  ProcessFacts facts{name->substr(0, name->find('\n')), {}};
  std::istringstream words(*line);
  for (std::string word; std::getline(words, word, '\0');) facts.words.push_back(word);
  return facts;
}

std::string HostName() {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') return "-";
  return host.data();
}

}  // namespace nxdkit
