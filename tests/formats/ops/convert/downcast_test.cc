// --dtype downcast: the element types that XLA_DOWNCAST_BF16 makes on the device, in every output,
// and the types that the configuration records.
#include "formats/kinds/open.h"
#include "tests/formats/ops/ops_workshop.h"

namespace nxdkit::ops {
namespace {

using testing_util::OpsWorkshop;
using testing_util::ReadBytes;
using testing_util::StoredTensors;

class DowncastOf : public ::testing::TestWithParam<Dtype> {
 protected:
  void Expect(const std::string& path, const Kind* kind) const {
    for (const testing_util::Stored& stored : StoredTensors(path, kind)) {
      if (!Info(stored.tensor.dtype).floating) continue;
      EXPECT_EQ(Name(stored.tensor.dtype), Name(lower_)) << stored.tensor.name;
    }
    const auto artifact = OpenArtifact(path, kind, {});
    ASSERT_TRUE(artifact.ok()) << artifact.error().ToString();
    ASSERT_TRUE(artifact->config);
    EXPECT_EQ(artifact->config->dtype, lower_) << kind->name;
  }
  static OutputOptions Lower() {
    OutputOptions options;
    options.downcast = true;
    return options;
  }
  static OutputOptions OfDtype(Dtype dtype) {
    OutputOptions options;
    options.dtype = dtype;
    return options;
  }
  OutputOptions Two(OutputOptions options = Lower()) const {
    options.Set("tp", 2);
    return options;
  }

  const OpsWorkshop shop_;
  const Dtype lower_ = Downcast(GetParam());
  const std::string base_ = shop_.MakeModel("base", testing_util::TinyLlama(), Dtype::kF32);
  const std::string model_ = shop_.Make("model", base_, &ops::kHf, &ops::kHf, OfDtype(GetParam()));
};

TEST_P(DowncastOf, EveryOutput) {
  const std::string hf = shop_.Make("hf", model_, &ops::kHf, &ops::kHf, Lower());
  Expect(hf, &ops::kHf);
  Expect(shop_.Make("nxd", model_, &ops::kHf, &ops::kNxd, Two()), &ops::kNxd);
  Expect(shop_.Make("bundle", model_, &ops::kHf, &ops::kRollout, Two()), &ops::kRollout);
  // The same bytes as with the type named.
  const std::string same = shop_.Make("same", model_, &ops::kHf, &ops::kHf, OfDtype(lower_));
  EXPECT_EQ(ReadBytes(hf + "/model.safetensors"), ReadBytes(same + "/model.safetensors"));
}

INSTANTIATE_TEST_SUITE_P(All, DowncastOf,
                         ::testing::Values(Dtype::kF32, Dtype::kF64, Dtype::kF16, Dtype::kBF16),
                         [](const auto& row) { return std::string(Name(row.param)); });

}  // namespace
}  // namespace nxdkit::ops
