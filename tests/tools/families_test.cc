// Families without bundles, and families without a table: the operations that still work, and the
// messages of the others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/tools/convert_workshop.h"

namespace nxdkit::test {
namespace {

using ::testing::HasSubstr;

class Families : public ::testing::Test {
 protected:
  const Workshop workshop_;
  const std::string out_ = workshop_ / "out";
};

TEST_F(Families, WithoutBundlesAreRefusedByName) {
  const std::string neox = workshop_.MakeModel("neox", testing_util::TinyGptNeox());
  const std::string bert = workshop_.MakeModel("bert", testing_util::TinyBert());
  ExpectRefused("--from hf --to rollout --tp 2", neox, out_, 4,
                "how rollout bundles hold a gpt_neox model is not known");
  ExpectRefused("--from hf --to rollout --tp 2 --flavor nxdi", bert, out_, 4,
                "how rollout bundles hold a bert model is not known");
  ExpectRefused("--from hf --to nxd --tp 2 --pp 2", bert, out_, 4,
                "how NxD cuts a bert model into pipeline stages is not known");
  ExpectRefused("--from hf --to nxd --tp 2 --style megatron", neox, out_, 4,
                "NxDT has no gpt_neox models");
  ExpectRefused("--from hf --to nxd --tp 2 --qkv fused", neox, out_, 2,
                "a gpt_neox model has one way to store q, k and v");
  const ProcessResult exported =
      RunProcess({Workshop::Tool("neuron-export"), "--tp", "2", "--target", "cpu", neox, out_});
  EXPECT_EQ(exported.exit_code, 4);
  EXPECT_THAT(exported.err, HasSubstr("how rollout bundles hold a gpt_neox model is not known"));
}

// The decoder of a BERT model is stored in the set, as its module has it, and must equal the
// embedding.
TEST_F(Families, AnAliasThatDiffersIsFound) {
  const std::string bert = workshop_.MakeModel("bert", testing_util::TinyBert());
  const std::string set = workshop_ / "set";
  ExpectConverts("--from hf --to nxd --tp 1 --xser", bert, set);
  const std::string file = set + "/model/dp_rank_00_tp_rank_00_pp_rank_00.pt.tensors/tensor_";
  // The last tensor of the rank is the alias of the predictions' bias.
  size_t last = 0;
  while (std::filesystem::exists(file + std::to_string(last + 1) + ".pt")) ++last;
  std::string bytes = ReadFile(file + std::to_string(last) + ".pt");
  // The archive's only storage begins at the next multiple of 64 after its name.
  const size_t at = bytes.find("data/0");
  ASSERT_NE(at, std::string::npos);
  const size_t data = (at + 6 + 63) / 64 * 64;
  bytes[data] = static_cast<char>(bytes[data] ^ 1);
  workshop_.Write("set/model/dp_rank_00_tp_rank_00_pp_rank_00.pt.tensors/tensor_" +
                      std::to_string(last) + ".pt",
                  bytes);
  const ProcessResult verified = Workshop::Verify(set);
  EXPECT_EQ(verified.exit_code, 1) << verified.out << verified.err;
  EXPECT_THAT(verified.out + verified.err, HasSubstr("cls.predictions.decoder.bias"));
  EXPECT_THAT(verified.out + verified.err,
              HasSubstr("1 element differs from the other copy of cls.predictions.bias"));
}

// A model whose config.json names no known family: its tensors are their own parameters.
class UnknownFamily : public Families {
 protected:
  static std::string Renamed(std::string config) {
    const auto put = [&](const std::string& from, const std::string& to) {
      const size_t at = config.find(from);
      if (at != std::string::npos) config.replace(at, from.size(), to);
    };
    put("LlamaForCausalLM", "FooForCausalLM");
    put("\"llama\"", "\"foo\"");
    return config;
  }
  // A folder of a kind with the config of a foo model.
  void MakeFoo(const std::string& name) const {
    workshop_.Write(name + "/config.json", Renamed(testing_util::TinyLlama().Config()));
  }

  const std::string llama_ = workshop_.MakeModel("llama", testing_util::TinyLlama());
  static constexpr const char* kNoTable =
      "no parameter table for model_type \"foo\"; 51 families have one";
};

TEST_F(UnknownFamily, IsInspectedDigestedComparedAndCopied) {
  const std::string foo = workshop_ / "foo";
  std::filesystem::copy(llama_, foo);
  MakeFoo("foo");
  const ProcessResult inspected = RunProcess({Workshop::Tool("ckpt-inspect"), foo});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr("foo (no parameter table: nothing is proved)"));
  EXPECT_THAT(inspected.out, HasSubstr(std::string("not checked: ") + kNoTable));

