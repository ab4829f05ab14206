// Any bytes as the files of a run: a page without a script, whatever the files contain.
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/fuzz/fuzzing.h"
#include "trainer/report/html.h"

namespace {

size_t Count(const std::string& text, char c) {
  size_t count = 0;
  for (const char each : text) count += each == c ? 1 : 0;
  return count;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace nxdkit;
  using namespace nxdkit::trainer;
  const std::string_view text = TextOf(data, size);
  RunFiles run;
  run.folder = "run";
  run.metrics = ParseMetrics(text);
  run.generations = ParseGenerations(text).records;
  for (const auto& [name, points] : run.metrics.by_name)
    for (size_t i = 1; i < points.size(); ++i)
      Require(points[i - 1].step < points[i].step, "order of " + name);
  run.config.emplace_back("key", std::string(text.substr(0, 100)));
  run.clock = ParseRunningLog(text);
  const ReportedRun reported{run, BillOf(run, 21.5)};
  // The first of two runs has all, the second one less.
  ReportedRun less = reported;
  less.files.generations.resize(less.files.generations.size() / 2);
  if (size % 2 == 1) less.files.metrics = ParseMetrics(text.substr(0, text.size() / 2));
  const std::string page =
      HtmlReport(size % 3 == 0 ? std::vector{reported} : std::vector{reported, std::move(less)});
  Require(page.find("<script") == page.npos, "a script");
  const std::string body = page.substr(page.find("</style>"));  // a style may have brackets
  Require(Count(body, '<') == Count(body, '>'), "brackets");
  return 0;
}
