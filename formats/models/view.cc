#include "formats/models/view.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <string>
#include <unordered_map>
#include <unordered_set>

#include "formats/models/expand.h"
#include "formats/models/rank_tensors.h"
#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::models {
namespace {

// "a.b.weight": the part before the last dot, and the rest with it.
std::pair<std::string_view, std::string_view> SplitLast(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos) return {name, ""};
  return {name.substr(0, dot), name.substr(dot)};
}

// Adds the contents of `part` to `tensor`, with its origin at `at`; a part of lower rank is a slice
// of the first dimensions.
void Place(TensorLayout& tensor, const TensorLayout& part, const Shape& at) {
  const size_t more = tensor.shape.size() - part.shape.size();
  for (Piece piece : part.pieces) {
    piece.stored_lo.insert(piece.stored_lo.begin(), more, 0);
    for (size_t d = 0; d < at.size(); ++d) piece.stored_lo[d] += at[d];
    for (uint8_t& axis : piece.axes) axis = static_cast<uint8_t>(axis + more);
    tensor.pieces.push_back(std::move(piece));
  }
  for (Fill fill : part.fills) {
    fill.stored.lo.insert(fill.stored.lo.begin(), more, 0);
    fill.stored.extent.insert(fill.stored.extent.begin(), more, 1);
    for (size_t d = 0; d < at.size(); ++d) fill.stored.lo[d] += at[d];
    tensor.fills.push_back(std::move(fill));
  }
}

// In every head of `rows` rows, puts the even ones first, then the odd ones.
void Rope(TensorLayout& tensor, int64_t rows) {
  std::vector<Piece> pieces = std::move(tensor.pieces);
  tensor.pieces.clear();
  for (const Piece& piece : pieces)
    for (int64_t row = 0; row < piece.logical.extent[0]; ++row) {
      Piece one = piece;
      one.logical.lo[0] += row;
      one.logical.extent[0] = 1;
      const int64_t at = piece.stored_lo[0] + row;
      const int64_t in_head = at % rows;
      one.stored_lo[0] = at - in_head + in_head % 2 * (rows / 2) + in_head / 2;
      tensor.pieces.push_back(std::move(one));
    }
}

constexpr size_t kMaxRenamed = 1024;
constexpr int64_t kMaxTurned = 1 << 20;  // rows that become pieces of their own

std::string Renamed(std::string name, const ViewLine& line) {
  const std::string& to = line.of.front();
  if (line.name.starts_with('^')) {
    const std::string_view head = std::string_view(line.name).substr(1);
    if (name.starts_with(head)) name.replace(0, head.size(), to);
    return name;
  }
  // Stops a text that makes names grow.
  for (size_t at = name.find(line.name); at != std::string::npos && name.size() <= kMaxRenamed;
       at = name.find(line.name, at + to.size()))
    name.replace(at, line.name.size(), to);
  return name;
}

std::string Renamed(std::string name, const View& view) {
  for (const ViewLine& line : view.lines)
    if (line.kind == ViewLine::Kind::kRename) name = Renamed(std::move(name), line);
  return name;
}

class Viewer {
 public:
  Viewer(const Model& model, const View& view, std::vector<std::optional<TensorLayout>> parts,
         int64_t rank)
      : model_(model),
        view_(view),
        run_(*model.config.family->table, model.config.text->json),
        parts_(std::move(parts)),
        rank_(rank),
        taken_(parts_.size()) {
    names_.reserve(model.params.size());
    for (uint32_t i = 0; i < model.params.size(); ++i) names_.emplace(model.params[i].name, i);
  }

