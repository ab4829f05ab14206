// The charts of the page: which metrics belong together, and their units.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace nxdkit::trainer {

struct ChartRow {
  std::string_view title;
  std::string_view help;                    // with the unit, if it is not obvious
  std::span<const std::string_view> names;  // metrics; "reward/*": a whole group
  bool band = false;                        // each ".../mean" is shown with its min and max
};
std::span<const ChartRow> ChartRows();

// The unit of a metric, as the code that computes it has it; "" for a plain number.
std::string_view UnitOf(std::string_view name);

}  // namespace nxdkit::trainer
