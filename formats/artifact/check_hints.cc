#include "formats/artifact/check_hints.h"

#include "lib/base/errors.h"
#include "lib/base/text.h"

namespace nxdkit::ops {
namespace {

// What a thing may be, for its hints.
struct Takes {
  bool nxd = false;  // tag and layout
  bool tp = false;
  bool hf = false;  // one of several sets of weights
  std::string_view what;
};

Status CheckTaken(const Takes& takes, const std::string& path, const InputHints& hints) {
  if (hints.tag && !takes.nxd)
    return BadUsage("tag {} is asked for, and this is {}: only NxD roots have tags",
                    EscapeControl(*hints.tag), takes.what)
        .in(path);
  if (!hints.hf_weights.empty() && !takes.hf)
    return BadUsage("{} chooses weights of a Hugging Face folder, and this is {}",
                    hints.hf_weights_option, takes.what)
        .in(path);
  const nxd::Claims& claims = hints.claims;
  const bool of_nxd = claims.pp || claims.vpp || claims.ep || claims.kv_multiplier || claims.qkv ||
                      claims.hardware || claims.names;
  if ((of_nxd && !takes.nxd) || (claims.tp && !takes.tp))
    return BadUsage("{} says how the ranks of an NxD set are laid out, and this is {}",
                    claims.origin, takes.what)
        .in(path);
  return OkStatus();
}

}  // namespace

Status CheckHints(Kind kind, const std::string& path, const InputHints& hints) {
  if (kind == Kind::kDelta) return OkStatus();
  const bool nxd = kind == Kind::kNxd;
  return CheckTaken({nxd, nxd || kind == Kind::kRollout, kind == Kind::kHf, KindName(kind)}, path,
                    hints);
}

Status CheckNoHints(const std::string& path, const InputHints& hints) {
  return CheckTaken({.what = "no model's weights"}, path, hints);
}

}  // namespace nxdkit::ops
