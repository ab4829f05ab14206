// Values that no trained model has, as a user meets them: findings of ckpt-verify, warnings of the
// conversions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "lib/json/json.h"
#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;

class ValuesTool : public ::testing::Test {
 protected:
  ProcessResult Run(const std::string& tool, const Words& options) const {
    Words words = {Workshop::Tool(tool)};
    words.insert(words.end(), options.begin(), options.end());
    return RunProcess(words);
  }
  // Sets the first bytes of a tensor of the model, by its header.
  void Overwrite(const std::string& tensor, const std::string& bytes) const {
    const std::string path = model_ + "/model.safetensors";
    const std::string text = ReadFile(path);
    uint64_t header = 0;
    std::memcpy(&header, text.data(), 8);
    const Json json = Json::parse(text.substr(8, header));
    const uint64_t at = 8 + header + json[tensor]["data_offsets"][0].get<uint64_t>();
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(static_cast<std::streamoff>(at));
    file << bytes;
  }
  const Workshop workshop_;
  const std::string model_ = workshop_.MakeModel("model", testing_util::TinyLlama());
};

TEST_F(ValuesTool, VerifyNamesANanAndZeros) {
  Overwrite("model.norm.weight", "\xc0\x7f");
  Overwrite("model.layers.1.mlp.down_proj.weight", std::string(size_t{32} * 48 * 2, '\0'));
  const ProcessResult text = Run("ckpt-verify", {model_});
  EXPECT_EQ(text.exit_code, 1);
  EXPECT_THAT(text.out, HasSubstr("model.norm.weight: row 0: 1 element is NaN: found nan (0x7fc0) "
                                  "at [0]"));
  EXPECT_THAT(text.out, HasSubstr("all 1,536 elements are zero"));
  const Json json = JsonOf(Run("ckpt-verify", {"--json", model_}));
  EXPECT_EQ(json["exit_code"], 1);
  ASSERT_EQ(json["findings"].size(), 2u);
  EXPECT_EQ(json["findings"][0]["check"], "zeros");
  EXPECT_EQ(json["findings"][0]["parameter"], "model.layers.1.mlp.down_proj.weight");
  EXPECT_EQ(json["findings"][0]["count"], 1536);
  EXPECT_EQ(json["findings"][1]["check"], "not finite");
  EXPECT_EQ(json["findings"][1]["index"], Json::array({0}));
  EXPECT_EQ(Run("ckpt-verify", {"--no-values", model_}).exit_code, 0);
}

TEST_F(ValuesTool, ConversionsNoteThem) {
  Overwrite("model.norm.weight", "\xc0\x7f");
  for (const Words& options :
       {Words{"nxd-convert", "--to", "nxd", "--tp", "2", model_, workshop_ / "set"},
        Words{"nxd-reshard", "--tp", "1", workshop_ / "set", workshop_ / "other"},
        Words{"neuron-export", "--tp", "2", "--bs", "4", "--seq", "256", "--target", "cpu", model_,
              workshop_ / "bundle"}}) {
    Words words(options.begin() + 1, options.end());
    words.insert(words.begin(), "--json");
    const Json json = JsonOf(Run(options[0], words));
    ASSERT_EQ(json["exit_code"], 0) << options[0] << json.dump();
    EXPECT_EQ(json["values"]["nan"], 1) << options[0];
    EXPECT_EQ(json["values"]["not_finite"], Json::array({"model.norm.weight"})) << options[0];
    EXPECT_EQ(json["values"]["zero"], Json::array()) << options[0];
    EXPECT_THAT(json["warnings"].dump(), HasSubstr("model.norm.weight: 1 element is NaN as BF16"));
  }
}

}  // namespace
}  // namespace nxdkit::test
