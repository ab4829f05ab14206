// Random models of all families through files in random layouts: Hugging Face to an NxD set of any
// style, to a rollout bundle, and back. The digest of the model is the same at every step, and so
// are the bytes at the end.
#include <algorithm>
#include <filesystem>

#include "formats/kinds/open.h"
#include "formats/nxd/optimum.h"
#include "formats/ops/convert/convert.h"
#include "formats/ops/digest/digest.h"
#include "formats/ops/sample/make_model.h"
#include "tests/formats/random_case.h"
#include "tests/formats/scratch.h"
#include "tests/formats/words.h"

namespace nxdkit {
namespace {

namespace fs = std::filesystem;
using nxd::SetStyle;
using ops::Kind;
using testing_util::Coin;
using testing_util::RandomCase;
using testing_util::Scratch;

struct Journey {
  RandomCase c;
  bool xser = false;
  bool optimum = false;
  SetStyle style = SetStyle::kV2;  // style given to the written set
  uint64_t max_shard_bytes = 0;    // for the model that comes back
};

void showValue(const Journey& journey, std::ostream& out) {
  testing_util::showValue(journey.c, out);
  out << fmt::format("\nset: {}, xser {}, optimum {}; files of {} bytes",
                     nxd::SetStyleName(journey.style), journey.xser, journey.optimum,
                     journey.max_shard_bytes);
}

// The old styles: no expert parallel ranks in their names, v0 without pipeline ranks.
SetStyle AnyStyle(const nxd::Geometry& geometry, bool xser) {
  std::vector<SetStyle> styles = {xser ? SetStyle::kV2Xser : SetStyle::kV2};
  if (geometry.ep == 1) styles.push_back(xser ? SetStyle::kV1Xser : SetStyle::kV1);
  if (geometry.ep == 1 && geometry.pp == 1 && !xser) styles.push_back(SetStyle::kV0);
  return *rc::gen::elementOf(styles);
}

// Makes it a checkpoint that optimum-neuron's trainer has a module for.
void MakeOptimum(Journey& journey) {
  RandomCase& c = journey.c;
  c.config["model_type"] = Coin() ? "llama" : "qwen3";
  c.config["attention_bias"] = c.config["mlp_bias"] = false;
  c.config["hidden_size"] = c.config["num_attention_heads"].get<int>() * testing_util::Number(1, 2);
  c.nxd.ep = 1;
  c.nxd.names = nxd::NameStyle::kHf;
  c.nxd.hardware = models::Hardware::kTrn1;
  const models::Model model = testing_util::ModelOf(c.config);
  c.nxd.qkv = nxd::OptimumQkv(model.config, c.nxd, Coin());
  if (c.nxd.qkv == nxd::QkvStyle::kSeparate || c.nxd.qkv == nxd::QkvStyle::kCoalesced)
    c.nxd.kv_multiplier = 1;
  journey.optimum = nxd::CheckOptimum(model.config, c.nxd).ok();
}

Journey AnyJourney(bool training_only) {
  Journey journey;
  RandomCase& c = journey.c;
  c = training_only ? testing_util::AnyTrainingCase() : testing_util::AnyCase();
  c.nxd.fused_gate_up = true;  // as our writer does
  if (!training_only && testing_util::Number(0, 4) == 0) MakeOptimum(journey);
  const models::Model model = testing_util::ModelOf(c.config);
  // A model that a bundle's module cannot hold is refused by the command; other tests cover that.
  if (c.rollout.flavor == rollout::Flavor::kOptimum && model.config.qkv_bias)
    c.rollout.fused_qkv = false;
  journey.xser = Coin();
  journey.style = journey.xser ? SetStyle::kV2Xser : SetStyle::kV2;
  if (!journey.optimum) journey.style = AnyStyle(c.nxd, journey.xser);
  journey.max_shard_bytes = static_cast<uint64_t>(testing_util::Number(100, 5000));
  return journey;
}

// Renames the files of a v2 tag to their older names, and makes its folder that of the shards.
std::string Renamed(const std::string& tag, SetStyle style) {
  const std::string out = tag + "-old";
  fs::create_directory(out);
  for (const char* name : {"config.json", "nxdkit.json"}) fs::copy(tag + "/" + name, out);
  for (const auto& entry : fs::directory_iterator(tag + "/model")) {
    const std::string name = entry.path().filename().string();
    const size_t end = name.find(".pt");
    const std::string ranks = name.substr(11, end - 11);  // after "dp_rank_00_"
    const std::string rest = name.substr(end + 3);
    if (style == SetStyle::kV1) {
      fs::create_directory(out + "/" + ranks);
      fs::rename(entry.path(), out + "/" + ranks + "/checkpoint.pt");
    } else if (style == SetStyle::kV0) {
      fs::rename(entry.path(), out + "/" + ranks.substr(0, ranks.find("_pp_rank")));
    } else if (rest != ".info.pt") {
      fs::rename(entry.path(), out + "/" + ranks + rest);
    }
  }
  return out;
}

class Traveller {
 public:
  std::string MakeModel(const RandomCase& c) const {
    ops::MakeModelRequest request;
    request.config = scratch_.Write("config.json", c.config.dump());
    request.output = scratch_.folder() + "/model";
    request.dtype = c.dtype;
    request.seed = 7;
    const auto made = ops::MakeModel(request);
    if (!made.ok()) RC_FAIL(made.error().ToString());
    return request.output;
  }

