// The arrows between the rooms of the house: tools -> trainer -> formats -> lib, and inside each of
// them down the table below. In formats/ nothing that reads includes something that writes.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "tests/structure/tree.h"

namespace nxdkit::test {
namespace {

// Each room, from the foundation up, with the rooms of its own top folder that it may include. A
// room may include itself. "" stands for what lies in the folder itself.
struct Room {
  std::string_view name;
  std::vector<std::string_view> includes;
};

const std::vector<Room>& Rooms() {
  static const std::vector<std::string_view> kFormats = {
      "formats/models",     "formats/safetensors", "formats/torch",    "formats/hf",
      "formats/nxd",        "formats/rollout",     "formats/neff",     "formats/delta",
      "formats/lora",       "formats/manifest",    "formats/tar",      "formats/compile_cache",
      "formats/hardware",   "formats/vllm",        "formats/dcp",      "formats/dtensor",
      "formats/fsdp",       "formats/zero",        "formats/megatron", "formats/nkipy",
      "formats/vllm_neuron"};
  static const auto kAnd = [](std::vector<std::string_view> more) {
    more.insert(more.end(), kFormats.begin(), kFormats.end());
    return more;
  };
  static const std::vector<std::string_view> kCore = {"formats/artifact", "formats/training",
                                                      "formats/adapter"};
  static const auto kKind = [](std::vector<std::string_view> more) {
    more.push_back("formats/kinds");
    more.insert(more.end(), kCore.begin(), kCore.end());
    return kAnd(more);
  };
  static const auto kOps = [](std::vector<std::string_view> more) {
    more.push_back("formats/kinds/");
    return kKind(more);
  };
  static const std::vector<Room> kRooms = {
      {"lib/base", {}},
      {"lib/system", {"lib/base"}},
      {"lib/json", {"lib/base", "lib/system"}},
      {"lib/net", {"lib/base"}},
      {"lib/yaml", {"lib/base", "lib/json"}},
      {"lib/hash", {"lib/base", "lib/system"}},
      {"lib/compress", {"lib/base"}},
      {"lib/tensor", {"lib/base", "lib/system", "lib/hash"}},
      {"lib/page", {"lib/base", "lib/hash"}},
      {"lib/plan", {"lib/base", "lib/system", "lib/tensor"}},
      {"lib/sinks", {"lib/base", "lib/system", "lib/hash", "lib/tensor", "lib/plan"}},

      {"formats/models", {}},
      {"formats/safetensors", {"formats/models"}},
      {"formats/torch", {"formats/models"}},
      {"formats/hf", {"formats/models"}},
      {"formats/nxd", {"formats/models", "formats/torch"}},  // its shards are torch archives
      {"formats/dtensor", {"formats/torch"}},
      {"formats/dcp",
       {"formats/models", "formats/safetensors", "formats/torch",  // which its items are
        "formats/dtensor"}},
      // Rank files are read as a distributed checkpoint.
      {"formats/fsdp", {"formats/models", "formats/torch", "formats/dtensor", "formats/dcp"}},
      {"formats/zero", {"formats/torch", "formats/dtensor", "formats/dcp"}},  // and so are these
      {"formats/megatron", {"formats/torch", "formats/dtensor", "formats/dcp"}},
      {"formats/rollout", {"formats/models"}},
      {"formats/vllm", {"formats/models"}},
      {"formats/vllm_neuron", {"formats/models"}},
      {"formats/nkipy", {"formats/models"}},
      {"formats/neff", {"formats/models"}},
      {"formats/delta", {"formats/models"}},
      {"formats/lora", {"formats/models"}},
      {"formats/manifest", {"formats/models"}},
      {"formats/tar", {"formats/models", "formats/rollout"}},  // packs one version of a bundle
      {"formats/compile_cache", {"formats/models", "formats/neff"}},
      {"formats/hardware", {}},  // what instances hold
      // The core knows no kind; from the formats it uses how adapters and the numbers of optimizers
      // are stored.
      {"formats/artifact", {"formats/models", "formats/nxd", "formats/torch", "formats/lora"}},
      {"formats/training", {"formats/artifact", "formats/models", "formats/nxd", "formats/torch"}},
      {"formats/adapter",
       {"formats/artifact", "formats/models", "formats/nxd", "formats/torch", "formats/lora"}},
      {"formats/kinds", kAnd(kCore)},
      {"formats/kinds/hf", kKind({})},
      {"formats/kinds/torch", kKind({"formats/kinds/hf"})},  // whose names its tensors have
      {"formats/kinds/nxd", kKind({})},
      {"formats/kinds/rollout", kKind({})},
      {"formats/kinds/nkipy", kKind({})},
      {"formats/kinds/dcp", kKind({})},
      {"formats/kinds/fsdp", kKind({"formats/kinds/dcp"})},  // which it is read as
      {"formats/kinds/zero", kKind({"formats/kinds/dcp"})},
      {"formats/kinds/megatron", kKind({"formats/kinds/dcp"})},
      {"formats/kinds/delta",
       kKind({"formats/kinds/rollout"})},  // whose versions record its digest
      {"formats/ops/verify", kOps({})},
      {"formats/ops/digest", kOps({"formats/ops/verify"})},
      {"formats/ops/diff", kOps({"formats/ops/verify"})},
      {"formats/ops/inspect", kOps({"formats/ops/verify"})},
      {"formats/ops/sample", kOps({"formats/ops/convert"})},
      {"formats/ops/convert", kOps({"formats/ops/verify", "formats/ops/digest"})},
      {"formats/ops/read", kOps({"formats/ops/digest", "formats/ops/convert"})},
      {"formats/ops/export", kOps({"formats/ops/verify", "formats/ops/convert"})},
      {"formats/ops/precompile", kOps({"formats/ops/export"})},  // which runs compilers too

      {"trainer/base", {}},
      {"trainer/kernels", {"trainer/base"}},
      {"trainer/comm", {"trainer/base"}},
      {"trainer/mpi", {"trainer/comm"}},  // a library of its own
      {"trainer/model", {"trainer/base", "trainer/kernels", "trainer/comm"}},
      {"trainer/algo", {"trainer/base", "trainer/model"}},
      {"trainer/learner",
       {"trainer/base", "trainer/kernels", "trainer/comm", "trainer/model", "trainer/algo"}},
      {"trainer/text", {"trainer/base"}},
      {"trainer/template", {"trainer/base", "trainer/text"}},
      {"trainer/data", {"trainer/base", "trainer/text", "trainer/template"}},
      {"trainer/reward", {"trainer/base"}},
      {"trainer/rollout", {"trainer/base", "trainer/kernels", "trainer/comm", "trainer/model"}},
      {"trainer/engines", {"trainer/base", "trainer/rollout"}},
      {"trainer/config", {"trainer/base", "trainer/algo", "trainer/data", "trainer/rollout"}},
      {"trainer/report", {"trainer/base", "trainer/config"}},
      {"trainer/loop", {"trainer/"}},

      {"tools/cli", {}},
      {"tools/pictures", {"tools/cli", "tools/inspect"}},
      {"tools/conversions", {"tools/cli", "tools/pictures"}},
      {"tools/cache", {"tools/cli"}},
      {"tools/inspect", {"tools/cli"}},
      {"tools/env", {"tools/cli", "tools/conversions"}},
      {"tools", {"tools/"}},
  };
  return kRooms;
}

// Between the top folders.
struct Arrow {
  std::string_view from;
  std::string_view to;
};

constexpr Arrow kArrows[] = {
    {"formats", "lib"},     {"tools", "formats"}, {"tools", "lib"},
    {"trainer", "formats"}, {"trainer", "lib"},   {"tools", "trainer"},  // grpo-train
    {"bench", "formats"},   {"bench", "trainer"}, {"bench", "lib"},
    {"tests", "lib"},       {"tests", "formats"}, {"tests", "tools"},
    {"tests", "trainer"},   {"tests", "cmake"},  // what is precompiled
};

std::string_view Top(std::string_view path) { return path.substr(0, path.find('/')); }

bool LiesIn(std::string_view path, std::string_view room) {
  return path.size() > room.size() && path.starts_with(room) && path[room.size()] == '/';
}

// The innermost room that holds this file; empty for the top folders that have none.
std::string_view RoomOf(std::string_view path) {
  std::string_view found;
  for (const Room& room : Rooms())
    if (LiesIn(path, room.name) && room.name.size() > found.size()) found = room.name;
  return found;
}

bool IsAllowed(std::string_view from, std::string_view to) {
  if (Top(from) != Top(to))
    return std::ranges::any_of(kArrows, [&](const Arrow& arrow) {
      return arrow.from == Top(from) && arrow.to == Top(to);
    });
  const std::string_view room = RoomOf(from);
  const std::string_view target = RoomOf(to);
  if (room == target) return true;
  for (const Room& row : Rooms())
    if (row.name == room)
      return std::ranges::any_of(row.includes, [&](std::string_view allowed) {
        return allowed == target || (allowed.ends_with('/') && target.starts_with(allowed));
      });
  return false;
}

TEST(Arrows, EveryIncludeFollowsAnArrow) {
  size_t includes = 0;
  for (const SourceFile* file : FilesIn("", {".h", ".cc", ".cc.in"}))
    for (const Include& include : QuotedIncludes(*file)) {
      ++includes;
      EXPECT_TRUE(IsAllowed(file->path, include.path))
          << file->path << ":" << include.line << " includes " << include.path;
    }
  EXPECT_GT(includes, 20u) << "the tree was not found";
}

// Files of formats/kinds, by the beginnings of their names.
bool IsOf(std::string_view path, std::initializer_list<std::string_view> parts) {
  const std::string_view name = path.substr(path.rfind('/') + 1);
  return std::ranges::any_of(parts, [&](std::string_view part) { return name.starts_with(part); });
}

// Inside a kind, too, nothing that reads includes something that writes.
TEST(Arrows, WhatReadsAKindDoesNotWriteIt) {
  size_t readers = 0;
  for (const SourceFile* file : FilesIn("formats/kinds/", {".h", ".cc"})) {
    if (!IsOf(file->path, {"open", "bind", "facts", "check", "read", "unwrap", "adapter"}))
      continue;
    ++readers;
    for (const Include& include : QuotedIncludes(*file))
      EXPECT_FALSE(LiesIn(include.path, "formats/kinds") &&
                   IsOf(include.path, {"decide", "plan", "output_", "builder"}))
          << file->path << ":" << include.line << " includes " << include.path;
  }
  EXPECT_GT(readers, 20u) << "the tree was not found";
}

TEST(Arrows, IncludesAreWrittenFromTheRoot) {
  const std::filesystem::path root = NXDKIT_SOURCE_DIR;
  for (const SourceFile* file : FilesIn("", {".h", ".cc"}))
    for (const Include& include : QuotedIncludes(*file))
      EXPECT_TRUE(std::filesystem::exists(root / include.path))
          << file->path << ":" << include.line << " includes " << include.path;
}

// A file outside of every room would be free to include anything.
TEST(Arrows, EverySourceLiesInARoom) {
  for (const std::string_view top : {"lib/", "formats/", "trainer/", "tools/"})
    for (const SourceFile* file : FilesIn(top, {".h", ".cc"}))
      EXPECT_FALSE(RoomOf(file->path).empty()) << file->path;
}

TEST(Arrows, TheTableForbidsWhatItShould) {
  EXPECT_FALSE(IsAllowed("lib/base/error.h", "formats/nxd/grid.h"));
  EXPECT_FALSE(IsAllowed("lib/base/error.h", "lib/system/file.h"));
  EXPECT_FALSE(IsAllowed("lib/plan/plan.h", "lib/sinks/write_sink.h"));
  EXPECT_FALSE(IsAllowed("formats/hf/hf.h", "formats/safetensors/safetensors.h"));
  EXPECT_FALSE(IsAllowed("formats/torch/archive.h", "formats/nxd/grid.h"));
  EXPECT_FALSE(IsAllowed("formats/models/model.h", "formats/ops/verify/verify.h"));
  EXPECT_FALSE(IsAllowed("formats/artifact/bound.h", "formats/kinds/kind.h"));
  EXPECT_FALSE(IsAllowed("formats/artifact/artifact.h", "formats/dcp/folder.h"));
  EXPECT_FALSE(IsAllowed("formats/training/run_progress.cc", "formats/dcp/folder.h"));
  EXPECT_FALSE(IsAllowed("formats/kinds/open.cc", "formats/kinds/nxd/nxd_state.h"));
  EXPECT_FALSE(IsAllowed("formats/kinds/hf/open_hf.cc", "formats/kinds/nxd/nxd_state.h"));
  EXPECT_FALSE(IsAllowed("formats/kinds/nxd/plan_nxd.cc", "formats/ops/verify/fitness.h"));
  EXPECT_FALSE(IsAllowed("formats/ops/verify/verify.cc", "formats/ops/convert/convert.h"));
  EXPECT_FALSE(IsAllowed("trainer/model/decoder.h", "tools/cli/tool.h"));
  EXPECT_FALSE(IsAllowed("trainer/kernels/matmul.h", "trainer/learner/mesh_model.h"));
  EXPECT_TRUE(IsAllowed("formats/nxd/grid.h", "formats/torch/archive.h"));
  EXPECT_TRUE(IsAllowed("formats/ops/convert/convert.cc", "formats/rollout/bundle.h"));
  EXPECT_TRUE(IsAllowed("tools/grpo_train.cc", "trainer/loop/trainer.h"));
}

TEST(Arrows, TopLevelFoldersAreFixed) {
  const std::set<std::string> fixed = {"bench", "build",    "cmake", "formats", "lib",
                                       "man",   "testdata", "tests", "tools",   "trainer"};
  for (const std::string& name : RootFolders())
    EXPECT_TRUE(fixed.contains(name)) << name << " is not one of the top level folders";
}

}  // namespace
}  // namespace nxdkit::test
