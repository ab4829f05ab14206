#include "trainer/template/print.h"

#include <algorithm>
#include <cmath>

#include "lib/base/errors.h"
#include "lib/json/json.h"
#include "trainer/template/python_text.h"

namespace nxdkit::trainer::jinja {
namespace {

constexpr int kMaxPrintDepth = 100;

std::string FloatText(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  return PythonFloat(value);
}

class Printer {
 public:
  // `json` nullptr: as str() prints it.
  Printer(const JsonStyle* json, Budget& budget) : json_(json), budget_(budget) {
    if (json == nullptr) return;
    if (json->indent) items_ = ",";
    if (!json->item_separator.empty()) items_ = json->item_separator;
    if (!json->key_separator.empty()) keys_ = json->key_separator;
  }

  Status Append(const Value& value, int depth) {
    if (value.text() != nullptr && depth > 0 && value.is_markup() && !json_) {
      out_ += "Markup(";
      NXDKIT_TRY(AppendText(*value.text(), true));
      out_ += ')';
      return OkStatus();
    }
    if (value.text() != nullptr) return AppendText(*value.text(), depth > 0);
    NXDKIT_TRY(budget_.Charge());
    if (depth > kMaxPrintDepth)
      return OverLimit("a value is nested deeper than {} levels", kMaxPrintDepth);
    if (value.list() != nullptr) return AppendList(value, depth);
    if (value.dict() != nullptr) return AppendDict(*value.dict(), depth);
    if (value.is_none())
      out_ += json_ ? "null" : "None";
    else if (value.boolean() != nullptr)
      out_ += *value.boolean() ? (json_ ? "true" : "True") : (json_ ? "false" : "False");
    else if (value.integer())
      out_ += std::to_string(*value.integer());
    else if (value.is_float())
      out_ += json_ ? PythonFloat(*value.number()) : FloatText(*value.number());
    else if (json_)
      return Corrupt("{} is not JSON", TypeName(value));
    else if (value.undefined() == nullptr)
      return Unsupported("{} as text", TypeName(value));
    else if (depth > 0)
      out_ += "Undefined";
    return OkStatus();
  }

  std::string Take() { return std::move(out_); }

 private:
  Status AppendText(const std::string& text, bool quoted) {
    NXDKIT_TRY(budget_.Charge(text.size() * (quoted || json_ ? 4 : 1)));
    if (json_)
      out_ += Json(text).dump(-1, ' ', json_->ensure_ascii, Json::error_handler_t::replace);
    else if (quoted)
      AppendPythonRepr(text, &out_);
    else
      out_ += text;
    return OkStatus();
  }

  Status NewLine(int depth) {
    if (!json_ || !json_->indent) return OkStatus();
    const auto spaces = static_cast<size_t>(std::clamp<int64_t>(*json_->indent, 0, 100) * depth);
    NXDKIT_TRY(budget_.Charge(spaces));
    out_.append("\n").append(spaces, ' ');
    return OkStatus();
  }

  template <typename Items, typename Write>
  Status AppendItems(char open, const Items& items, std::string_view close, int depth,
                     const Write& write) {
    out_ += open;
    bool first = true;
    for (const auto& item : items) {
      if (!std::exchange(first, false)) out_ += items_;
      NXDKIT_TRY(NewLine(depth + 1));
      NXDKIT_TRY(write(item));
    }
    if (!first) NXDKIT_TRY(NewLine(depth));
    out_ += close;
    return OkStatus();
  }

  Status AppendList(const Value& list, int depth) {
    const bool is_tuple = list.form() == Form::kTuple;
    if (!is_tuple && list.form() != Form::kPlain) return Unsupported("{} as text", TypeName(list));
    const bool rounds = is_tuple && !json_;
    const std::string_view close = !rounds ? "]" : list.list()->size() == 1 ? ",)" : ")";
    return AppendItems(rounds ? '(' : '[', *list.list(), close, depth,
                       [&](const Value& item) { return Append(item, depth + 1); });
  }

  // JSON's keys are text; Python's json.dumps() converts numbers, bools and None.
  Status AppendKey(const Key& key, int depth) {
    if (key.other == nullptr) return AppendText(key.text, true);
    if (!json_) return Append(*key.other, depth);
    if (key.other->is_float()) return Unsupported("a float for a key of JSON");
    out_ += '"';
    NXDKIT_TRY(Append(*key.other, depth));
    out_ += '"';
    return OkStatus();
  }

  Status AppendDict(const Dict& dict, int depth) {
    std::vector<const Dict::value_type*> rows;
    for (const auto& row : dict) {
      rows.push_back(&row);
      if (json_ && json_->sort_keys && row.first.other != nullptr)
        return Unsupported("sorted keys that are not texts");
    }
    if (json_ && json_->sort_keys)
      std::ranges::stable_sort(rows,
                               [](auto* a, auto* b) { return a->first.text < b->first.text; });
    return AppendItems('{', rows, "}", depth, [&](const auto* row) -> Status {
      NXDKIT_TRY(AppendKey(row->first, depth + 1));
      out_ += keys_;
      return Append(row->second, depth + 1);
    });
  }

  const JsonStyle* json_;
  Budget& budget_;
  std::string items_ = ", ";
  std::string keys_ = ": ";
  std::string out_;
};

Result<std::string> Print(const Value& value, const JsonStyle* json, Budget& budget) {
  Printer printer(json, budget);
  NXDKIT_TRY(printer.Append(value, 0));
  return printer.Take();
}

}  // namespace

Result<std::string> ToText(const Value& value, Budget& budget) {
  return Print(value, nullptr, budget);
}

Result<std::string> ToJson(const Value& value, const JsonStyle& style, Budget& budget) {
  return Print(value, &style, budget);
}

}  // namespace nxdkit::trainer::jinja
