#include "formats/compile_cache/hlo_module.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ctime>

#include "formats/compile_cache/kernel_config.h"
#include "tests/formats/compile_cache/lite_workshop.h"

namespace nxdkit::neff {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing_util::GraphOf;
using testing_util::KernelConfig;
using testing_util::PutField;

std::vector<std::string> TextsOf(const std::string& graph) {
  const auto found = FindBackendConfigs(graph);
  EXPECT_TRUE(found.ok()) << found.error().ToString();
  std::vector<std::string> texts;
  for (const BackendConfig& config : *found) {
    EXPECT_EQ(graph.substr(config.offset, config.text.size()), config.text);
    texts.emplace_back(config.text);
  }
  return texts;
}

TEST(Graphs, HaveConfigurationsInThreePlaces) {
  EXPECT_THAT(TextsOf(GraphOf({})), IsEmpty());
  EXPECT_THAT(TextsOf(GraphOf({"one", "", "two"})), ElementsAre("one", "", "two"));
  const std::string newer =
      PutField(3, PutField(2, PutField(99, PutField(1, "inline")))) + PutField(22, "interned");
  EXPECT_THAT(TextsOf(newer), ElementsAre("inline", "interned"));
}

TEST(Graphs, NameTheByteThatIsWrong) {
  struct Case {
    const char* what;
    std::string graph;
    uint64_t offset;
  };
  const Case cases[] = {
      {"without a computation", "", 0},
      {"without a computation", PutField(1, "name"), 0},
      {"field 3 has 9 bytes, 2 are left", std::string("\x1a\x09") + "ab", 0},
      {"field 2 has 7 bytes, 0 are left", PutField(1, "n") + PutField(3, "\x12\x07"), 5},
      {"field 0 found", PutField(3, "") + std::string("\x02\x00", 2), 2},
      {"wire type 3", PutField(3, "") + "\x0b", 2},
      {"a number of more than 10 bytes", PutField(3, "") + std::string(11, '\xff'), 2},
      {"ends outside its message", PutField(3, "") + "\x08", 3},
      {"field 1 has 8 bytes, 3 are left", PutField(3, "") + "\x09" + "abc", 2},
  };
  for (const Case& each : cases) {
    const auto found = FindBackendConfigs(each.graph);
    ASSERT_FALSE(found.ok()) << each.what;
    EXPECT_EQ(found.error().code(), Errc::kCorrupt);
    EXPECT_THAT(found.error().message(), HasSubstr(each.what));
    EXPECT_EQ(found.error().offset(), each.offset) << each.what;
  }
}

// Every length around a configuration follows it, over the borders of one and two bytes.
TEST(Graphs, KeepEveryOtherByteWhenOneIsReplaced) {
  for (const size_t before : {0, 10, 90, 127, 128, 5000})
    for (const size_t after : {0, 20, 127, 128, 16383, 16384, 40000}) {
      const std::string graph = GraphOf({"first", std::string(before, 'x'), "last"});
      const auto changed = ReplaceBackendConfigs(
          graph, [&](const BackendConfig& config) -> Result<std::optional<std::string>> {
            if (config.text != std::string(before, 'x')) return std::optional<std::string>();
            return std::optional<std::string>(std::string(after, 'y'));
          });
      ASSERT_TRUE(changed.ok() && *changed) << before << " " << after;
      EXPECT_EQ(**changed, GraphOf({"first", std::string(after, 'y'), "last"}));
    }
}

TEST(Graphs, NoneReplacedIsNoNewGraph) {
  const auto changed = GraphWithBinaries(
      GraphOf({KernelConfig("/a/b")}),
      [](const std::string&) -> std::optional<std::string> { return std::nullopt; });
  ASSERT_TRUE(changed.ok());
  EXPECT_FALSE(changed->has_value());
}

TEST(GraphSweeps, EveryCutIsRefusedOrEndsBetweenFields) {
  const std::string graph = GraphOf({KernelConfig("/a/b")});
  size_t refused = 0;
  for (size_t size = 0; size < graph.size(); ++size)
    refused += !FindBackendConfigs(graph.substr(0, size)).ok();
  // After the computation, where the fixed number begins, nothing is missed.
  EXPECT_EQ(refused, graph.size() - 1);
}

TEST(GraphSweeps, EveryFlipIsRefusedOrRead) {
  const std::string graph = GraphOf({KernelConfig("/a/b"), "other"});
  for (size_t at = 0; at < graph.size(); ++at)
    for (const int bit : {1, 8, 128}) {
      std::string flipped = graph;
      flipped[at] = static_cast<char>(flipped[at] ^ bit);
      const auto kernels = KernelsOfGraph(flipped);
      if (kernels.ok()) continue;
      EXPECT_LE(kernels.error().offset().value_or(0), graph.size());
    }
}

// Each record has three bytes: the notes about them take more.
TEST(Graphs, OfTooManyConfigurationsAreRefused) {
  std::string graph = PutField(3, "");
  for (int i = 0; i < 5'000'000; ++i) graph += std::string("\xb2\x01\x00", 3);
  const auto found = FindBackendConfigs(graph);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.error().code(), Errc::kUnsupported);
  EXPECT_THAT(found.error().message(), HasSubstr("more than 4000000 configurations"));
  EXPECT_TRUE(KernelsOfGraph(graph).ok()) << "none of them is long enough to be a kernel's";
}

