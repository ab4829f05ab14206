// The reader beyond the probe table: order, lifetime, slices, published attacks, threads.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "formats/safetensors/limits.h"
#include "lib/plan/gather.h"
#include "tests/formats/safetensors/invariants.h"
#include "tests/formats/safetensors/probe_table.h"
#include "tests/formats/safetensors/write_file.h"
#include "tests/formats/scratch.h"

namespace nxdkit::safetensors {
namespace {

using testing::DataOf;
using testing::Entry;
using testing::FaultOf;
using testing::FileOf;
using testing::LengthBytes;
using testing::One;
using testing_util::Scratch;

std::string Counting(size_t bytes) {
  std::string data;
  for (size_t i = 0; i < bytes; ++i) data += static_cast<char>(i);
  return data;
}

TEST(Reader, TensorsComeInFileOrderWithTheirPlaces) {
  const Scratch scratch;
  const std::string header =
      "{\"__metadata__\":{\"b\":\"2\",\"a\":\"1\"},\"late\":" + Entry("I32", "2", "4,12") +
      ",\"early\":" + Entry("U8", "4,1", "0,4") + "}";
  const Result<TensorFile> file = Open(scratch.Write("f", FileOf(header, 12)));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  ASSERT_EQ(file->tensors.size(), 2u);
  EXPECT_EQ(file->tensors[0].name, "early");
  EXPECT_EQ(file->tensors[0].shape, (Shape{4, 1}));
  EXPECT_EQ(file->tensors[0].strides, (Shape{1, 1}));
  EXPECT_EQ(file->tensors[1].name, "late");
  EXPECT_EQ(file->tensors[1].dtype, Dtype::kI32);
  EXPECT_EQ(file->tensors[1].offset, 4u);
  EXPECT_EQ(file->tensors[1].storage->file_offset(), 8 + header.size());
  EXPECT_EQ(file->tensors[1].storage->bytes(), 12u);
  EXPECT_EQ(DataOf(file->tensors[1]), "\x05\x06\x07\x08\x09\x0a\x0b\x0c");
  EXPECT_EQ(file->metadata,
            (std::vector<std::pair<std::string, std::string>>{{"a", "1"}, {"b", "2"}}));
}

TEST(Reader, LastOfTwoEqualMetadataKeysCounts) {
  const Scratch scratch;
  const auto file = Open(scratch.Write(
      "f", FileOf("{\"__metadata__\":{\"k\":\"1\",\"a\":\"x\",\"k\":\"2\",\"k\":\"3\"}}")));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  EXPECT_EQ(file->metadata,
            (std::vector<std::pair<std::string, std::string>>{{"a", "x"}, {"k", "3"}}));
}

TEST(Reader, SortsManyEntriesInAnyOrder) {
  constexpr uint64_t kCount = 1000;
  std::vector<uint64_t> order(kCount);
  for (uint64_t i = 0; i < kCount; ++i) order[i] = i;
  std::shuffle(order.begin(), order.end(), std::mt19937(7));
  std::string header = "{";
  for (const uint64_t i : order)
    header += (header.size() == 1 ? "\"" : ",\"") + std::to_string(i) +
              "\":" + Entry("U8", "1", std::to_string(i) + "," + std::to_string(i + 1));
  const Scratch scratch;
  const auto file = Open(scratch.Write("f", FileOf(header + "}", kCount)));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  for (uint64_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(file->tensors[i].name, std::to_string(i));
    ASSERT_EQ(file->tensors[i].offset, i);
    ASSERT_EQ(file->tensors[i].shape, (Shape{1}));
  }
}

TEST(Reader, EveryDtypeWithItsBits) {
  const Scratch scratch;
  for (int i = 0; i < kSafetensorsDtypeCount; ++i) {
    const DtypeInfo& info = Info(static_cast<Dtype>(i));
    const int bytes = info.bits;  // for 8 elements
    const auto file =
        Open(scratch.Write("f", FileOf(One(info.name, "8", "0," + std::to_string(bytes)),
                                       static_cast<size_t>(bytes))));
    ASSERT_TRUE(file.ok()) << info.name << ": " << file.error().ToString();
    EXPECT_EQ(file->tensors[0].dtype, info.dtype) << info.name;
    EXPECT_EQ(DataOf(file->tensors[0]).size(), static_cast<size_t>(bytes)) << info.name;
  }
}

// Reference vectors: 2.25, 1, 1, 1 as BF16; -1+1i as C64.
TEST(Reader, DataIsLittleEndian) {
  const Scratch scratch;
  const std::string header = FileOf(One("BF16", "4", "0,8"));
  const auto file =
      Open(scratch.Write("f", header + std::string("\x10\x40\x80\x3f\x80\x3f\x80\x3f", 8)));
  ASSERT_TRUE(file.ok());
  EXPECT_FALSE(file->tensors[0].big_endian);
  const std::string data = DataOf(file->tensors[0]);
  const auto* const bytes = reinterpret_cast<const std::byte*>(data.data());
  EXPECT_EQ(ElementAsDouble(Dtype::kBF16, bytes), 2.25);
  EXPECT_EQ(ElementAsDouble(Dtype::kBF16, bytes + 6), 1.0);

  const auto complex = Open(scratch.Write(
      "c", FileOf(One("C64", "1", "0,8")) + std::string("\x00\x00\x80\xbf\x00\x00\x80\x3f", 8)));
  ASSERT_TRUE(complex.ok());
  const std::string pair = DataOf(complex->tensors[0]);
  EXPECT_EQ(ElementAsDouble(Dtype::kC64, reinterpret_cast<const std::byte*>(pair.data())), -1.0);
}

TEST(Reader, TensorsOutliveTheirContainerAndTheFileName) {
  const Scratch scratch;
  const std::string path = scratch.Write("f", FileOf(One("U8", "3", "0,3"), 3));
  StoredTensor kept;
  {
    auto file = Open(path);
    ASSERT_TRUE(file.ok());
    kept = std::move(file->tensors[0]);
  }
  // A rewrite by rename leaves the open file as it was.
  ASSERT_TRUE(WriteFileAtomic(path, "other").ok());
  EXPECT_EQ(DataOf(kept), "\x01\x02\x03");
}

TEST(Reader, ThreadsDoNotDisturbEachOther) {
  const Scratch scratch;
  std::vector<std::string> wrong(4);
  std::vector<std::jthread> threads;
  for (size_t t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int round = 0; round < 10; ++round) {
        const std::string data(64 * (t + 1), static_cast<char>('a' + round));
        const std::string size = std::to_string(data.size());
        const std::string path =
            scratch.Write("f" + std::to_string(t), FileOf(One("U8", size, "0," + size)) + data);
        const auto file = Open(path);
        if (!file.ok() || DataOf(file->tensors[0]) != data) wrong[t] = path;
      }
    });
  }
  threads.clear();
  EXPECT_THAT(wrong, ::testing::Each(""));
}

