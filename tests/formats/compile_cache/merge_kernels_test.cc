#include "formats/compile_cache/merge_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "formats/compile_cache/kernel_config.h"
#include "formats/compile_cache/lite_kernel.h"
#include "tests/formats/compile_cache/lite_workshop.h"
#include "tests/formats/neff/neff_bytes.h"

namespace nxdkit::neff {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::GraphOf;
using testing_util::KernelConfig;
using testing_util::KernelFile;
using testing_util::LiteWorkshop;
using testing_util::ReadBytes;

std::string KernelName(char digit) { return "nki/" + LiteWorkshop::Key(digit) + ".json"; }

// A merge during which another process acts once, as soon as the entry of a digit is being built.
MergeReport MergeBeside(const LiteWorkshop& shop, char digit, const std::function<void()>& other) {
  bool done = false;
  MergeOptions options;
  options.kernels = shop.scratch().folder();
  options.poll = [&]() -> Status {
    if (done || !fs::exists(shop.Path("into"))) return OkStatus();
    for (const auto& each : fs::directory_iterator(shop.Path("into")))
      done |= each.path().filename().string().starts_with(LiteWorkshop::Key(digit) + ".tmp.");
    if (done) other();
    return OkStatus();
  };
  const auto report = MergeTree(shop.root(), shop.Path("into"), options);
  EXPECT_TRUE(report.ok()) << report.error().ToString();
  return report.ok() ? *report : MergeReport();
}

std::vector<std::string> Lines(const std::vector<MergeItem>& items) {
  std::vector<std::string> lines;
  for (const MergeItem& item : items)
    lines.push_back(item.entry.substr(0, item.entry.starts_with("nki/") ? 6 : 2) + " " +
                    item.reason + ": " + item.message);
  return lines;
}

// The contents of the file that a kernel in INTO names.
std::string BinaryInInto(const LiteWorkshop& shop, char digit) {
  const auto kernel = ReadLiteKernel(shop.In(KernelName(digit), "into"));
  EXPECT_TRUE(kernel.ok());
  return kernel.ok() ? ReadBytes(kernel->binary) : "";
}

// Base names of binaries collide: the engine uses the absolute path.
TEST(MergedKernels, HaveTheBinaryOfTheAbsolutePath) {
  const LiteWorkshop shop;
  fs::create_directories(shop.Path("one"));
  fs::create_directories(shop.Path("two"));
  const std::string one = shop.scratch().Write("one/k.klir", "one");
  const std::string two = shop.scratch().Write("two/k.klir", "two");
  shop.Write("nki/binaries/k.klir", "of another kernel");
  shop.Write(KernelName('b'), KernelFile(KernelConfig(one)));
  shop.Write(KernelName('c'), KernelFile(KernelConfig(two)));
  shop.Whole('a', GraphOf({KernelConfig(two)}));
  MergeBeside(shop, '-', {});
  EXPECT_EQ(BinaryInInto(shop, 'b'), "one");
  EXPECT_EQ(BinaryInInto(shop, 'c'), "two");
  const auto graph =
      KernelsOfGraph(ReadBytes(shop.In(LiteWorkshop::Key('a') + "/graph.hlo", "into")));
  ASSERT_TRUE(graph.ok());
  EXPECT_EQ(ReadBytes((*graph)[0].binary), "two");
}

// Another process pushed a kernel of the same name while ours was being built.
TEST(MergedKernels, ThatAnotherWasQuickerWithAreNotCopied) {
  const LiteWorkshop shop;
  const std::string binary = shop.scratch().Write("k.klir", "klir");
  const std::string theirs = shop.scratch().Write("other.klir", "theirs");
  shop.Write(KernelName('b'), KernelFile(KernelConfig(binary)));
  shop.Write(KernelName('c'), KernelFile(KernelConfig(binary)));
  shop.Whole('a');
  const MergeReport report = MergeBeside(shop, 'a', [&] {
    shop.Write(KernelName('b'), KernelFile(KernelConfig(theirs)), "into");
    shop.Write(KernelName('c'), KernelFile(KernelConfig(binary)), "into");
  });
  EXPECT_THAT(Lines(report.copied), ElementsAre("aa new: "));
  EXPECT_EQ(report.kept, 1u) << "the same kernel";
  EXPECT_THAT(Lines(report.left), ElementsAre(HasSubstr("nki/bb differs: there already")));
  EXPECT_EQ(BinaryInInto(shop, 'b'), "theirs");
}

// A name that another process has taken meanwhile, with other contents: none of ours may refer to
// it.
TEST(MergedKernels, NameNoFileOfAnother) {
  const LiteWorkshop shop;
  const std::string binary = shop.scratch().Write("k.klir", "klir");
  shop.Write("nki/binaries/7", "copy");
  shop.Write(KernelName('b'),
             KernelFile(KernelConfig("/x/k"), "\"kernel_binary\":\"binaries/7\","));
  shop.Write(KernelName('c'), KernelFile(KernelConfig(binary)));
  shop.Whole('a', GraphOf({KernelConfig(binary)}));
  const std::string prefix = Sha256Hex(testing_util::AsBytes("klir")).substr(0, 16);
  const MergeReport report = MergeBeside(shop, 'a', [&] {
    shop.Write("nki/binaries/7", "another", "into");
    shop.Write("nki/binaries/k.klir", "another", "into");
  });
  EXPECT_THAT(Lines(report.left),
              ElementsAre(AllOf(HasSubstr("nki/bb differs: "), HasSubstr("another file"))));
  EXPECT_FALSE(fs::exists(shop.In(KernelName('b'), "into")));
  EXPECT_EQ(BinaryInInto(shop, 'c'), "klir");
  EXPECT_EQ(report.copied.size(), 2u);
  EXPECT_TRUE(fs::exists(shop.In("nki/binaries/" + prefix + "-k.klir", "into")));
}

// Even a name with the digest, when another process has put other bytes there.
TEST(MergedKernels, NameNoFileThatIsNotWhatItSays) {
  const LiteWorkshop shop;
  const std::string binary = shop.scratch().Write("k.klir", "klir");
  shop.Write(KernelName('c'), KernelFile(KernelConfig(binary)));
  const std::string key = shop.Whole('a', GraphOf({KernelConfig(binary)}));
  shop.Whole('d');
  const std::string prefix = Sha256Hex(testing_util::AsBytes("klir")).substr(0, 16);
  const MergeReport report = MergeBeside(shop, 'd', [&] {
    shop.Write("nki/binaries/" + prefix + "-k.klir", "cut", "into");
    shop.Write("nki/binaries/k.klir", "cut", "into");
  });
  EXPECT_THAT(Lines(report.copied), ElementsAre("dd new: "));
  EXPECT_THAT(Lines(report.left),
              ElementsAre(HasSubstr("nki/cc differs: "), HasSubstr("aa differs: ")));
  EXPECT_FALSE(fs::exists(shop.In(KernelName('c'), "into")));
  EXPECT_FALSE(fs::exists(shop.In(key, "into")));
}

}  // namespace
}  // namespace nxdkit::neff
