// PRIVATE to tests. Trees of vLLM Neuron and of TorchNeuron made by hand, following FORMAT.md.
#pragma once

#include <fcntl.h>
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <ctime>
#include <filesystem>
#include <string>
#include <vector>

#include "formats/compile_cache/lite_tree.h"
#include "formats/compile_cache/tree.h"
#include "lib/hash/base64.h"
#include "lib/hash/digest.h"
#include "tests/formats/scratch.h"

namespace nxdkit::testing_util {

// A field of a protobuf message with bytes in it.
inline std::string PutField(uint64_t number, const std::string& bytes) {
  const auto varint = [](uint64_t value) {
    std::string text;
    for (; value >= 0x80; value >>= 7) text += static_cast<char>(0x80 | (value & 0x7f));
    return text + static_cast<char>(value);
  };
  return varint(number << 3 | 2) + varint(bytes.size()) + bytes;
}

// A module of one computation with an instruction for each configuration, and other fields around
// them that are to be ignored.
inline std::string GraphOf(const std::vector<std::string>& configs) {
  std::string instructions = PutField(1, "main") + std::string("\x28\x07", 2);  // id: 7
  for (const std::string& config : configs)
    instructions += PutField(2, PutField(1, "call") + PutField(2, "custom-call") +
                                    PutField(28, "AwsNeuronCustomNativeKernel") +
                                    PutField(43, config) + std::string("\x98\x02\x01", 3));
  return PutField(1, "jit_main") + PutField(2, "main") + PutField(3, instructions) +
         std::string("\x31\x01\x02\x03\x04\x05\x06\x07\x08", 9);
}

// The configuration of a kernel as Python's json writes it.
inline std::string KernelConfig(const std::string& binary, const std::string& name = "add") {
  return Base64Text("{\"func_name\": \"" + name +
                    "\", \"grid\": [1, 1], \"kernel_format\": \"bir\", \"klir_binary\": "
                    "{\"aliases\": {}, \"binary\": \"" +
                    binary + "\", \"input_names\": [\"a\"]}, \"platform_target\": \"trn2\"}");
}
inline std::string KernelFile(const std::string& config, const std::string& more = "") {
  return "{\"dumped_config\":\"" + config + "\"," + more +
         "\"operand_output_aliases\":{},\"return_types\":[[\"bfloat16\",[2,4]]],"
         "\"schema_version\":1}";
}

class LiteWorkshop {
 public:
  LiteWorkshop() { std::filesystem::create_directory(root()); }

  const Scratch& scratch() const { return scratch_; }
  std::string Path(const std::string& name) const { return scratch_.Path(name); }
  std::string root() const { return Path("tree"); }
  std::string In(const std::string& name, const std::string& tree = "tree") const {
    return Path(tree + "/" + name);
  }
  void Write(const std::string& name, const std::string& contents,
             const std::string& tree = "tree") const {
    std::filesystem::create_directories(std::filesystem::path(In(name, tree)).parent_path());
    scratch_.Write(tree + "/" + name, contents);
  }

  static std::string Neff() { return ReadBytes(NXDKIT_TESTDATA "/neff/toy.neff"); }
  static std::string Key(char digit) { return std::string(32, digit); }
  static std::string Metadata(const std::string& key) {
    return "{\n  \"version\": 0,\n  \"created_timestamp\": \"2026-08-17T10:00:00\",\n"
           "  \"cache_key\": \"" +
           key +
           "\",\n  \"output_count\": 2,\n  \"unused_input_indices\": [0, 3],\n"
           "  \"has_rng_seed_parameter\": false,\n  \"io_map\": {\"1\": 2}\n}";
  }
  static std::string Marker(size_t bytes) {
    return fmt::format("completed:1787000000.25\nneff_size:{}\n", bytes);
  }

  // A whole entry; returns its key.
  std::string Whole(char digit, const std::string& graph = GraphOf({}),
                    const std::string& tree = "tree") const {
    return WholeKey(Key(digit), graph, tree);
  }
  std::string WholeKey(const std::string& key, const std::string& graph = GraphOf({}),
                       const std::string& tree = "tree") const {
    const std::string neff = Neff();
    Write(key + "/graph.hlo", graph, tree);
    Write(key + "/graph_" + key + ".neff", neff, tree);
    Write(key + "/.artifact_metadata_v0.json", Metadata(key), tree);
    Write(key + "/command.txt",
          "neuronx-cc compile /x/graph.hlo --framework XLA --target trn2 --output /x/graph_" + key +
              ".neff --logfile /x/log-neuron-cc.txt --lnc=1\n",
          tree);
    Write(key + "/.cache_accessed", "1787000100.5", tree);
    Write(key + "/.compilation_complete", Marker(neff.size()), tree);
    return key;
  }

  // The findings of verify in the tree, each as "entry: file: message".
  std::vector<std::string> Faults(const std::string& tree = "tree", int64_t now_ns = 0) const {
    return Told(tree, now_ns, false);
  }
  std::vector<std::string> Remarks() const { return Told("tree", 0, true); }
  std::vector<std::string> Told(const std::string& tree, int64_t now_ns, bool remarks) const {
    const auto found = neff::FindTree(Path(tree));
    EXPECT_TRUE(found.ok()) << found.error().ToString();
    const neff::TreeMoment moment = neff::MomentOf(found->root, now_ns);
    const auto listing = neff::ListTreeOf(*found, moment);
    EXPECT_TRUE(listing.ok()) << listing.error().ToString();
    const auto check = neff::VerifyTree(found->kind, *listing, moment, {});
    EXPECT_TRUE(check.ok()) << check.error().ToString();
    std::vector<std::string> faults;
    for (const neff::TreeFault& fault : check->faults)
      if ((fault.severity == neff::Severity::kRemark) == remarks)
        faults.push_back(fault.entry.substr(0, 2) + ": " + fault.file + ": " + fault.message);
    return faults;
  }

  // Every name below a tree, with the digests of the files' contents.
  static std::vector<std::string> Contents(const std::string& root) {
    std::vector<std::string> names;
    for (const auto& each : std::filesystem::recursive_directory_iterator(root))
      if (each.is_regular_file())
        names.push_back(std::filesystem::relative(each.path(), root).string() + " " +
                        Md5Hex(ReadBytes(each.path())));
    std::ranges::sort(names);
    return names;
  }

  // Ages the file, as if nothing had touched it for that long.
  static void Age(const std::string& path, int64_t seconds) {
    const timespec then{::time(nullptr) - seconds, 0};
    const timespec times[2] = {then, then};
    if (std::filesystem::is_directory(path)) {
      for (const auto& each : std::filesystem::directory_iterator(path))
        EXPECT_EQ(::utimensat(AT_FDCWD, each.path().c_str(), times, AT_SYMLINK_NOFOLLOW), 0);
    }
    EXPECT_EQ(::utimensat(AT_FDCWD, path.c_str(), times, 0), 0) << path;
  }

 private:
  Scratch scratch_;
};

}  // namespace nxdkit::testing_util
