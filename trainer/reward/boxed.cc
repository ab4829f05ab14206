#include "trainer/reward/boxed.h"

#include "trainer/reward/text.h"

namespace nxdkit::trainer {

std::string ExtractBoxed(std::string_view response) {
  constexpr std::string_view kOpen = "\\boxed{";
  const size_t box = response.rfind(kOpen);
  if (box == std::string_view::npos) return "None";
  const std::string_view content = response.substr(box + kOpen.size());
  size_t depth = 0;
  for (size_t i = 0; i < content.size(); ++i) {
    if (content[i] == '{') ++depth;
    if (content[i] != '}') continue;
    if (depth == 0) return std::string(Strip(content.substr(0, i)));
    --depth;
  }
  return "None";
}

}  // namespace nxdkit::trainer