// Time in proportion to the bytes, wherever they stand.
TEST(GraphKernels, AreLookedForOnce) {
  std::string run;
  for (int i = 0; i < 100'000; ++i) run += "eyJ";
  const std::string graphs[] = {GraphOf({}) + PutField(40, run), GraphOf({run}),
                                GraphOf({" " + run})};
  for (const std::string& graph : graphs) {
    const clock_t start = std::clock();
    const auto kernels = KernelsOfGraph(graph);
    ASSERT_TRUE(kernels.ok()) << kernels.error().ToString();
    EXPECT_LT(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC, 2.0);
  }
  const auto behind = KernelsOfGraph(GraphOf({}) + PutField(40, run + KernelConfig("/a/b")));
  ASSERT_FALSE(behind.ok());
  EXPECT_EQ(behind.error().code(), Errc::kUnsupported);
}

// A signal ends the search, in many runs of base64 and in many fields alike.
TEST(GraphKernels, AreLookedForUntilASignalComes) {
  std::string fields = PutField(3, "");
  for (int i = 0; i < 100'000; ++i) fields += std::string("\x30\x01", 2);
  for (const std::string& graph : {GraphOf({"eyJ eyJ"}), fields}) {
    const auto kernels =
        KernelsOfGraph(graph, []() -> Status { return Error(Errc::kInterrupted, "stopped"); });
    ASSERT_FALSE(kernels.ok());
    EXPECT_EQ(kernels.error().code(), Errc::kInterrupted);
  }
}

TEST(KernelConfigs, NameTheirBinary) {
  EXPECT_EQ(BinaryOfConfig(KernelConfig("/var/x.klir")), "/var/x.klir");
  EXPECT_EQ(BinaryOfConfig(""), std::nullopt);
  EXPECT_EQ(BinaryOfConfig("eyJ"), std::nullopt);
  EXPECT_EQ(BinaryOfConfig(Base64Text("{\"klir_binary\": 3}")), std::nullopt);
  EXPECT_EQ(BinaryOfConfig(Base64Text("{\"klir_binary\": {\"binary\": null}}")), std::nullopt);
  EXPECT_EQ(BinaryOfConfig(Base64Text("{\"klir_binary\": {\"binary\": \"/a\"}")), std::nullopt);
}

TEST(KernelConfigs, ChangeOnePathAndNothingElse) {
  // The path stands elsewhere too, before and behind.
  const std::string text =
      "{\"a\": \"/old/x\",  \"klir_binary\":{\"aliases\": [\"/old/x\"], \"binary\" : \"/old/x\"},"
      " \"z\":\"/old/x\", \"f\": 1e3}";
  const auto changed = ConfigWithBinary(Base64Text(text), "/new/\xc3\xa9\"");
  ASSERT_TRUE(changed.ok()) << changed.error().ToString();
  EXPECT_EQ(*ParseBase64(*changed),
            "{\"a\": \"/old/x\",  \"klir_binary\":{\"aliases\": [\"/old/x\"], \"binary\" : "
            "\"/new/\\u00e9\\\"\"}, \"z\":\"/old/x\", \"f\": 1e3}");
  EXPECT_EQ(ConfigWithoutBinary(*changed), ConfigWithoutBinary(Base64Text(text)));
}

TEST(KernelConfigs, RefuseAPathThatPythonWouldWriteOtherwise) {
  const auto changed =
      ConfigWithBinary(Base64Text("{\"klir_binary\": {\"binary\": \"\\/old\\/x\"}}"), "/new");
  ASSERT_FALSE(changed.ok());
  EXPECT_EQ(changed.error().code(), Errc::kUnsupported);
  EXPECT_EQ(changed.error().member(), "binary");
  EXPECT_THAT(changed.error().message(), HasSubstr("\"/old/x\" is not written as Python's json"));
}

TEST(GraphKernels, AreFoundWithTheirOffsets) {
  const std::string graph = GraphOf({"other", KernelConfig("/a/b"), "eyJ", KernelConfig("/a/c")});
  const auto kernels = KernelsOfGraph(graph);
  ASSERT_TRUE(kernels.ok()) << kernels.error().ToString();
  ASSERT_EQ(kernels->size(), 2u);
  EXPECT_EQ((*kernels)[0].binary, "/a/b");
  EXPECT_EQ((*kernels)[0].offset, graph.find(KernelConfig("/a/b")));
  EXPECT_EQ((*kernels)[1].binary, "/a/c");
}

// Changing the paths that were found would leave this one.
TEST(GraphKernels, InAnUnknownPlaceAreRefused) {
  const std::string graph = GraphOf({}) + PutField(40, KernelConfig("/a/b"));
  const auto kernels = KernelsOfGraph(graph);
  ASSERT_FALSE(kernels.ok());
  EXPECT_EQ(kernels.error().code(), Errc::kUnsupported);
  EXPECT_EQ(kernels.error().offset(), graph.find("eyJ"));
  const auto padded = KernelsOfGraph(GraphOf({KernelConfig("/a/b") + " "}));
  ASSERT_FALSE(padded.ok());
  EXPECT_THAT(padded.error().message(), HasSubstr("begins like a kernel's configuration"));
}

}  // namespace
}  // namespace nxdkit::neff
