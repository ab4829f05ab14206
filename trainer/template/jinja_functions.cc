// The functions that every template has.
#include <fmt/core.h>

#include <algorithm>
#include <ctime>
#include <span>

#include "trainer/template/jinja_renderer.h"

namespace nxdkit::trainer::jinja {
namespace {

constexpr int64_t kMaxRange = 100'000;  // as the sandbox of jinja2 has it
constexpr size_t kMaxFormatBytes = 200;

Status OnlyNamed(const Arguments& arguments) {
  if (arguments.values.empty()) return OkStatus();
  return Error(Errc::kUnsupported, "arguments without names");
}

Status CheckMacroArguments(const Stmt& macro, const Arguments& arguments) {
  const std::span<const std::string> parameters = std::span(macro.names).subspan(1);
  if (arguments.values.size() > parameters.size())
    return Error(Errc::kCorrupt,
                 fmt::format("{} arguments for the {} parameters of '{}'", arguments.values.size(),
                             parameters.size(), macro.names[0]));
  for (const auto& [name, value] : arguments.named)
    if (std::ranges::find(parameters, name) == parameters.end())
      return Error(Errc::kCorrupt,
                   fmt::format("the macro '{}' has no parameter '{}'", macro.names[0], name));
  return OkStatus();
}

}  // namespace

Result<Value> Renderer::CallFunction(const Function& function, const Arguments& arguments) {
  NXDKIT_TRY(budget_.Charge());
  if (function.macro != nullptr) {
    NXDKIT_TRY(CheckMacroArguments(*function.macro, arguments));
    return CallMacro(*function.macro, arguments);
  }
  if (function.name == "namespace") return MakeNamespace(arguments);
  if (function.name == "range") return MakeRange(arguments);
  if (function.name == "strftime_now") return FormatNow(arguments);
  if (function.name == "dict") {
    NXDKIT_TRY(OnlyNamed(arguments));
    return Value(arguments.named);
  }
  NXDKIT_TRY(arguments.Allow(1, {"message"}));
  const Value* message = arguments.Get(0, "message");
  NXDKIT_ASSIGN(const std::string text,
                message == nullptr ? std::string() : ToText(*message, budget_));
  return Error(Errc::kCorrupt, fmt::format("the template says: {}", text));
}

Result<Value> Renderer::MakeNamespace(const Arguments& arguments) {
  NXDKIT_TRY(OnlyNamed(arguments));
  for (const auto& [name, value] : arguments.named)
    if (name.starts_with('_'))
      return Error(Errc::kUnsupported, fmt::format("the attribute '{}'", name));
  return Value(&namespaces_.emplace_back(Namespace{arguments.named}));
}

Result<Value> Renderer::MakeRange(const Arguments& arguments) {
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
    NXDKIT_TRY(budget_.Charge());
    if (static_cast<int64_t>(list.size()) == kMaxRange)
      return Error(Errc::kLimit, fmt::format("range of more than {} numbers", kMaxRange));
    list.push_back(static_cast<int64_t>(i));
  }
  return Value(std::move(list));
}

Result<Value> Renderer::FormatNow(const Arguments& arguments) const {
  NXDKIT_TRY(arguments.Allow(1, {"format"}));
  NXDKIT_ASSIGN(const auto format, arguments.Text(0, "format"));
  if (!format || format->empty() || format->size() > kMaxFormatBytes)
    return Error(Errc::kCorrupt,
                 fmt::format("strftime_now() needs a format of 1 to {} bytes", kMaxFormatBytes));
  const auto seconds = static_cast<std::time_t>(*now_);
  std::tm parts{};
  if (::gmtime_r(&seconds, &parts) == nullptr)
    return Error(Errc::kCorrupt, fmt::format("{} is no time", *now_));
  char text[4096];
  return Value(std::string(text, std::strftime(text, sizeof text, format->c_str(), &parts)));
}

}  // namespace nxdkit::trainer::jinja
