#include "formats/kinds/nxd/nxd_options.h"

namespace nxdkit::kinds {
namespace {

// optimum-neuron's checkpoints have Hugging Face's names.
std::optional<nxd::NameStyle> NamesFrom(const std::optional<std::string>& style) {
  if (!style) return std::nullopt;
  return *style == "optimum" ? nxd::NameStyle::kHf : nxd::NameStyleFromName(*style);
}

}  // namespace

// The words were checked when they were taken from the user.
std::optional<nxd::QkvStyle> QkvFromName(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  for (const nxd::QkvStyle style : {nxd::QkvStyle::kSeparate, nxd::QkvStyle::kLinear,
                                    nxd::QkvStyle::kFused, nxd::QkvStyle::kCoalesced})
    if (*name == nxd::QkvStyleName(style)) return style;
  return std::nullopt;
}

nxd::LayoutOptions LayoutOf(const Arguments& arguments) {
  return {arguments.Number("tp"),
          arguments.Number("pp"),
          arguments.Number("vpp"),
          arguments.Number("ep"),
          arguments.Number("kv-multiplier"),
          QkvFromName(arguments.Text("qkv")),
          HardwareFromName(arguments.Text("hw")),
          NamesFrom(arguments.Text("style"))};
}

nxd::Claims ClaimsOf(const InputHints& hints) { return {LayoutOf(hints), hints.origin}; }

std::optional<models::Hardware> HardwareIfUnknown(const Arguments& arguments) {
  return HardwareFromName(arguments.Text("hw-if-unknown"));
}

std::optional<models::Hardware> HardwareFromName(const std::optional<std::string>& name) {
  if (!name) return std::nullopt;
  return *name == "trn2" ? models::Hardware::kTrn2 : models::Hardware::kTrn1;
}

void AssumeHardware(InputHints& hints) {
  if (!hints.Has("hw-if-unknown")) hints.Set("hw-if-unknown", "trn1");
}

std::optional<nxd::GroupRule> ParamOrderOf(const Arguments& arguments) {
  const std::optional<std::string> rule = arguments.Text("param-order");
  return rule ? nxd::GroupRuleFromName(*rule) : std::nullopt;
}

}  // namespace nxdkit::kinds
