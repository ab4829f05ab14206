#include "formats/nxd/check_optimizer.h"

#include <fmt/core.h>

#include "formats/torch/pickle_writer.h"
#include "lib/base/errors.h"

namespace nxdkit::nxd {
namespace {

struct KeyText {
  std::string key;
  std::string text;  // equal for equal values
  bool operator==(const KeyText&) const = default;
};
using GroupText = std::vector<KeyText>;

Result<GroupText> TextOf(const torch::PickleDict& group) {
  GroupText texts;
  for (const auto& [key, value] : group) {
    if (!key.string()) return Unsupported("a key of the group is not a string");
    if (*key.string() == "params") {
      texts.push_back({*key.string(), ""});
      continue;
    }
    Result<std::string> text = torch::WritePickle(value, {});
    if (!text.ok())
      return Unsupported("the value of {} cannot be carried over: {}", *key.string(),
                         text.error().message());
    texts.push_back({*key.string(), *std::move(text)});
  }
  return texts;
}

Status Same(const GroupText& first, const GroupText& here, const std::string& first_path) {
  for (size_t i = 0; i < here.size() && i < first.size(); ++i)
    if (here[i] != first[i]) return Corrupt("{} is not what {} has", here[i].key, first_path);
  if (here.size() == first.size()) return OkStatus();
  return Corrupt("the group has {} keys, in {} it has {}", here.size(), first_path, first.size());
}

// The error for lost rows, which identifies the faulty writer by what it leaves. Seen in NxD 0.18.0
// and NxDT 1.6.0.
Error RowsMissing(const OptimizerSet& set, const std::string& entry, int64_t rows, int64_t whole,
                  bool others_are_whole) {
  const int dp = set.location.dp;
  const std::string found =
      fmt::format("{} has {} rows on each of {} data parallel ranks, the parameter has {}", entry,
                  rows, dp, whole);
  if (entry == kMasterWeights && others_are_whole)
    return Corrupt(
               "{}: nxd_convert_zero_checkpoints cut the master weights of rank 0 once more "
               "instead of all ranks' together",
               found)
        .hint("reshard the set that was given to it");
  if (dp == 1)
    return Corrupt(
               "{}: ZeRO-1 state that was saved as if it were the same on every rank (as NxDT "
               "does, whose saver looks for wrap_with_zero), or by context parallel ranks over "
               "each other; the other ranks' rows are lost",
               found)
        .hint("--no-optimizer leaves the optimizer's state out");
  return Corrupt(
             "{}: the context parallel ranks of a data parallel rank wrote their different rows to "
             "one file, and the last one is left",
             found)
      .hint("--no-optimizer leaves the optimizer's state out");
}

}  // namespace

Status CheckGroups(const OptimizerSet& set) {
  const OptimizerShard& first = set.shards.front();
  std::vector<GroupText> expected;
  for (const OptimizerShard& shard : set.shards) {
    if (shard.groups.size() != first.groups.size())
      return Corrupt("{} groups, {} in {}", shard.groups.size(), first.groups.size(),
                     first.file.path)
          .in(shard.file.path)
          .member("param_groups");
    for (size_t g = 0; g < shard.groups.size(); ++g) {
      const std::string member = fmt::format("param_groups[{}]", g);
      NXDKIT_ASSIGN(const GroupText texts,
                    TextOf(shard.groups[g]).in(shard.file.path).member(member));
      if (&shard == &first) expected.push_back(texts);
      NXDKIT_TRY(Same(expected[g], texts, first.file.path).in(shard.file.path).member(member));
    }
  }
  return OkStatus();
}

Status CheckRows(const OptimizerSet& set, const TensorLayout& param, const ParamState& state) {
  const int64_t whole = param.shape[0];
  const int64_t expected =
      set.style == OptimizerStyle::kZero1 ? ZeroRows(whole, set.location.dp) : whole;
  const auto check = [&](const std::string& name, const StoredTensor& tensor) -> Status {
    if (tensor.shape.empty() || tensor.shape[0] == expected) return OkStatus();
    if (set.style == OptimizerStyle::kMerged)
      return Corrupt(
                 "{} has {} of the parameter's {} rows: nxd_convert_zero_checkpoints kept those of "
                 "data parallel rank 0 only",
                 name, tensor.shape[0], whole)
          .hint("reshard the set that was given to it");
    if (tensor.shape[0] < expected)
      return RowsMissing(set, name, tensor.shape[0], whole, name == kMasterWeights);
    return Corrupt("{} has {} rows on each of {} data parallel ranks, expected {}", name,
                   tensor.shape[0], set.location.dp, expected);
  };
  if (state.entries)
    for (const StateEntry& entry : *state.entries)
      if (entry.tensor) NXDKIT_TRY(check(entry.name, *entry.tensor));
  if (state.master) NXDKIT_TRY(check(kMasterWeights, *state.master));
  return OkStatus();
}

}  // namespace nxdkit::nxd
