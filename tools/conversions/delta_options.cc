#include "tools/conversions/delta_options.h"

#include <utility>

namespace nxdkit::tool {
namespace {

Status ExpandDeltaFrom(DeltaArgs& args, Ends& ends) {
  if (args.base) return Error(Errc::kUsage, "--delta-from names the base already: drop --base");
  if (!ends.to.empty() && ends.to != "delta")
    return Error(Errc::kUsage, "--delta-from writes a delta: drop --to, or say --to delta");
  ends.to = "delta";
  args.base = args.delta_from;
  return OkStatus();
}

Status ExpandApply(bool into, DeltaArgs& args, Ends& ends) {
  if (args.base) return Error(Errc::kUsage, "--apply changes INPUT: drop --base");
  if (!ends.from.empty())
    return Error(Errc::kUsage, "--apply recognises the format of what it changes: drop --from");
  ends.from = "delta";
  const std::string changed = std::exchange(ends.input, *args.apply);
  if (!into) {
    args.base = changed;
    return OkStatus();
  }
  if (!ends.output.empty())
    return Error(Errc::kUsage, "--apply with --into changes one bundle, and two paths are given");
  ends.output = changed;
  if (ends.to.empty()) ends.to = "rollout";
  return OkStatus();
}

}  // namespace

void AddDeltaOptions(OptionTable& table, DeltaArgs& args) {
  table.Group("Deltas");
  table
      .Text("base", "BASE", &args.base,
            "with --to delta, what INPUT is compared with; with --from delta, what is changed")
      .completes(Completes::kPath);
  table
      .Choice("coding", {"raw", "ulp"}, &args.coding,
              "with --to delta: store new values, or by how many representable values each moved")
      .default_text("raw");
  table.Text("delta-from", "PREV", &args.delta_from, "short for --to delta --base PREV")
      .completes(Completes::kPath);
  table
      .Text("apply", "DELTA", &args.apply,
            "apply DELTA to INPUT, in any format; with --into to the bundle, the only path then")
      .completes(Completes::kPath);
}

Status ExpandDelta(bool into, DeltaArgs& args, Ends& ends) {
  if (args.delta_from && args.apply)
    return Error(Errc::kUsage, "--delta-from makes a delta, --apply uses one: give one of them");
  if (args.delta_from) return ExpandDeltaFrom(args, ends);
  if (args.apply) return ExpandApply(into, args, ends);
  return OkStatus();
}

Status TakeDelta(const DeltaArgs& args, bool dtype_given, ops::ConvertRequest& request) {
  const bool to_delta = request.to == ops::Kind::kDelta;
  if (args.base && !to_delta && request.from != ops::Kind::kDelta)
    return Error(Errc::kUsage, "--base goes with --from delta and --to delta");
  if (args.coding && !to_delta) return Error(Errc::kUsage, "--coding goes with --to delta");
  if (to_delta && dtype_given)
    return Error(Errc::kUsage, "a delta has the dtypes of its base: --dtype does not apply");
  request.hints.base = args.base.value_or("");
  if (args.coding == "ulp") request.coding = delta::Coding::kUlp;
  return OkStatus();
}

}  // namespace nxdkit::tool
