// PRIVATE to tests: a bundle's weights of two files, refreshed and read back by the tests of slots.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <set>
#include <string>

#include "formats/rollout/weight_slots.h"
#include "lib/system/file.h"
#include "tests/formats/scratch.h"

namespace nxdkit::rollout {

namespace fs = std::filesystem;

class Slots : public ::testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(weights_);
    scratch_.Write("weights/tp0", "old 0");
    scratch_.Write("weights/tp1", "old 1");
  }

  std::unique_ptr<SlotUpdate> Begin(bool sync = false) const {
    auto update = SlotUpdate::Begin(weights_, {.files = {"tp0", "tp1"}, .sync = sync});
    EXPECT_TRUE(update.ok()) << update.error().ToString();
    return update.ok() ? *std::move(update) : nullptr;
  }
  // Writes `text` into both files, without truncating.
  static void Fill(const SlotUpdate& update, const std::string& text) {
    for (const char* name : {"/tp0", "/tp1"}) {
      const Result<File> file = File::OpenWrite(update.path() + name);
      ASSERT_TRUE(file.ok());
      EXPECT_TRUE(file->Allocate(text.size()).ok());
      EXPECT_TRUE(file->WriteAt(0, std::as_bytes(std::span(text.data(), text.size()))).ok());
    }
  }
  void Refresh(const std::string& text, bool sync = false) const {
    const std::unique_ptr<SlotUpdate> update = Begin(sync);
    ASSERT_NE(update, nullptr);
    Fill(*update, text);
    const Status published = update->Publish();
    EXPECT_TRUE(published.ok()) << published.error().ToString();
  }
  std::string Current() const { return fs::read_symlink(weights_).string(); }
  std::string Read() const { return testing_util::ReadBytes(weights_ + "/tp0"); }
  std::set<std::string> Names() const {
    std::set<std::string> names;
    for (const auto& entry : fs::directory_iterator(scratch_.folder()))
      names.insert(entry.path().filename().string());
    return names;
  }
  std::string Slot(int i) const { return scratch_.Path(".weights." + std::to_string(i)); }

  const testing_util::Scratch scratch_;
  const std::string weights_ = scratch_.Path("weights");
};

}  // namespace nxdkit::rollout
