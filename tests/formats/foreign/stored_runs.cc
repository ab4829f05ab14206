#include "tests/formats/foreign/stored_runs.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "formats/artifact/canonical.h"
#include "formats/kinds/open.h"
#include "formats/tar/unpack.h"
#include "formats/training/keep_params.h"
#include "formats/training/named_state.h"
#include "lib/hash/digest.h"
#include "tests/formats/memory_sink.h"
#include "tests/formats/scratch.h"

namespace nxdkit::testing_util {
namespace {

using artifact::BoundArtifact;
using Digests = std::map<std::string, TensorDigest>;

std::string DigestText(std::span<const std::byte> bytes) {
  Sha256 digest;
  digest.Update(bytes);
  return HexText(digest.Finish()).substr(0, 24);
}

TensorDigest Expected(const nlohmann::json& tensor, const char* what) {
  const bool weight = std::string_view(what) == "weight";
  return {weight ? tensor["dtype"].get<std::string>() : "float32", tensor["shape"].get<Shape>(),
          tensor[what].get<std::string>()};
}

bool Has(const nlohmann::json& tensor, const char* what) {
  return tensor.contains(what) && tensor[what].is_string();
}

void ExpectSame(const Digests& found, const std::string& name, const TensorDigest& expected) {
  const auto it = found.find(name);
  ASSERT_NE(it, found.end()) << name;
  EXPECT_EQ(it->second.shape, expected.shape) << name;
  EXPECT_EQ(it->second.dtype, expected.dtype) << name;
  EXPECT_EQ(it->second.digest, expected.digest) << name;
}

// The buffers of a model without a table.
void ExpectBuffers(const BoundArtifact& bound, const Digests& found,
                   const nlohmann::json& expected) {
  if (bound.model || !expected.contains("buffers")) return;
  for (const auto& [name, buffer] : expected["buffers"].items())
    ExpectSame(found, name,
               {buffer["dtype"].get<std::string>(), buffer["shape"].get<Shape>(),
                buffer[buffer.contains("value") ? "value" : "weight"].get<std::string>()});
}

double NumberIn(const torch::PickleDict& options, std::string_view name) {
  for (const auto& [key, value] : options) {
    if (!key.string() || *key.string() != name) continue;
    if (const double* number = std::get_if<double>(&value.value)) return *number;
    if (const int64_t* number = value.integer()) return static_cast<double>(*number);
  }
  return -1;
}

// Every parameter of a group has its options, if the run's form keeps them.
void ExpectOptions(const BoundArtifact& bound, const nlohmann::json& groups) {
  for (const nlohmann::json& group : groups) {
    if (!group.is_object() || !group.contains("lr")) return;
    for (const std::string name : group["names"]) {
      const auto param = std::ranges::find(bound.params, name, &LogicalTensor::name);
      ASSERT_NE(param, bound.params.end()) << name;
      const auto i = static_cast<size_t>(param - bound.params.begin());
      if (!bound.optimizer->entries[i] || bound.optimizer->options[i].empty()) continue;
      for (const char* option : {"lr", "weight_decay", "eps"})
        EXPECT_EQ(NumberIn(bound.optimizer->options[i], option), group[option].get<double>())
            << name << " " << option;
    }
  }
}

void ExpectState(BoundArtifact bound, const nlohmann::json& expected) {
  const auto has_moments = [](const nlohmann::json& tensor) { return Has(tensor, "exp_avg"); };
  // Before the first step there are no moments; at stage 3 the weights are the master weights.
  const bool any = std::ranges::any_of(expected["tensors"], has_moments);
  ASSERT_TRUE(bound.optimizer || !any);
  std::vector<std::string> notes;
  const Status named = training::ToNamedState(bound, notes);
  ASSERT_TRUE(named.ok()) << named.error().ToString();
  const auto found = DigestsOf(bound);
  ASSERT_TRUE(found.ok()) << found.error().ToString();
  ExpectBuffers(bound, *found, expected);
  if (bound.optimizer && expected.contains("groups")) ExpectOptions(bound, expected["groups"]);
  size_t trained = 0;
  for (const auto& [name, tensor] : expected["tensors"].items()) {
    if (any ? !Has(tensor, "exp_avg") : tensor["kind"] != "trained") continue;
    // Tensors carried besides the model's parameters have no state.
    if (bound.model && !bound.model->Find(name)) continue;
    trained += any;
    // A model in F32 is its own master.
    ExpectSame(*found, name, Expected(tensor, Has(tensor, "f32") ? "f32" : "weight"));
    for (const char* what : {"exp_avg", "exp_avg_sq"})
      if (any) ExpectSame(*found, name + "/" + what, Expected(tensor, what));
  }
  if (!bound.optimizer) return;
  size_t steps = 0;
  for (uint32_t i = 0; i < bound.optimizer->entries.size(); ++i) {
    const artifact::OptimizerEntry* step = bound.optimizer->Find(i, "step");
    if (!step) continue;
    ++steps;
    const auto value = training::ScalarOf(bound, *step);
    ASSERT_TRUE(value.ok()) << value.error().ToString();
    EXPECT_EQ(*value, expected[expected.contains("step") ? "step" : "steps"].get<double>());
  }
  EXPECT_EQ(steps, trained);
}

}  // namespace

const std::string& Unpacked(const std::string& archive) {
  static std::map<std::string, std::unique_ptr<Scratch>> scratches;
  static std::map<std::string, std::string> folders;
  auto& scratch = scratches[archive];
  if (scratch) return folders[archive];
  scratch = std::make_unique<Scratch>();
  folders[archive] = scratch->Path("runs");
  tar::UnpackRequest request;
  request.archive = archive;
  request.output = folders[archive];
  request.sync = false;
  const auto report = tar::Unpack(request);
  if (!report.ok()) ADD_FAILURE() << report.error().ToString();
  return folders[archive];
}

Result<Digests> DigestsOf(const BoundArtifact& bound) {
  NXDKIT_ASSIGN(const artifact::CanonicalPlan plan, artifact::PlanCanonical(bound));
  MemorySink sink(plan.outputs);
  NXDKIT_TRY(artifact::RunPlan(plan, bound.bound, {}, {}, "reading", sink));
  Digests out;
  for (size_t i = 0; i < plan.outputs.size(); ++i)
    out[plan.outputs[i].name] = {std::string(TorchName(plan.outputs[i].dtype)),
                                 plan.outputs[i].shape, DigestText(sink.bytes(i))};
  return out;
}

void ExpectRun(const std::string& path, const artifact::InputHints& said,
               const nlohmann::json& expected, bool with_state, const kinds::Kind* kind) {
  SCOPED_TRACE(path);
  artifact::InputHints hints = said;
  const auto bound = kinds::OpenAndBind(path, kind, hints);
  ASSERT_TRUE(bound.ok()) << bound.error().ToString();
  const auto found = DigestsOf(*bound);
  ASSERT_TRUE(found.ok()) << found.error().ToString();
  size_t count = 0;
  for (const auto& [name, tensor] : expected["tensors"].items()) {
    ++count;
    ExpectSame(*found, name, Expected(tensor, "weight"));
  }
  ExpectBuffers(*bound, *found, expected);
  if (bound->model) {
    EXPECT_EQ(found->size(), count);
  }
  if (!with_state) return;
  hints.optimizer = true;
  auto state = kinds::OpenAndBind(path, kind, hints);
  ASSERT_TRUE(state.ok()) << state.error().ToString();
  ExpectState(*std::move(state), expected);
}

}  // namespace nxdkit::testing_util
