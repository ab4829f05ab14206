// A bill as text and as JSON. PRIVATE: it pulls in nlohmann/json.hpp; include it from .cc files
// only.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "lib/json/json.h"
#include "trainer/report/bill.h"

namespace nxdkit::trainer {

// "8.2 M tokens in 5 h 20 min, cost 229.33", with the known parts; "" if nothing is known.
std::string AmountText(const std::optional<double>& tokens, const std::optional<double>& seconds,
                       const std::optional<double>& cost);

// Lines about the rest of the run, with line feeds: the plan in steps and the most tokens; the
// rate, and the tokens, hours and money left at that rate.
std::string BillLeftText(const Bill& bill);
// "13.7 M tokens in 9 h 3 min, cost 389.15 at 21.5 an hour x 2 nodes, of 2 attempts": so far; ""
// when nothing is known.
std::string BillAmountText(const Bill& bill);
// "so far: 13.7 M tokens in 9 h 3 min, cost 389.15 at 21.5 an hour x 2 nodes, of 2 attempts\n"; ""
// when nothing is known.
std::string BillSoFarText(const Bill& bill);

// The same as rows of a table: name and amount. No row for what is left once no step is.
std::vector<std::pair<std::string, std::string>> BillRows(const Bill& bill);

// The figures, null if unknown; hours as fractional numbers.
Json BillJson(const Bill& bill);

}  // namespace nxdkit::trainer
