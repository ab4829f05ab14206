#include "trainer/template/functions.h"

#include <fmt/core.h>

#include <ctime>

#include "trainer/template/print.h"

namespace nxdkit::trainer::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // as the sandbox of jinja2 has it
constexpr size_t kMaxFormatBytes = 200;

}  // namespace

Result<Value> MakeRange(const Arguments& arguments, Budget& budget) {
  NXDKIT_TRY(arguments.Allow(3));
  std::vector<int64_t> numbers;
  for (const Value& value : arguments.values) {
    if (!value.integer()) return Error(Errc::kCorrupt, fmt::format("range of {}", TypeName(value)));
    numbers.push_back(*value.integer());
  }
  if (numbers.empty()) return Error(Errc::kCorrupt, "range() needs an argument");
  const int64_t begin = numbers.size() == 1 ? 0 : numbers[0];
  const int64_t end = numbers.size() == 1 ? numbers[0] : numbers[1];
  const int64_t step = numbers.size() == 3 ? numbers[2] : 1;
  if (step == 0) return Error(Errc::kCorrupt, "range() by steps of 0");
  List list;
  for (__int128 i = begin; step > 0 ? i < end : i > end; i += step) {
    NXDKIT_TRY(budget.Charge());
    if (static_cast<int64_t>(list.size()) == kMaxRange)
      return Error(Errc::kLimit, fmt::format("range of more than {} numbers", kMaxRange));
    list.push_back(static_cast<int64_t>(i));
  }
  return Value(std::move(list));
}

Result<Value> FormatTime(const Arguments& arguments, int64_t now) {
  constexpr std::string_view kNames[] = {"format"};
  NXDKIT_TRY(arguments.Allow(1, kNames));
  NXDKIT_ASSIGN(const auto format, arguments.Text(0, "format"));
  if (!format || format->empty() || format->size() > kMaxFormatBytes)
    return Error(Errc::kCorrupt,
                 fmt::format("strftime_now() needs a format of 1 to {} bytes", kMaxFormatBytes));
  const auto seconds = static_cast<std::time_t>(now);
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr)
    return Error(Errc::kCorrupt, fmt::format("{} is not a time", now));
  char text[4096];
  return Value(std::string(text, std::strftime(text, sizeof text, format->c_str(), &parts)));
}

Error RaisedError(const Arguments& arguments, Budget& budget) {
  constexpr std::string_view kNames[] = {"message"};
  if (Status status = arguments.Allow(1, kNames); !status.ok()) return std::move(status).error();
  const Value* message = arguments.Get(0, "message");
  const Result<std::string> text =
      message == nullptr ? Result<std::string>("") : ToText(*message, budget);
  if (!text.ok()) return text.error();
  return Error(Errc::kCorrupt, fmt::format("the template says: {}", *text));
}

}  // namespace nxdkit::trainer::jinja