  // `aliases`: tensors that are renamed with the others, and come last.
  Result<std::vector<TensorLayout>> Make(std::vector<TensorLayout> aliases = {}) {
    using Kind = ViewLine::Kind;
    // A projection of an expert is not part of a stack, and is reordered before it is joined.
    for (const auto& [kind, method] : {std::pair{Kind::kRope, &Viewer::Turn},
                                       {Kind::kExperts, &Viewer::Experts},
                                       {Kind::kGroups, &Viewer::Stack},
                                       {Kind::kStack, &Viewer::Stack},
                                       {Kind::kPut, &Viewer::Put}})
      for (const ViewLine& line : view_.lines)
        if (line.kind == kind) NXDKIT_TRY((this->*method)(line));
    for (uint32_t i = 0; i < parts_.size(); ++i) {
      if (taken_[i] || !parts_[i]) continue;
      if (view_.strict)
        return Unsupported("the view {} of {} models has no such parameter", view_.name,
                           model_.config.family->model_type)
            .on(model_.params[i].name);
      out_.emplace_back(i, *std::move(parts_[i]));
    }
    std::ranges::stable_sort(out_, {}, &std::pair<uint32_t, TensorLayout>::first);
    for (TensorLayout& alias : aliases) {
      alias.name = PutName(std::move(alias.name));
      out_.emplace_back(static_cast<uint32_t>(parts_.size()), std::move(alias));
    }
    std::vector<TensorLayout> tensors;
    std::unordered_set<std::string> seen;
    for (auto& [first, tensor] : out_) {
      tensor.name = Renamed(std::move(tensor.name), view_);
      if (!seen.insert(tensor.name).second)
        return Corrupt("the view {} gives this tensor twice", view_.name).on(tensor.name);
      tensors.push_back(std::move(tensor));
    }
    return tensors;
  }

 private:
  std::optional<uint32_t> Find(const std::string& name) const {
    const auto it = names_.find(name);
    return it == names_.end() ? std::nullopt : std::optional(it->second);
  }

  // The indices of all `of` with this head and tail; empty if one is missing or taken.
  std::vector<uint32_t> Siblings(const ViewLine& line, std::string_view head,
                                 std::string_view tail) const {
    std::vector<uint32_t> all;
    for (const std::string& of : line.of) {
      const auto i = Find(fmt::format("{}{}{}", head, of, tail));
      if (!i || taken_[*i] || !parts_[*i]) return {};
      all.push_back(*i);
    }
    return all;
  }

  Status Stack(const ViewLine& line) {
    const std::string& lead = line.of.front();
    for (uint32_t i = 0; i < parts_.size(); ++i) {
      if (taken_[i] || !parts_[i]) continue;
      const auto [base, tail] = SplitLast(model_.params[i].name);
      if (!base.ends_with(lead)) continue;
      const std::string_view head = base.substr(0, base.size() - lead.size());
      if (!head.empty() && !head.ends_with('.')) continue;
      const std::vector<uint32_t> all = Siblings(line, head, tail);
      if (all.empty()) continue;
      TensorLayout tensor = EmptyTensor(fmt::format("{}{}{}", head, line.name, tail), {});
      NXDKIT_TRY(Join(tensor, all));
      if (line.kind == ViewLine::Kind::kGroups) NXDKIT_TRY(Regroup(tensor, all, line));
      out_.emplace_back(i, std::move(tensor));
    }
    return OkStatus();
  }

  // Joins them in order along the first dimension.
  Status Join(TensorLayout& tensor, const std::vector<uint32_t>& all) {
    tensor.shape = parts_[all.front()]->shape;
    tensor.shape[0] = 0;
    for (const uint32_t i : all) {
      const TensorLayout& part = *parts_[i];
      if (part.shape.size() != tensor.shape.size() ||
          !std::equal(part.shape.begin() + 1, part.shape.end(), tensor.shape.begin() + 1))
        return Corrupt("the view {} joins tensors of different widths", view_.name)
            .on(model_.params[i].name);
      Place(tensor, part, {tensor.shape[0]});
      tensor.shape[0] += part.shape[0];
      taken_[i] = true;
    }
    return OkStatus();
  }

  // Joins rows group by group: each group has its part of every tensor.
  Status Regroup(TensorLayout& tensor, const std::vector<uint32_t>& all, const ViewLine& line) {
    NXDKIT_ASSIGN(const int64_t all_groups, run_.Number(line.count));
    // The groups of this rank.
    const Param& last = model_.params[all.back()];
    const int64_t groups = all_groups * parts_[all.back()]->shape[0] / last.shape[0];
    const TensorLayout joined = std::move(tensor);
    tensor = EmptyTensor(joined.name, joined.shape);
    const std::string& name = model_.params[all.front()].name;
    if (groups < 1 || groups > joined.shape[0] || joined.shape[0] % groups != 0)
      return Corrupt("{} rows are not {} groups", joined.shape[0], groups).on(name);
    const int64_t in_group = joined.shape[0] / groups;
    int64_t first = 0, at = 0;
    for (const uint32_t i : all) {
      const int64_t rows = parts_[i]->shape[0];
      if (rows % groups != 0)
        return Corrupt("{} rows are not {} groups", rows, groups).on(model_.params[i].name);
      for (int64_t g = 0; g < groups; ++g) {
        const int64_t each = rows / groups;
        Place(tensor, CutRows(joined, first + g * each, each), {g * in_group + at});
      }
      first += rows;
      at += rows / groups;
    }
    return OkStatus();
  }

