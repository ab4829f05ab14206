// The checks of a conversion before and after state is carried: copies, missing weights, objects of
// a program's own, configurations, adapters.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "formats/kinds/open.h"
#include "tests/formats/dcp/folder_draft.h"
#include "tests/formats/kinds/adapter/lora_workshop.h"
#include "tests/formats/kinds/dcp/state_hints.h"
#include "tests/formats/ops/ops_workshop.h"
#include "tests/formats/reshard/training_tag.h"
#include "tests/formats/words.h"
#include "tests/lib/expect_error.h"

namespace nxdkit {
namespace {

using ops::Kind;
using ::testing::Contains;
using ::testing::HasSubstr;
using testing_util::DcpDraft;
using testing_util::ExpectError;
using testing_util::OpsWorkshop;
using testing_util::TrainingTag;

class Carried : public ::testing::Test {
 protected:
  ops::ConvertRequest FromTag(const TrainingTag& tag = {}) const {
    testing_util::WriteTrainingTag(shop_ / "tag", tag);
    ops::ConvertRequest request =
        OpsWorkshop::Request(shop_ / "tag", &ops::kNxd, shop_ / "dcp", &ops::kDcp);
    request.hints.optimizer = true;
    return request;
  }
  // torch's own checkpoint, once more.
  ops::ConvertRequest Recut(const std::string& input) const {
    ops::OutputOptions options;
    options.Set("mesh", Word(dcp::Mesh{2, 1}));
    ops::ConvertRequest request =
        OpsWorkshop::Request(input, &ops::kDcp, shop_ / "around/dcp", &ops::kDcp, options);
    request.hints.optimizer = true;
    return request;
  }

  OpsWorkshop shop_;
};

// The master weights replace them, and are written.
TEST_F(Carried, CopiesOfWeightsAreComparedThoughTheirMastersAreTaken) {
  TrainingTag tag;
  tag.geometry.tp = 2;
  tag.change = [](testing_util::FileDraft& file) {
    if (file.is_optimizer() || file.tp != 1) return;
    for (auto& tensor : file.tensors)
      if (tensor.output.name == "model.norm.weight") tensor.bytes[1] ^= 0x40;
  };
  const auto error = ExpectError(ops::Convert(FromTag(tag)), Errc::kCorrupt,
                                 "1 element differs from the other copy of model.norm.weight");
  EXPECT_EQ(error->file(), shop_ / "tag/model/dp_rank_00_tp_rank_01_pp_rank_00.pt");
}

TEST_F(Carried, AWeightThatIsNotThereIsNamed) {
  DcpDraft draft = DcpDraft::Read(NXDKIT_TESTDATA "/dcp/one");
  draft.Remove("norm.weight");
  draft.Write(shop_ / "dcp");
  ops::OutputOptions options;
  options.Set("tp", 1);
  ops::ConvertRequest request =
      OpsWorkshop::Request(shop_ / "dcp", &ops::kDcp, shop_ / "tag", &ops::kNxd, options);
  request.hints = testing_util::StateHints();
  const auto error =
      ExpectError(ops::Convert(request), Errc::kCorrupt, "the parameter is stored nowhere");
  EXPECT_EQ(error->tensor(), "model.norm.weight");
  EXPECT_EQ(error->file(), shop_ / "dcp");
}

// An output without a configuration is inspected without one, whatever files are around it.
TEST_F(Carried, IsVerifiedBesideAConfigOfSomethingElse) {
  std::filesystem::copy(NXDKIT_TESTDATA "/dcp/one", shop_ / "dcp");
  std::filesystem::create_directories(shop_ / "around");
  std::filesystem::copy(NXDKIT_TESTDATA "/dcp/config.json", shop_ / "around/config.json");
  ops::ConvertRequest request = Recut(shop_ / "dcp");
  request.verify = true;
  const auto made = ops::Convert(request);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_TRUE(made->verified);
  EXPECT_THAT(made->notes, Contains(HasSubstr("names: as they are")));
}

TEST_F(Carried, NamesAreChangedOnlyWithAConfig) {
  std::filesystem::copy(NXDKIT_TESTDATA "/dcp/one", shop_ / "dcp");
  ops::ConvertRequest request = Recut(shop_ / "dcp");
  request.options.Set("style", Word(dcp::Style::kHf));
  const auto error = ExpectError(ops::Convert(request), Errc::kNotFound, "no config.json");
  EXPECT_EQ(error->hint(), "name one with --config");
}

TEST_F(Carried, StateIsNotThatOfAMergedModel) {
  ops::ConvertRequest request = FromTag();
  testing_util::PeftFiles adapter;
  const auto tag = ops::OpenAndBind(request.input, &ops::kNxd, request.hints);
  ASSERT_TRUE(tag.ok()) << tag.error().ToString();
  const auto weight = std::ranges::find(tag->params, "model.layers.0.self_attn.o_proj.weight",
                                        &LogicalTensor::name);
  adapter.Add("self_attn.o_proj", 2, weight->shape[0], weight->shape[1]);
  request.hints.lora = adapter.Write(shop_ / "lora");
  request.verify = true;
  const auto made = ops::Convert(request);
  ASSERT_TRUE(made.ok()) << made.error().ToString();
  EXPECT_THAT(made->warnings,
              Contains("the optimizer's state is left out: it is of the weights before the adapter "
                       "is merged"));
  const DcpDraft draft = DcpDraft::Read(shop_ / "dcp");
  for (const DcpDraft::Tensor& tensor : draft.tensors)
    EXPECT_FALSE(tensor.key.starts_with("optimizer.")) << tensor.key;
  EXPECT_TRUE(draft.objects.empty());
}

}  // namespace
}  // namespace nxdkit
