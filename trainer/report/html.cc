#include "trainer/report/html.h"

#include "lib/page/html.h"
#include "lib/page/page.h"
#include "trainer/report/page_charts.h"
#include "trainer/report/page_config.h"
#include "trainer/report/page_facts.h"
#include "trainer/report/page_numbers.h"
#include "trainer/report/page_runs.h"
#include "trainer/report/page_samples.h"

namespace nxdkit::trainer {

std::string HtmlReport(const std::vector<ReportedRun>& reported) {
  const PageRuns runs = PageRunsOf(reported);
  page::Page report(TitleOf(runs));
  report.Add(ProblemList(runs));
  report.Add(FactTable(runs));
  report.Add(CardSection(runs));
  report.Add(DifferentConfig(runs));
  report.Add(CostTable(runs));
  report.Add(ChartSection(runs));
  report.Heading("Numbers");
  report.Add(ConstantTable(runs));
  for (const PageRun& run : runs) {
    report.Add(SyncTable(run));
    report.Add(MetricTable(run));
  }
  report.Add(EqualConfig(runs));
  report.Add(SampleSection(runs));
  return report.Text();
}

}  // namespace nxdkit::trainer