  Status Experts(const ViewLine& line) {
    std::vector<std::pair<std::string, std::string>> patterns;
    for (const std::string& of : line.of) {
      const size_t at = of.find("{e}");
      patterns.emplace_back(of.substr(0, at), of.substr(at + 3));
    }
    std::map<std::string, std::map<int, std::vector<uint32_t>>> groups;  // by module and expert
    for (uint32_t i = 0; i < parts_.size(); ++i) {
      const auto expert = ExpertOf(model_.params[i].name, patterns.front());
      if (!expert || taken_[i]) continue;
      std::vector<uint32_t>& all = groups[expert->first][expert->second];
      for (const auto& [head, tail] : patterns) {
        const std::string name = fmt::format("{}{}{}{}", expert->first, head, expert->second, tail);
        const auto found = Find(name);
        if (!found) return Corrupt("the view {} joins it with the others", view_.name).on(name);
        all.push_back(*found);
      }
    }
    for (const auto& [module, experts] : groups) NXDKIT_TRY(StackExperts(line, module, experts));
    return OkStatus();
  }

  // The text before the pattern, and the number in it.
  static std::optional<std::pair<std::string, int>> ExpertOf(
      std::string_view name, const std::pair<std::string, std::string>& pattern) {
    const auto& [head, tail] = pattern;
    if (!name.ends_with(tail)) return std::nullopt;
    name.remove_suffix(tail.size());
    const size_t digits = name.find_last_not_of("0123456789") + 1;
    const auto number = ParseNumber<int>(name.substr(digits));
    if (!number || !name.substr(0, digits).ends_with(head)) return std::nullopt;
    return std::pair(std::string(name.substr(0, digits - head.size())), *number);
  }

  Status StackExperts(const ViewLine& line, const std::string& module,
                      const std::map<int, std::vector<uint32_t>>& experts) {
    TensorLayout tensor = EmptyTensor(module + line.name, {});
    const uint32_t first = experts.begin()->second.front();
    for (const auto& [expert, all] : experts) {
      const bool here = parts_[all.front()].has_value();
      for (const uint32_t i : all)
        if (parts_[i].has_value() != here)
          return Corrupt("the view {} joins a tensor of another rank", view_.name)
              .on(model_.params[i].name);
      TensorLayout one = EmptyTensor("", {});
      if (here) NXDKIT_TRY(Join(one, all));
      for (const uint32_t i : all) taken_[i] = true;
      if (!here) continue;
      if (tensor.shape.empty()) {
        tensor.shape = one.shape;
        tensor.shape.insert(tensor.shape.begin(), 0);
      }
      if (!std::equal(one.shape.begin(), one.shape.end(), tensor.shape.begin() + 1,
                      tensor.shape.end()))
        return Corrupt("the view {} joins experts of several shapes", view_.name)
            .on(model_.params[all.front()].name);
      Place(tensor, one, {tensor.shape[0]});
      ++tensor.shape[0];
    }
    if (!tensor.shape.empty()) out_.emplace_back(first, std::move(tensor));
    return OkStatus();
  }

  Status Put(const ViewLine& line) {
    const std::string& old = line.of.front();
    for (uint32_t i = 0; i < parts_.size(); ++i) {
      const std::string& name = model_.params[i].name;
      if (taken_[i] || !parts_[i] || !name.ends_with(old)) continue;
      TensorLayout tensor = *std::move(parts_[i]);
      taken_[i] = true;
      tensor.name = name.substr(0, name.size() - old.size()) + line.name;
      if (line.op == "swap" && tensor.shape.size() >= 2) {
        TransposeStored(tensor);
      } else if (line.op == "rank0") {
        if (rank_ > 0) {
          tensor.pieces.clear();
          tensor.fills = {{WholeBox(tensor.shape), 0}};
        }
      } else if (line.op != "same") {
        return Unsupported("the view {} computes {} of it: its values cannot be verified",
                           view_.name, line.op)
            .on(name);
      }
      out_.emplace_back(i, std::move(tensor));
    }
    return OkStatus();
  }