TEST(Looks, LikeSafetensorsByLengthAndFirstByte) {
  const Scratch scratch;
  const auto looks = [&](const std::string& bytes) {
    return *LooksLikeSafetensors(scratch.Write("f", bytes));
  };
  EXPECT_TRUE(looks(FileOf("{}")));
  EXPECT_TRUE(looks(FileOf(" \n{}")));
  EXPECT_TRUE(looks(FileOf("{ broken later")));
  EXPECT_FALSE(looks(""));
  EXPECT_FALSE(looks(LengthBytes(0)));
  EXPECT_FALSE(looks(LengthBytes(3) + "{}"));
  EXPECT_FALSE(looks(FileOf("[]")));
  EXPECT_FALSE(looks(FileOf(std::string("\0{}", 3))));
  EXPECT_FALSE(looks("PK\x03\x04 a zip file of some length"));
  EXPECT_FALSE(*LooksLikeSafetensors(scratch.Path("missing")));
  EXPECT_FALSE(*LooksLikeSafetensors(scratch.folder()));
}

// serde_json allows 127 open brackets; two of them are the header and the entry.
TEST(Limits, DepthOfUnknownFields) {
  const Scratch scratch;
  const auto open = [&](size_t depth) {
    const std::string nested = std::string(depth, '[') + std::string(depth, ']');
    std::string entry = Entry("U8", "1", "0,1");
    entry.insert(1, "\"x\":" + nested + ",");
    return FaultOf(Open(scratch.Write("f", FileOf(One(entry), 1))));
  };
  EXPECT_EQ(open(125), testing::kNone);
  EXPECT_EQ(open(126), "InvalidHeaderDeserialization");
}

