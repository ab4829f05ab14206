#include "formats/compile_cache/cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "formats/compile_cache/manifest.h"
#include "formats/compile_cache/place.h"
#include "formats/compile_cache/tree.h"
#include "lib/compress/compressor.h"
#include "lib/hash/digest.h"
#include "tests/formats/compile_cache/cache_workshop.h"

namespace nxdkit::neff {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing_util::CacheWorkshop;
using testing_util::ToyNeff;

TEST(Keys, AreTheOnesOfTheVendor) {
  const auto flags_hash = [](const std::vector<std::string>& flags) {
    const CacheKey key = MakeKey("", flags);
    return key.module.substr(key.module.size() - 8);
  };
  EXPECT_EQ(flags_hash({"--model-type=transformer", "--auto-cast=none"}), "d7cde3b5");
  EXPECT_EQ(flags_hash({"--model-type=transformer", "--auto-cast=none", "--execute-repetition=1"}),
            "39f12043");
  EXPECT_EQ(Md5Hex("").substr(0, 8), "d41d8cd9");
  EXPECT_EQ(Md5Hex("--model-type=transformer --auto-cast=none").substr(0, 8), "2c2d707e");
  // SHA-256 of "graph" and the flags without spaces, by sha256sum.
  EXPECT_EQ(MakeKey("graph", {"-a b", "-c"}).module.substr(0, 27), "MODULE_341d7535cab7c94f2125");
  EXPECT_EQ(MakeKey("graph", {"-a b", "-c"}).flags_json, "[\"-a b\", \"-c\"]");
}

CachePlace Find(const std::optional<std::string>& folder, const char* flags, const char* url) {
  const auto place = FindCache(folder, flags, url);
  if (place.ok()) return *place;
  ADD_FAILURE() << place.error().ToString();
  return {};
}

TEST(Places, WhoSaysWhereTheCacheIs) {
  EXPECT_EQ(Find({}, "", "").root, "/var/tmp/neuron-compile-cache");
  EXPECT_EQ(Find({}, "", "/url").root, "/url");
  EXPECT_EQ(Find({}, "", "file:///url").root, "/url");
  EXPECT_EQ(Find({}, "-a --cache_dir=/flag -b", "/url").root, "/flag");
  EXPECT_EQ(Find({}, "--cache_dir /flag", "/url").root, "/flag");
  EXPECT_EQ(Find("/said", "--cache_dir=/flag", "/url").root, "/said");
}

TEST(Places, FlagsOfTheCacheAreNoFlagsOfTheGraph) {
  const CachePlace place =
      Find({},
           " --model-type=transformer\t--cache_dir=/c  --retry_failed_compilation --log_level=INFO "
           "--cache_size=50000000 --cache_ttl 7 --tensorizer-options='-a --log_level=x' -O2",
           "");
  EXPECT_THAT(place.flags, ElementsAre("--model-type=transformer",
                                       "--tensorizer-options=-a --log_level=x", "-O2"));
  EXPECT_TRUE(place.retry_failed);
  EXPECT_TRUE(place.enabled);
  EXPECT_EQ(place.max_bytes, 50'000'000u);
  EXPECT_EQ(place.keep_seconds, 7 * 24 * 3600);
}

TEST(Places, FlagsThatCannotBeReadAreRefused) {
  const auto refused = [](const char* flags) {
    const auto place = FindCache({}, flags, "");
    EXPECT_TRUE(!place.ok() && place.error().code() == Errc::kUsage) << flags;
    return place.ok() ? "" : place.error().message();
  };
  EXPECT_EQ(refused("-a --cache_dir"), "NEURON_CC_FLAGS: --cache_dir has no value");
  EXPECT_EQ(refused("--cache_ttl=soon"),
            "NEURON_CC_FLAGS: --cache_ttl: found \"soon\", expected days from 0 to 36500");
  EXPECT_THAT(refused("--cache_size=-1"), HasSubstr("NEURON_CC_FLAGS: --cache_size: "));
  EXPECT_THAT(refused("--tensorizer-options='-a"), HasSubstr("is not closed"));
}

TEST(Places, TheOldOneIsReadWhereTheNewOneIsEmpty) {
  const testing_util::Scratch scratch;
  const std::string root = scratch.Path("root");
  const auto read = [&] {
    const auto found = RootToRead(root);
    EXPECT_TRUE(found.ok()) << found.error().ToString();
    return found.ok() ? *found : "";
  };
  const auto make = [&](const char* folder) {
    std::filesystem::create_directories(root + "/" + folder);
  };
  EXPECT_EQ(read(), root) << "that is not made yet";
  make("neuron-compile-cache/notes");
  EXPECT_EQ(read(), root);
  make("neuron-compile-cache/neuronxcc-2.5.0.28+1be23f232/MODULE_1+d41d8cd9");
  EXPECT_EQ(read(), root + "/neuron-compile-cache");
  const auto tree = FindTree(root);
  ASSERT_TRUE(tree.ok());
  EXPECT_EQ(tree->root, root + "/neuron-compile-cache");
  EXPECT_TRUE(tree->is_old_place && !tree->is_empty);
  const auto to_write = FindTreeToWrite(root);
  ASSERT_TRUE(to_write.ok());
  EXPECT_EQ(to_write->root, root);
  EXPECT_FALSE(to_write->is_old_place);
  make("neuronxcc-2.21.33363.0+82129205");
  EXPECT_EQ(read(), root);
  EXPECT_FALSE(FindTree(root)->is_old_place);
}

TEST(Places, SwitchedOff) {
  EXPECT_FALSE(Find({}, "--no_cache", "").enabled);
  EXPECT_TRUE(Find("/said", "--no_cache", "").enabled);
  const CachePlace store = Find({}, "", "s3://bucket/x");
  EXPECT_FALSE(store.enabled);
  EXPECT_THAT(store.disabled_because, HasSubstr("s3://bucket/x is an object store"));
}

TEST(States, AreToldInThisOrder) {
  const CacheWorkshop workshop;
  const auto state = [&](const std::vector<std::string>& files) {
    std::filesystem::remove_all(workshop.Entry("MODULE_1+00000000"));
    for (const std::string& file : files) workshop.Write("MODULE_1+00000000", file, "x");
    return StateName(workshop.Read("MODULE_1+00000000").state);
  };
  EXPECT_EQ(state({"model.neff", "model.done"}), "done");
  EXPECT_EQ(state({"model.pt", "model.done"}), "done");
  EXPECT_EQ(state({"model.neff", "model.done", "model.log", "x.lock"}), "done");
  EXPECT_EQ(state({"model.log"}), "failed");
  EXPECT_EQ(state({"model.log", "x.lock"}), "failed");
  EXPECT_EQ(state({"model.hlo_module.pb.lock", "model.hlo_module.pb"}), "locked");
  EXPECT_EQ(state({"model.neff", "model.log"}), "empty");
  EXPECT_EQ(state({"model.neff"}), "empty");
  EXPECT_EQ(state({"compile_flags.json"}), "empty");
  // From a compiler up to 2.14, which writes no marker: optimum's clean-up calls it empty too.
  EXPECT_EQ(state({"model.hlo.pb", "compile_flags.txt", "model.neff"}), "empty");
  EXPECT_EQ(state({"model.hlo.pb.gz", "compile_flags.txt", "model.neff", "model.done"}), "done");
  EXPECT_EQ(state({"model.hlo.pb", "compile_flags.txt", "model.log"}), "failed");
  EXPECT_EQ(state({"model.hlo.pb.gz", "model.hlo.pb.lock"}), "locked");
}

TEST(Listings, ReadTheNamesOfBothKinds) {
  const CacheWorkshop workshop;
  for (const char* module :
       {"MODULE_50a122f44c378e1567a4+ede6753c", "MODULE_7411938889920977621+d41d8cd9",
        "MODULE_+d41d8cd9", "MODULE_x/y", "MODULE_12+d41d8cd", "MODULE_12+D41D8CD9"})
    workshop.Write(module, "model.done", "");
  const auto listing = ListCache(workshop.root());
  ASSERT_TRUE(listing.ok());
  std::vector<std::pair<std::string, bool>> names;
  for (const CacheEntry& entry : listing->entries)
    names.push_back({entry.module, entry.well_named});
  EXPECT_THAT(names, ElementsAre(std::pair("MODULE_+d41d8cd9", false),
                                 std::pair("MODULE_12+D41D8CD9", false),
                                 std::pair("MODULE_12+d41d8cd", false),
                                 std::pair("MODULE_50a122f44c378e1567a4+ede6753c", true),
                                 std::pair("MODULE_7411938889920977621+d41d8cd9", true),
                                 std::pair("MODULE_x", false)));
}

TEST(Listings, CountFilesAndBytesAndNameStrangers) {
  const CacheWorkshop workshop;
  workshop.Done('a', 100, 1);
  workshop.Write("0_REGISTRY/0.4/x", "entry.json", "{}");
  workshop.Write("..", "notes.txt", "mine");
  std::filesystem::create_directory_symlink("/", workshop.Entry("MODULE_link+00000000"));
  const auto listing = ListCache(workshop.root());
  ASSERT_TRUE(listing.ok());
  ASSERT_EQ(listing->entries.size(), 1u);
  EXPECT_EQ(listing->entries[0].files, 3u);
  EXPECT_EQ(listing->entries[0].bytes, 102u);
  EXPECT_EQ(listing->bytes, 102u);
  EXPECT_THAT(listing->strangers, ElementsAre("neuronxcc-1/0_REGISTRY",
                                              "neuronxcc-1/MODULE_link+00000000", "notes.txt"));
}

TEST(Listings, AMissingCacheIsNotFound) {
  const CacheWorkshop workshop;
  const auto listing = ListCache(workshop.root() + "/no");
  ASSERT_FALSE(listing.ok());
  EXPECT_EQ(listing.error().code(), Errc::kNotFound);
}

std::vector<std::string> FaultsOf(const CacheWorkshop& workshop, const std::string& module) {
  const auto faults = VerifyEntry(workshop.Read(module));
  EXPECT_TRUE(faults.ok()) << faults.error().ToString();
  std::vector<std::string> out;
  for (const EntryFault& fault : *faults) out.push_back(fault.file + ": " + fault.message);
  return out;
}

TEST(Verifies, AWholeEntry) {
  const CacheWorkshop workshop;
  const std::string module = workshop.Done('a', 1, 1);
  workshop.Write(module, "model.neff", ToyNeff());
  EXPECT_THAT(FaultsOf(workshop, module), ElementsAre());
}

TEST(Verifies, FindEachFault) {
  const CacheWorkshop workshop;
  const std::string module = workshop.Done('a', 1, 1);
  const auto neff = [&](const std::string& contents) {
    workshop.Write(module, "model.neff", contents);
    return FaultsOf(workshop, module);
  };
  EXPECT_THAT(neff("short"), ElementsAre(HasSubstr("ends inside the header: 5 of 1024 bytes")));
  EXPECT_THAT(neff(ToyNeff().substr(0, 1300)),
              ElementsAre("model.neff: offset 16: data size 343 is past the end: 276 bytes are "
                          "left"));
  EXPECT_THAT(neff(ToyNeff() + "x"),
              ElementsAre("model.neff: 1368 bytes found, the header says 1367"));
  std::string flipped = ToyNeff();
  flipped.back() = static_cast<char>(flipped.back() ^ 1);
  EXPECT_THAT(neff(flipped), ElementsAre(HasSubstr("does not have the hash of the header, md5:")));
  neff(ToyNeff());
  workshop.Write(module, "compile_flags.json", "[\"-O1\"]");
  EXPECT_THAT(FaultsOf(workshop, module),
              ElementsAre(HasSubstr("compile_flags.json: the hash of the flags is ")));
}

TEST(Verifies, ACompressedGraphHasItsChecksum) {
  const CacheWorkshop workshop;
  const std::string module = workshop.Done('a', 1, 1);
  workshop.Write(module, "model.neff", ToyNeff());
  std::string graph;
  auto gzip =
      Compressor::Make(Compression::kGzip, std::nullopt, [&](std::span<const std::byte> bytes) {
        graph.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
        return OkStatus();
      });
  const std::string text = "a graph";
  ASSERT_TRUE(gzip.ok() && gzip->Add(std::as_bytes(std::span(text))).ok() && gzip->Finish().ok());
  workshop.Write(module, "model.hlo.pb.gz", graph);
  EXPECT_THAT(FaultsOf(workshop, module), ElementsAre());
  graph[12] = static_cast<char>(graph[12] ^ 2);
  workshop.Write(module, "model.hlo.pb.gz", graph);
  EXPECT_THAT(FaultsOf(workshop, module), ElementsAre(HasSubstr("model.hlo.pb.gz: offset ")));
}

TEST(Verifies, AnEntryThatIsNotFinishedHasNothingToVerify) {
  const CacheWorkshop workshop;
  workshop.Write("MODULE_1+00000000", "model.neff", "short");
  EXPECT_THAT(FaultsOf(workshop, "MODULE_1+00000000"), ElementsAre());
}

TEST(Verifies, LeaveTheTimeOfUseAlone) {
  const CacheWorkshop workshop;
  const std::string module = workshop.Done('a', 1, 1);
  workshop.Write(module, "model.neff", ToyNeff());
  workshop.Age(module, 50);
  const int64_t before = workshop.Read(module).used_ns;
  EXPECT_EQ(before, CacheWorkshop::kNow - int64_t{50} * 24 * 3600 * CacheWorkshop::kSecond);
  EXPECT_THAT(FaultsOf(workshop, module), ElementsAre());
  EXPECT_EQ(workshop.Read(module).used_ns, before);
}

TEST(Manifests, ComeBack) {
  const Manifest manifest{"a \"summary\"", {{"model.pt", 8, "sha256:00"}, {"x", 0, "sha256:11"}}};
  const testing_util::Scratch scratch;
  const auto back = ReadManifest(scratch.Write("m", WriteManifest(manifest)));
  ASSERT_TRUE(back.ok()) << back.error().ToString();
  EXPECT_EQ(*back, manifest);
}

TEST(Manifests, SayHowLongTheCompilerRan) {
  const testing_util::Scratch scratch;
  const auto back = ReadManifest(scratch.Write("m", WriteManifest({"", {}, 2470.25})));
  ASSERT_TRUE(back.ok()) << back.error().ToString();
  EXPECT_EQ(back->compile_seconds, 2470.25);
  const std::string before =
      "{\"schema\": \"nxdkit-cache-entry\", \"version\": 1, \"summary\": \"\", \"files\": []";
  const auto old = ReadManifest(scratch.Write("old", before + "}"));
  ASSERT_TRUE(old.ok()) << old.error().ToString();
  EXPECT_EQ(old->compile_seconds, std::nullopt);
  for (const char* bad : {"-1", "\"41 min\"", "1e10", "true"}) {
    const auto refused =
        ReadManifest(scratch.Write("bad", before + ", \"compile_seconds\": " + bad + "}"));
    ASSERT_FALSE(refused.ok()) << bad;
    EXPECT_EQ(refused.error().code(), Errc::kCorrupt) << bad;
    EXPECT_EQ(refused.error().member(), "compile_seconds") << bad;
  }
}

TEST(Manifests, AreNotTrusted) {
  const testing_util::Scratch scratch;
  const auto refused = [&](const std::string& files, const char* member) {
    const auto manifest =
        ReadManifest(scratch.Write("m.json",
                                   "{\"schema\": \"nxdkit-cache-entry\", \"version\": 1, "
                                   "\"summary\": \"\", \"files\": " +
                                       files + "}"));
    ASSERT_FALSE(manifest.ok()) << files;
    EXPECT_EQ(manifest.error().code(), Errc::kCorrupt) << files;
    EXPECT_EQ(manifest.error().member(), member) << files;
    EXPECT_EQ(manifest.error().file(), scratch.Path("m.json"));
  };
  refused("[{\"name\": \"../x\", \"bytes\": 1, \"digest\": \"\"}]", "name");
  refused("[{\"name\": \"..\", \"bytes\": 1, \"digest\": \"\"}]", "name");
  refused("[{\"name\": \"\", \"bytes\": 1, \"digest\": \"\"}]", "name");
  refused("[{\"name\": \"x\", \"bytes\": -1, \"digest\": \"\"}]", "bytes");
  refused("[{\"name\": \"x\", \"digest\": \"\"}]", "bytes");
  refused("{}", "files");
  const auto later = ReadManifest(scratch.Write(
      "m",
      "{\"schema\": \"nxdkit-cache-entry\", \"version\": 2, \"summary\": \"\", \"files\": []}"));
  ASSERT_FALSE(later.ok());
  EXPECT_EQ(later.error().code(), Errc::kUnsupported);
}

}  // namespace
}  // namespace nxdkit::neff