  // The name after the first line that moves a parameter of this name.
  std::string PutName(std::string name) const {
    for (const ViewLine& line : view_.lines)
      if (line.kind == ViewLine::Kind::kPut && name.ends_with(line.of.front()))
        return name.replace(name.size() - line.of.front().size(), std::string::npos, line.name);
    return name;
  }

  Status Turn(const ViewLine& line) {
    for (uint32_t i = 0; i < parts_.size(); ++i) {
      const Param& param = model_.params[i];
      if (!parts_[i] || !param.name.ends_with(line.name)) continue;
      NXDKIT_ASSIGN(const int64_t heads, run_.Number(line.count));
      if (heads < 1 || param.shape[0] % heads != 0 || param.shape[0] / heads % 2 != 0)
        return Corrupt("{} rows are not {} heads of pairs", param.shape[0], heads).on(param.name);
      if (parts_[i]->shape[0] % (param.shape[0] / heads) != 0 || param.shape[0] > kMaxTurned)
        return Unsupported("the view {} only turns whole heads, of at most {} rows", view_.name,
                           kMaxTurned)
            .on(param.name);
      Rope(*parts_[i], param.shape[0] / heads);
    }
    return OkStatus();
  }

  const Model& model_;
  const View& view_;
  TableRun run_;
  std::vector<std::optional<TensorLayout>> parts_;
  int64_t rank_;
  std::vector<bool> taken_;
  std::unordered_map<std::string, uint32_t> names_;
  std::vector<std::pair<uint32_t, TensorLayout>> out_;  // with their first parameters
};

Error NoView(const Model& model, std::string_view view) {
  return Unsupported("the text of the family {} has no line \"view {}\"",
                     model.config.family->model_type, view);
}

}  // namespace

bool HasView(const Family& family, std::string_view view) {
  return family.table->FindView(view) != nullptr;
}

std::vector<std::string> Spellings(const Family& family) {
  std::vector<std::string> names;
  for (const View& view : family.table->views)
    if (view.spelling) names.push_back(view.name);
  return names;
}

std::string RenamedBy(const Family& family, std::string_view view, std::string name) {
  const View* found = family.table->FindView(view);
  return found ? Renamed(std::move(name), *found) : name;
}

std::vector<std::string> SplitBy(const Family& family, std::string_view view,
                                 std::string_view name) {
  const View* found = family.table->FindView(view);
  if (!found) return {};
  const auto [base, tail] = SplitLast(name);
  for (const ViewLine& line : found->lines) {
    if (line.kind != ViewLine::Kind::kSplit || !base.ends_with("." + line.name)) continue;
    const std::string_view head = base.substr(0, base.size() - line.name.size());
    std::vector<std::string> names;
    for (const std::string& part : line.of)
      names.push_back(Renamed(fmt::format("{}{}{}", head, part, tail), *found));
    return names;
  }
  return {};
}

Result<std::vector<TensorLayout>> SpelledTensors(const Model& model, std::string_view spelling,
                                                 bool with_aliases) {
  std::vector<TensorLayout> tensors = HfTensors(model, with_aliases);
  if (spelling.empty()) return tensors;
  const View* view = model.config.family->table->FindView(spelling);
  if (!view) return NoView(model, spelling);
  const auto aliases = tensors.begin() + static_cast<std::ptrdiff_t>(model.params.size());
  std::vector<TensorLayout> last(std::make_move_iterator(aliases),
                                 std::make_move_iterator(tensors.end()));
  std::vector<std::optional<TensorLayout>> parts(std::make_move_iterator(tensors.begin()),
                                                 std::make_move_iterator(aliases));
  return Viewer(model, *view, std::move(parts), 0).Make(std::move(last));
}

Result<std::vector<TensorLayout>> ViewTensors(const Model& model, std::string_view view,
                                              std::vector<std::optional<TensorLayout>> parts,
                                              int64_t rank) {
  const View* found = model.config.family->table->FindView(view);
  if (!found) return NoView(model, view);
  return Viewer(model, *found, std::move(parts), rank).Make();
}

}  // namespace nxdkit::models