  std::string Convert(const std::string& input, const Kind* from, const char* name, const Kind* to,
                      const ops::OutputOptions& options) const {
    ops::ConvertRequest request;
    request.from = from;
    request.to = to;
    request.input = input;
    request.output = scratch_.folder() + "/" + name;
    request.options = options;
    request.sync = false;
    const auto report = ops::Convert(request);
    if (!report.ok()) RC_FAIL(report.error().ToString());
    return request.output;
  }

 private:
  const Scratch scratch_;
};

std::string DigestOf(const std::string& path, const Kind* kind) {
  const auto bound = ops::OpenAndBind(path, kind, {});
  if (!bound.ok()) RC_FAIL(bound.error().ToString());
  const auto digest = ops::DigestModel(*bound, {});
  if (!digest.ok()) RC_FAIL(digest.error().ToString());
  return manifest::DigestText(digest->digest);
}

ops::OutputOptions SetOptions(const Journey& journey) {
  const nxd::Geometry& geometry = journey.c.nxd;
  ops::OutputOptions options;
  options.Set("tp", geometry.tp);
  options.Set("pp", geometry.pp);
  options.Set("vpp", geometry.vpp);
  options.Set("ep", geometry.ep);
  options.Set("kv-multiplier", geometry.kv_multiplier);
  options.Set("hw", Word(geometry.hardware));
  options.Set("style", journey.optimum ? "optimum" : Word(geometry.names));
  options.Set("xser", journey.xser);
  return options;
}

ops::OutputOptions BundleOptions(const rollout::Geometry& geometry) {
  ops::OutputOptions options;
  options.Set("tp", geometry.tp);
  options.Set("flavor", Word(geometry.flavor));
  options.Set("fused-qkv", geometry.fused_qkv);
  return options;
}

bool IsOld(SetStyle style) { return style != SetStyle::kV2 && style != SetStyle::kV2Xser; }

void Travel(const Journey& journey) {
  const Traveller traveller;
  const auto family_of = testing_util::ModelOf(journey.c.config).config.family;
  const models::Family& family = *family_of;
  RC_TAG(std::string(family.model_type), std::string(nxd::SetStyleName(journey.style)),
         journey.optimum);
  const std::string model = traveller.MakeModel(journey.c);
  const std::string digest = DigestOf(model, &ops::kHf);

  ops::OutputOptions options = SetOptions(journey);
  const bool own_style = family.splits_qkv && journey.c.nxd.names != nxd::NameStyle::kMegatron;
  if (own_style) options.Set("qkv", Word(journey.c.nxd.qkv));
  std::string set = traveller.Convert(model, &ops::kHf, "set", &ops::kNxd, options);
  RC_ASSERT(DigestOf(set, &ops::kNxd) == digest);
  if (IsOld(journey.style)) {
    set = Renamed(set, journey.style);
    RC_ASSERT(DigestOf(set, &ops::kNxd) == digest);
  }

  std::string last = set;
  const Kind* kind = &ops::kNxd;
  if (family.has_bundles()) {
    last = traveller.Convert(set, &ops::kNxd, "bundle", &ops::kRollout,
                             BundleOptions(journey.c.rollout));
    kind = &ops::kRollout;
    RC_ASSERT(DigestOf(last, kind) == digest);
  }
  ops::OutputOptions shards;
  shards.Set("max-shard-size", std::to_string(journey.max_shard_bytes));
  const std::string back = traveller.Convert(last, kind, "back", &ops::kHf, shards);
  RC_ASSERT(DigestOf(back, &ops::kHf) == digest);
  const auto first = ops::OpenAndBind(model, &ops::kHf, {});
  const auto second = ops::OpenAndBind(back, &ops::kHf, {});
  RC_ASSERT(first.ok() && second.ok());
  const auto findings = ops::CompareArtifacts(*first, *second, {});
  RC_ASSERT(findings.ok());
  RC_ASSERT(findings->empty());
}

RC_GTEST_PROP(RandomJourneys, EndWhereTheyBegan, ()) {
  Travel(*rc::gen::exec([] { return AnyJourney(false); }));
}

RC_GTEST_PROP(RandomJourneys, OfTrainingOnlyEndWhereTheyBegan, ()) {
  Travel(*rc::gen::exec([] { return AnyJourney(true); }));
}

}  // namespace
}  // namespace nxdkit