  const ProcessResult digest = RunProcess({Workshop::Tool("ckpt-digest"), foo});
  EXPECT_EQ(digest.exit_code, 0) << digest.err;
  EXPECT_THAT(digest.err, HasSubstr("tensors are taken by their names, and nothing is proved"));
  EXPECT_EQ(digest.out.substr(digest.out.find("sha256:")), [&] {
    const std::string text = RunProcess({Workshop::Tool("ckpt-digest"), llama_}).out;
    return text.substr(text.find("sha256:"));
  }()) << "the same numbers under the same names";

  ExpectConverts("--from hf --to hf --max-shard-size 9KB --verify", foo, out_);
  const ProcessResult against = Workshop::Verify(out_, "--against " + foo);
  EXPECT_EQ(against.exit_code, 0) << against.out << against.err;
  EXPECT_THAT(against.err, HasSubstr("no parameter table: whether it is complete"));
  ExpectConverts("--from hf --to torch", foo, workshop_ / "foo.pt");
  const ProcessResult packed =
      RunProcess({Workshop::Tool("ckpt-pack"), foo, workshop_ / "foo.tar"});
  EXPECT_EQ(packed.exit_code, 0) << packed.err;
}

// A text of the user's, as one file or in a folder, adds it.
TEST_F(UnknownFamily, IsKnownByATextOfTheUsers) {
  const std::string foo = workshop_ / "foo";
  std::filesystem::copy(llama_, foo);
  MakeFoo("foo");
  std::string text = ReadFile(NXDKIT_SOURCE_DIR "/formats/models/families/llama.family");
  for (const auto& [from, to] : {std::pair{"family llama", "family foo"},
                                 {"type llama", "type foo"},
                                 {"match LlamaForCausalLM", "match FooForCausalLM"}})
    text.replace(text.find(from), std::string(from).size(), to);
  const std::string file = workshop_.Write("mine/foo.family", text);
  const ProcessResult named = RunProcess({Workshop::Tool("ckpt-inspect"), "--family", file, foo});
  EXPECT_EQ(named.exit_code, 0) << named.err;
  EXPECT_THAT(named.out, HasSubstr("each tensor has its place; all"));
  EXPECT_THAT(named.out, HasSubstr("by " + file + ", family foo (sha256 "));
  const ProcessResult found = RunProcess({"/usr/bin/env", "NXDKIT_FAMILIES=" + (workshop_ / "mine"),
                                          Workshop::Tool("ckpt-verify"), foo});
  EXPECT_EQ(found.exit_code, 0) << found.out << found.err;
  ExpectConverts("--from hf --to nxd --tp 2 --family " + file, foo, out_);
  EXPECT_THAT(ReadFile(out_ + "/nxdkit.json"), HasSubstr("\"family\": \"foo\""));
  const std::string broken = workshop_.Write("broken.family", "family foo\nmatch X\n  qq a 1\n");
  const ProcessResult refused =
      RunProcess({Workshop::Tool("ckpt-inspect"), "--family", broken, foo});
  EXPECT_EQ(refused.exit_code, 0) << "what is there is shown";
  EXPECT_THAT(refused.err + refused.out,
              HasSubstr("line 3, column 3: \"qq\" is neither a directive nor a cut"));
}

TEST_F(UnknownFamily, SaysWhatItCannotDo) {
  const std::string foo = workshop_ / "foo";
  std::filesystem::copy(llama_, foo);
  MakeFoo("foo");
  const ProcessResult verified = Workshop::Verify(foo);
  EXPECT_EQ(verified.exit_code, 4);
  EXPECT_THAT(verified.err, HasSubstr("its structure cannot be verified: no parameter table"));
  EXPECT_THAT(verified.err, HasSubstr("hint: compare with --against"));
  for (const char* to : {"--to nxd --tp 2", "--to rollout --tp 2"})
    ExpectRefused(std::string("--from hf ") + to, foo, out_, 4, kNoTable);
}

TEST_F(UnknownFamily, ShardsAreInspectedAndPackedOnly) {
  const std::string set = workshop_ / "set";
  ExpectConverts("--from hf --to nxd --tp 2", llama_, set);
  MakeFoo("set");
  const ProcessResult inspected = RunProcess({Workshop::Tool("ckpt-inspect"), set});
  EXPECT_EQ(inspected.exit_code, 0) << inspected.err;
  EXPECT_THAT(inspected.out, HasSubstr(std::string("not checked: ") + kNoTable));
  ExpectRefused("--from nxd --to hf", set, out_, 4, kNoTable);
  for (const char* tool : {"ckpt-digest", "ckpt-verify"}) {
    const ProcessResult result = RunProcess({Workshop::Tool(tool), set});
    EXPECT_EQ(result.exit_code, 4) << tool;
    EXPECT_THAT(result.err, HasSubstr(kNoTable)) << tool;
    EXPECT_THAT(result.err, HasSubstr("shards of it can be inspected and packed")) << tool;
  }
  const ProcessResult packed = RunProcess({Workshop::Tool("ckpt-pack"), set, workshop_ / "s.tar"});
  EXPECT_EQ(packed.exit_code, 0) << packed.err;
}

}  // namespace
}  // namespace nxdkit::test
