// Round numbers along an axis.
#pragma once

#include <string>
#include <vector>

namespace nxdkit::page {

struct Tick {
  double value = 0;
  std::string text;  // the value, exactly
};

// The multiples of 1, 2, 2.5 or 5 x 10^n from low to high, ascending: the largest of these that
// gives three or more, so five at most. Two where the range holds no third number; one where both
// ends are the same. `whole`: whole numbers only, at most seven; there may be none.
std::vector<Tick> TicksIn(double low, double high, bool whole = false);

struct Axis {
  double low = 0;
  double high = 0;  // >= low
  std::vector<Tick> ticks;

  double Share(double value) const;  // 0 at low, 1 at high
};

// An axis for values from low to high, finite: with a little room on both sides, though not beyond
// 0, and at least two ticks.
Axis ValueAxis(double low, double high);
// An axis for steps, without room; its ticks are whole.
Axis StepAxis(double first, double last);

}  // namespace nxdkit::page