TEST(Limits, DimsTogether) {
  const Scratch scratch;
  const auto open = [&](size_t rank) {
    std::string shape = "1";
    for (size_t i = 1; i < rank; ++i) shape += ",1";
    return Open(scratch.Write("f", FileOf(One("U8", shape, "0,1"), 1)));
  };
  EXPECT_TRUE(open(kSpareDims + kDimsPerTensor).ok());
  const auto over = open(kSpareDims + kDimsPerTensor + 1);
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().code(), Errc::kLimit);
  EXPECT_EQ(over.error().tensor(), "t");
  EXPECT_THAT(over.error().message(), ::testing::HasSubstr("more than 65552 dims together"));
}

TEST(Limits, LongestString) {
  const Scratch scratch;
  const auto open = [&](size_t bytes) {
    return Open(scratch.Write(
        "f", FileOf("{\"__metadata__\":{\"k\":\"" + std::string(bytes, 'x') + "\"}}")));
  };
  EXPECT_TRUE(open(size_t{16} << 20).ok());
  const auto over = open((size_t{16} << 20) + (128 << 10));
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().code(), Errc::kLimit);
  EXPECT_THAT(over.error().message(), ::testing::HasSubstr("the limit is 16777216"));
}

TEST(Limits, MetadataEntries) {
  const Scratch scratch;
  std::string header = "{\"__metadata__\":{";
  for (uint64_t i = 0; i <= kMaxMetadataEntries; ++i)
    header += "\"\":\"\",";  // one more than allowed
  header.back() = '}';
  const auto over = Open(scratch.Write("f", FileOf(header + "}")));
  ASSERT_FALSE(over.ok());
  EXPECT_EQ(over.error().code(), Errc::kLimit);
  EXPECT_THAT(over.error().message(), ::testing::HasSubstr("more than 1000000 entries"));
}

TEST(Limits, PaddingOfAnyLengthIsFree) {
  const Scratch scratch;
  const std::string padding(size_t{40} << 20, ' ');
  const auto file = Open(scratch.Write("f", FileOf(padding + "{}" + padding)));
  EXPECT_TRUE(file.ok()) << file.error().ToString();
  const auto tail = Open(scratch.Write("f", FileOf("{}" + padding + "x")));
  EXPECT_EQ(FaultOf(tail), "InvalidHeaderDeserialization");
  EXPECT_EQ(tail.ok() ? 0 : *tail.error().offset(), 8 + 2 + padding.size());
}

