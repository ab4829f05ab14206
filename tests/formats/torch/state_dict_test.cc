#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/formats/torch/builders.h"
#include "tests/formats/torch/expect_error.h"

namespace nxdkit::torch {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

const std::string kTensor = TestTensor().Pickled();
const std::string kReference =
    Global("torch_xla.utils.serialization", "TensorReference") + ")\x81}" + Str("tid") + "K\7sb";

Archive Of(std::string_view body) {
  Result<Archive> archive = ReadBytes(ArchiveOf(
      Pickle(body),
      std::vector<std::string>(body.find("FloatStorage") != body.npos, std::string(24, '1'))));
  EXPECT_TRUE(archive.ok()) << archive.error().ToString();
  return std::move(*archive);
}

std::vector<std::string> Names(const Result<TensorFile>& file) {
  EXPECT_TRUE(file.ok()) << file.error().ToString();
  std::vector<std::string> names;
  for (const StoredTensor& tensor : file->tensors) names.push_back(tensor.name);
  return names;
}

TEST(FlattenStateDict, TheRootInItsOrder) {
  const Archive archive = Of("}(" + Str("b") + kTensor + "q\1" + Str("a") + "h\1" + Str("epoch") +
                             "K\3" + "K\7N" + "u");
  std::vector<std::string> skipped;
  const Result<TensorFile> file = FlattenStateDict(archive, &skipped);
  EXPECT_THAT(Names(file), ElementsAre("b", "a"));
  EXPECT_THAT(skipped, ElementsAre("epoch", "7"));
  EXPECT_EQ(file->path, archive.path);
  EXPECT_EQ(file->format, "torch zip");
  EXPECT_EQ(file->file_bytes, archive.file_bytes);
}

TEST(FlattenStateDict, UnderAKnownName) {
  for (const char* wrapper : {"model", "state_dict", "module", "model_state_dict"}) {
    const Archive archive =
        Of("}(" + Str("step") + kTensor + "q\1" + Str(wrapper) + "}" + Str("w") + "h\1su");
    EXPECT_THAT(Names(FlattenStateDict(archive)), ElementsAre("w")) << wrapper;
  }
}

TEST(FlattenStateDict, UnderAnyNameThatIsAlone) {
  std::vector<std::string> skipped;
  EXPECT_THAT(Names(FlattenStateDict(
                  Of("}(" + Str("epoch") + "K\1" + Str("actor") + "}" + Str("w") + kTensor + "su"),
                  &skipped)),
              ElementsAre("w"));
  EXPECT_THAT(skipped, ElementsAre("epoch"));
}

TEST(FlattenStateDict, EmptyDictIsAnEmptyStateDict) {
  EXPECT_THAT(Names(FlattenStateDict(Of("}"))), ElementsAre());
}

void ExpectRefused(std::string_view body, const std::string& tensor, const std::string& says) {
  const Result<TensorFile> file = FlattenStateDict(Of(body));
  ASSERT_FALSE(file.ok());
  EXPECT_EQ(file.error().code(), Errc::kUnsupported);
  EXPECT_EQ(file.error().tensor(), tensor);
  EXPECT_THAT(file.error().message(), HasSubstr(says));
  EXPECT_THAT(file.error().file(), EndsWith("/t.pt"));
}

TEST(FlattenStateDict, RefusesWhatIsNoStateDict) {
  ExpectRefused("]", "", "holds no dict of tensors");
  ExpectRefused(kTensor, "", "holds no dict of tensors");
  ExpectRefused("}K\1K\1s", "", "the dict holds no tensor, and no dict in it does");
  ExpectRefused(
      "}(" + Str("a") + "}" + Str("w") + kTensor + "q\1s" + Str("b") + "}" + Str("w") + "h\1su", "",
      "2 dicts of tensors are in the file: a, b");
  ExpectRefused("}K\1" + kTensor + "s", "", "a tensor has the key 1, expected a name");
}

TEST(FlattenStateDict, RefusesReferences) {
  ExpectRefused("}" + Str("w") + kReference + "s", "w",
                "but in tensor_7.pt of the folder t.pt.tensors");
}

}  // namespace
}  // namespace nxdkit::torch