// UTF-8 comes before JSON, and is checked across the block borders of the reader.
TEST(Utf8, CharactersAcrossBlocks) {
  const Scratch scratch;
  for (size_t shift = 0; shift < 4; ++shift) {
    std::string name(shift, 'a');
    for (int i = 0; i < 50'000; ++i) name += "\xf0\x9f\x98\x80";
    const std::string header = "{\"" + name + "\":" + Entry("U8", "1", "0,1") + "}";
    const auto file = Open(scratch.Write("f", FileOf(header, 1)));
    ASSERT_TRUE(file.ok()) << file.error().ToString();
    EXPECT_EQ(file->tensors[0].name, name);

    std::string bad = "{'" + header;  // wrong JSON at the start, wrong UTF-8 later
    const size_t place = 2 + 2 + shift + 4 * 49'000 + 2;
    bad[place] = 'x';
    const auto refused = Open(scratch.Write("f", FileOf(bad, 1)));
    EXPECT_EQ(FaultOf(refused), "InvalidHeader");
    EXPECT_EQ(refused.ok() ? 0 : *refused.error().offset(), 8 + place - 2);
  }
}

TEST(Utf8, CharacterCutByTheEndOfTheHeader) {
  const Scratch scratch;
  const auto file = Open(scratch.Write("f", FileOf("{}\xf0\x9f\x98")));
  EXPECT_EQ(FaultOf(file), "InvalidHeader");
  EXPECT_EQ(file.ok() ? 0 : *file.error().offset(), 10u);
}

// The published attack files.
TEST(Attack, LengthOverwritten) {
  const Scratch scratch;
  std::string bytes = FileOf("{\"weight\":" + Entry("F32", "2,2", "0,16") + "}", 16);
  bytes.replace(0, 8, LengthBytes(1000));
  EXPECT_EQ(FaultOf(Open(scratch.Write("f", bytes))), "InvalidHeaderLength");
}

TEST(Attack, HeaderOf778MegabytesIsRefusedUnread) {
  const Scratch scratch;
  const std::string path = scratch.Write("f", LengthBytes(778'888'890) + "{");
  std::filesystem::resize_file(path, 8 + 778'888'890 + 16);  // sparse
  EXPECT_EQ(FaultOf(Open(path)), "HeaderTooLarge");
}

TEST(Attack, HundredThousandEqualRanges) {
  std::string header = "{";
  for (int i = 0; i < 100'000; ++i)
    header +=
        (i == 0 ? "\"" : ",\"") + std::to_string(i) + "\":" + Entry("F32", "200,200", "0,160000");
  const Scratch scratch;
  const auto file = Open(scratch.Write("f", FileOf(header + "}") + std::string(160'000, '\0')));
  EXPECT_EQ(FaultOf(file), "InvalidOffset");
  ASSERT_FALSE(file.ok());
  EXPECT_THAT(file.error().message(),
              ::testing::HasSubstr("[0, 160000] where the data before ends at 160000"));
}

TEST(Attack, TenEqualRanges) {
  std::string header = "{";
  for (int i = 0; i < 10; ++i)
    header += (i == 0 ? "\"w" : ",\"w") + std::to_string(i) + "\":" + Entry("F32", "2,2", "0,16");
  const Scratch scratch;
  EXPECT_EQ(FaultOf(Open(scratch.Write("f", FileOf(header + "}", 16)))), "InvalidOffset");
}

TEST(Attack, HeaderCutToHalf) {
  const Scratch scratch;
  std::string bytes = FileOf(One("F32", "2,2", "0,16"), 16);
  bytes.replace(0, 8, LengthBytes((bytes.size() - 8 - 16) / 2));
  EXPECT_EQ(FaultOf(Open(scratch.Write("f", bytes))), "InvalidHeaderDeserialization");
}

// Random files: all names found, all bytes equal, everything aligned to its dtype.
TEST(RoundTrip, RandomFiles) {
  const Scratch scratch;
  std::mt19937 random(20);
  const auto pick = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 100; ++round) {
    std::vector<OutputTensor> tensors;
    std::vector<std::string> data;
    for (int t = pick(1, 7); t > 0; --t) {
      OutputTensor tensor{"tensor" + std::to_string(t), static_cast<Dtype>(pick(0, 21)), {}};
      for (int rank = pick(1, 7); rank > 0; --rank) tensor.shape.push_back(pick(1, 7));
      const Result<uint64_t> bytes = PackedBytes(tensor.dtype, tensor.shape);
      if (!bytes.ok() || *bytes > 100'000) continue;  // half a byte, or too big for a quick test
      data.push_back(Counting(*bytes));
      tensors.push_back(std::move(tensor));
    }
    const auto file = Open(scratch.Write("f", testing::WholeFile(tensors, data)));
    ASSERT_TRUE(file.ok()) << file.error().ToString();
    ASSERT_EQ(testing::BrokenInvariant(*file), "");
    ASSERT_EQ(file->tensors.size(), tensors.size());
    for (const StoredTensor& tensor : file->tensors) {
      const auto same = std::ranges::find(tensors, tensor.name, &OutputTensor::name);
      ASSERT_NE(same, tensors.end()) << tensor.name;
      EXPECT_EQ(tensor.dtype, same->dtype);
      EXPECT_EQ(tensor.shape, same->shape);
      EXPECT_EQ(DataOf(tensor), data[static_cast<size_t>(same - tensors.begin())]);
      const uint64_t place = tensor.storage->file_offset() + tensor.offset;
      EXPECT_EQ(place % static_cast<uint64_t>(Info(tensor.dtype).swap_bytes), 0u);
    }
  }
}

// 160 tensors like those of a small GPT-2.
TEST(RoundTrip, ManyNamedTensors) {
  std::vector<OutputTensor> tensors;
  std::vector<std::string> data;
  for (int layer = 0; layer < 12; ++layer) {
    for (const char* part :
         {"ln_1.weight", "ln_1.bias", "attn.bias", "attn.c_attn.weight", "attn.c_attn.bias",
          "attn.c_proj.weight", "attn.c_proj.bias", "ln_2.weight", "ln_2.bias", "mlp.c_fc.weight",
          "mlp.c_fc.bias", "mlp.c_proj.weight", "mlp.c_proj.bias"}) {
      tensors.push_back({"h." + std::to_string(layer) + "." + part, Dtype::kF32, {4, 6}});
      data.push_back(std::string(96, static_cast<char>(data.size())));
    }
  }
  for (const char* name : {"wte.weight", "wpe.weight", "ln_f.weight", "ln_f.bias"}) {
    tensors.push_back({name, Dtype::kF32, {6}});
    data.push_back(std::string(24, static_cast<char>(data.size())));
  }
  ASSERT_EQ(tensors.size(), 160u);
  const Scratch scratch;
  const auto file = Open(scratch.Write("f", testing::WholeFile(tensors, data)));
  ASSERT_TRUE(file.ok()) << file.error().ToString();
  ASSERT_EQ(file->tensors.size(), 160u);
  for (const StoredTensor& tensor : file->tensors) {
    const auto same = std::ranges::find(tensors, tensor.name, &OutputTensor::name);
    EXPECT_EQ(DataOf(tensor), data[static_cast<size_t>(same - tensors.begin())]) << tensor.name;
  }
}

// Slices are boxes for the plan engine; these are the reference's runs.
std::string ReadBox(const StoredTensor& tensor, const Box& box) {
  const Box chunk = WholeBox(box.extent);
  std::string out(static_cast<size_t>(box.Volume() * ElementBytes(tensor.dtype)), '?');
  CopyOp op{0, 0, chunk, 0, tensor.strides};
  for (size_t d = 0; d < box.lo.size(); ++d) op.start += box.lo[d] * tensor.strides[d];
  const auto move = ClipToSlice(op, tensor, SliceOf(chunk), RowMajorStrides(box.extent),
                                tensor.dtype, reinterpret_cast<std::byte*>(out.data()));
  Gatherer gatherer(1 << 16);
  if (!move || !gatherer.Run({*move}).ok()) ADD_FAILURE() << BoxText(box);
  return out;
}

TEST(Slices, HaveTheReferencesBytes) {
  const Scratch scratch;
  const std::string data = Counting(24);
  const auto file = Open(scratch.Write("f", FileOf(One("F32", "2,3", "0,24")) + data));
  ASSERT_TRUE(file.ok());
  const StoredTensor& flat = file->tensors[0];
  EXPECT_EQ(ReadBox(flat, {{0, 0}, {2, 3}}), data);                                    // :
  EXPECT_EQ(ReadBox(flat, {{0, 1}, {2, 2}}), data.substr(4, 8) + data.substr(16, 8));  // :,1:3
  EXPECT_EQ(ReadBox(flat, {{1, 1}, {1, 2}}), data.substr(16, 8));                      // 1,1:3
  EXPECT_EQ(ReadBox(flat, {{1, 0}, {1, 1}}), data.substr(12, 4));                      // 1:2,0

  const auto deep = Open(scratch.Write("g", FileOf(One("F32", "1,2,3", "0,24")) + data));
  ASSERT_TRUE(deep.ok());
  EXPECT_EQ(ReadBox(deep->tensors[0], {{0, 0, 0}, {1, 2, 1}}),
            data.substr(0, 4) + data.substr(12, 4));
  EXPECT_EQ(ReadBox(deep->tensors[0], {{0, 1, 0}, {1, 1, 1}}), data.substr(12, 4));
}

}  // namespace
}  // namespace nxdkit::safetensors
