// The pickle machine: every opcode, and every refusal with the offset in the pickle.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "lib/json/json.h"
#include "tests/formats/torch/builders.h"
#include "tests/formats/torch/expect_error.h"

namespace nxdkit::torch {
namespace {

using ::testing::HasSubstr;

constexpr const char* kPickleFile = "x/data.pkl";

// The JSON of the value of a pickle's body (without PROTO and STOP).
std::string Value(std::string_view body) {
  const Result<Archive> archive = ReadBytes(ArchiveOf(Pickle(body)));
  return archive.ok() ? JsonOf(*archive).value() : archive.error().ToString();
}

// `offset` counts from the start of `body`, which comes after the two bytes of PROTO.
void ExpectRefused(std::string_view body, Errc code, uint64_t offset, const std::string& says) {
  ExpectError(ReadBytes(ArchiveOf(Pickle(body))), {code, kPickleFile, offset + 2, says});
}

TEST(PickleMachine, Scalars) {
  EXPECT_EQ(Value("N"), "null");
  EXPECT_EQ(Value("\x88"), "true");
  EXPECT_EQ(Value("\x89"), "false");
  EXPECT_EQ(Value("K\xff"), "255");
  EXPECT_EQ(Value("M\xff\xff"), "65535");
  EXPECT_EQ(Value("J\xff\xff\xff\xff"), "-1");
  EXPECT_EQ(Value("I01\n"), "true");
  EXPECT_EQ(Value("I00\n"), "false");
  EXPECT_EQ(Value("I-9223372036854775808\n"), "-9223372036854775808");
  EXPECT_EQ(Value("L12L\n"), "12");
  EXPECT_EQ(Value("L01L\n"), "1");
  EXPECT_EQ(Value("F-1.5\n"), R"({"float":"-1.5"})");
  EXPECT_EQ(Value(std::string("G\x40\x09\x21\xfb\x54\x44\x2d\x18", 9)),
            R"({"float":"3.141592653589793"})");
}

TEST(PickleMachine, Longs) {
  EXPECT_EQ(Value(std::string("\x8a\x00", 2)), "0");
  EXPECT_EQ(Value("\x8a\x01\xff"), "-1");
  EXPECT_EQ(Value(std::string("\x8a\x02\xff\x00", 4)), "255");
  EXPECT_EQ(Value(std::string("\x8a\x08\0\0\0\0\0\0\0\x80", 10)), "-9223372036854775808");
  EXPECT_EQ(Value(std::string("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00", 11)),
            R"({"int":"18446744073709551615"})");
  EXPECT_EQ(Value("\x8b" + U32(1) + "\x7f"), "127");
  EXPECT_EQ(Value("\x8b" + U32(9) + std::string(8, '\xff') + std::string(1, '\0')),
            R"({"int":"18446744073709551615"})");
  EXPECT_EQ(Value("\x8b" + U32(64) + std::string(64, '\xff')), "-1") << "as pickle.loads says";
}

TEST(PickleMachine, Strings) {
  EXPECT_EQ(Value(Str("abc")), R"("abc")");
  EXPECT_EQ(Value("\x8c\x02\xc3\xa4"), "\"\xc3\xa4\"");
  EXPECT_EQ(Value("\x8d" + U64(1) + "x"), R"("x")");
  EXPECT_EQ(Value("U\x02hi"), R"("hi")");
  EXPECT_EQ(Value("T" + U32(2) + "hi"), R"("hi")");
  EXPECT_EQ(Value("X" + U32(0)), R"("")");
}

TEST(PickleMachine, Bytes) {
  EXPECT_EQ(Value("C\x02\x01\xff"), R"({"bytes":"01ff"})");
  EXPECT_EQ(Value("B" + U32(1) + "\x80"), R"({"bytes":"80"})");
  EXPECT_EQ(Value("\x8e" + U64(1) + "a"), R"({"bytes":"61"})");
  EXPECT_EQ(Value("\x96" + U64(1) + "a"), R"({"bytes":"61"})");
  EXPECT_EQ(Value(Global("_codecs", "encode") + Str("a\xc3\xbf") + Str("latin1") + "\x86R"),
            R"({"bytes":"61ff"})");
  EXPECT_EQ(Value(Global("__builtin__", "bytearray") + Str("\xc2\x80") + Str("latin-1") + "\x86R"),
            R"({"bytes":"80"})");
  EXPECT_EQ(Value(Global("builtins", "bytearray") + "C\x01z\x85R"), R"({"bytes":"7a"})");
  EXPECT_EQ(Value(Global("builtins", "bytearray") + ")R"), R"({"bytes":""})");
  EXPECT_EQ(Value(Global("__builtin__", "bytes") + ")R"), R"({"bytes":""})");
}

TEST(PickleMachine, Tuples) {
  EXPECT_EQ(Value(")"), R"({"tuple":[]})");
  EXPECT_EQ(Value("K\1\x85"), R"({"tuple":[1]})");
  EXPECT_EQ(Value("K\1K\2\x86"), R"({"tuple":[1,2]})");
  EXPECT_EQ(Value("K\1K\2K\3\x87"), R"({"tuple":[1,2,3]})");
  EXPECT_EQ(Value("(K\1K\2K\3K\4t"), R"({"tuple":[1,2,3,4]})");
}

TEST(PickleMachine, ListsSetsAndDicts) {
  EXPECT_EQ(Value("]K\1a"), R"({"list":[1]})");
  EXPECT_EQ(Value("](K\1K\2e"), R"({"list":[1,2]})");
  EXPECT_EQ(Value("(K\1K\2l"), R"({"list":[1,2]})");
  EXPECT_EQ(Value("\x8f(K\1K\2\x90"), R"({"set":[1,2]})");
  EXPECT_EQ(Value(Global("__builtin__", "set") + "]K\5a\x85R"), R"({"set":[5]})");
  EXPECT_EQ(Value(Global("builtins", "set") + ")R"), R"({"set":[]})");
  EXPECT_EQ(Value("}K\1K\2s"), R"({"dict":[[1,2]]})");
  EXPECT_EQ(Value("}(K\1K\2K\3K\4u"), R"({"dict":[[1,2],[3,4]]})");
  EXPECT_EQ(Value("(K\1K\2d"), R"({"dict":[[1,2]]})");
  EXPECT_EQ(Value(Global("collections", "OrderedDict") + ")RK\1K\2s"),
            R"({"ordered_dict":[[1,2]]})");
  EXPECT_EQ(Value(Global("collections", "OrderedDict") + "](K\1K\2\x86]K\3aK\4ae\x85R"),
            R"({"ordered_dict":[[1,2],[3,4]]})");
  EXPECT_EQ(Value(Global("collections", "OrderedDict") + ")\x81K\1K\2s"),
            R"({"ordered_dict":[[1,2]]})");
  EXPECT_EQ(Value(Global("collections", "Counter") + "}K\1K\2s\x85R"), R"({"dict":[[1,2]]})");
}

TEST(PickleMachine, OrderedDictsLoseTheirAttributes) {
  EXPECT_EQ(Value(Global("collections", "OrderedDict") + ")R}" + Str("_metadata") + "}sb"),
            R"({"ordered_dict":[]})");
}

TEST(PickleMachine, TorchValues) {
  EXPECT_EQ(Value(Global("torch", "bfloat16")), R"({"dtype":"bfloat16"})");
  EXPECT_EQ(Value(Global("torch", "qint8")), R"({"opaque":"torch.qint8"})");
  EXPECT_EQ(Value(Global("torch", "Size") + "K\1K\2\x86\x85R"), R"({"size":[1,2]})");
  EXPECT_EQ(Value(Global("torch", "Size") + "K\1\x85\x85\x81"), R"({"size":[1]})");
  EXPECT_EQ(Value(Global("torch", "device") + Str("cpu") + "\x85R"),
            R"({"opaque":"torch.device"})");
}

TEST(PickleMachine, MemoAndStack) {
  EXPECT_EQ(Value("K\7q\1h\1\x86"), R"({"tuple":[7,7]})");
  EXPECT_EQ(Value("K\7r" + U32(2) + "j" + U32(2) + "\x86"), R"({"tuple":[7,7]})");
  EXPECT_EQ(Value(std::string("K\7\x94K\x08\x94h\1h\0\x86\x87", 12)),
            R"({"tuple":[7,8,{"tuple":[8,7]}]})");
  EXPECT_EQ(Value("K\7"
                  "2\x86"),
            R"({"tuple":[7,7]})");
  EXPECT_EQ(Value("K\7K\x08"
                  "0"),
            "7");
  EXPECT_EQ(Value("K\7(0"), "7");
  EXPECT_EQ(Value("K\7(K\1K\2"
                  "1"),
            "7");
}

TEST(PickleMachine, SharedListsAreOneList) {
  const Result<Archive> archive = ReadBytes(ArchiveOf(Pickle("]q\1h\1\x86")));
  ASSERT_TRUE(archive.ok());
  const PickleList& pair = *archive->root.list();
  ASSERT_NE(pair[0].list(), nullptr);
  EXPECT_EQ(pair[0].list(), pair[1].list());
}

TEST(PickleMachine, NewerSpellings) {
  EXPECT_EQ(Value("\x95" + U64(3) + "K\1"), "1");
  EXPECT_EQ(Value("\x8c\x05torch\x8c\x08"
                  "bfloat16\x93"),
            R"({"dtype":"bfloat16"})");
  EXPECT_EQ(Value("\x8c\x0b"
                  "collections\x8c\x0bOrderedDict\x93)}\x92"),
            R"({"ordered_dict":[]})");
  const Result<Archive> archive = ReadBytes(ArchiveOf("\x80\x05K\1."));
  EXPECT_TRUE(archive.ok());
}

// ---- references ----

std::string Reference(std::string_view state) {
  return Global("torch_xla.utils.serialization", "TensorReference") + ")\x81" + std::string(state) +
         "b";
}

TEST(PickleMachine, References) {
  EXPECT_EQ(Value(Reference("}" + Str("tid") + "M\x2c\1s")), R"({"reference":300})");
  EXPECT_EQ(Value("\x8c\x1dtorch_xla.utils.serialization\x8c\x0fTensorReference\x93)\x81}" +
                  Str("tid") + "K\1sb"),
            R"({"reference":1})");
  EXPECT_EQ(Value(Global("neuronx_distributed.trainer.checkpoint", "_InternalTensorReference") +
                  ")\x81}(" + Str("tid") + "K\2" + Str("shape") + "N" + Str("dtype") + "N" +
                  Str("expert_model_parallel") + "\x89ub"),
            R"({"reference":2})");
}

TEST(PickleMachine, RefusesOtherReferences) {
  const uint64_t build = Reference("").size() - 1;
  ExpectRefused(Reference("N"), Errc::kCorrupt, build + 1, "from a None, expected a dict");
  const std::string unknown = "}" + Str("name") + "K\1s";
  ExpectRefused(Reference(unknown), Errc::kUnsupported, build + unknown.size(),
                "unknown attribute \"name\"");
  const std::string negative = "}" + Str("tid") + "J\xff\xff\xff\xffs";
  ExpectRefused(Reference(negative), Errc::kCorrupt, build + negative.size(),
                "not an integer of 0 or more");
  const std::string text = "}" + Str("tid") + Str("1") + "s";
  ExpectRefused(Reference(text), Errc::kCorrupt, build + text.size(),
                "not an integer of 0 or more");
  ExpectRefused(Global("torch_xla.utils.serialization", "TensorReference") + "K\1\x85\x81",
                Errc::kCorrupt, 50, "called with other arguments than ()");
  ExpectError(ReadBytes(ArchiveOf(Pickle(Reference("}")))),
              {Errc::kCorrupt, kPickleFile, {}, "a tensor reference has no tid"});
}

// ---- refusals ----

TEST(PickleMachine, RefusesGlobalsByName) {
  ExpectRefused("]" + Global("os", "system") + "a", Errc::kUnsupported, 1,
                "asks for the global os.system,");
  ExpectRefused(Str("posix") + Str("system") + "\x93", Errc::kUnsupported, 21, "posix.system,");
  ExpectRefused(Global("__builtin__", "eval"), Errc::kUnsupported, 0, "builtins.eval,");
  ExpectRefused(Global("torch", "QInt8Storage"), Errc::kUnsupported, 0, "torch.QInt8Storage");
  ExpectRefused(Global("numpy.core.multiarray", "scalar"), Errc::kUnsupported, 0,
                "numpy.core.multiarray.scalar");
  ExpectRefused(Global("torch._utils", "_rebuild_device_tensor_from_numpy"), Errc::kUnsupported, 0,
                "_rebuild_device_tensor_from_numpy");
}

TEST(PickleMachine, RefusalsHint) {
  const auto hint = [](const char* module, const char* name) {
    return ReadBytes(ArchiveOf(Pickle(Global(module, name)))).error().hint();
  };
  EXPECT_THAT(hint("os", "system"), HasSubstr("state_dict"));
  EXPECT_THAT(hint("torch._utils", "_rebuild_sparse_tensor"), HasSubstr("to_dense"));
  EXPECT_THAT(hint("torch._utils", "_rebuild_qtensor"), HasSubstr("dequantize"));
  EXPECT_THAT(hint("numpy", "dtype"), HasSubstr("numpy"));
}

TEST(PickleMachine, RefusesOpcodesByName) {
  ExpectRefused("V1\n", Errc::kUnsupported, 0, "pickle opcode UNICODE (0x56) is not supported");
  ExpectRefused("N\x82\x01", Errc::kUnsupported, 1, "EXT1");
  ExpectRefused("(N\x91", Errc::kUnsupported, 2, "FROZENSET");
  ExpectRefused("\x99", Errc::kCorrupt, 0, "0x99 is not a pickle opcode");
  ExpectError(ReadBytes(ArchiveOf("\x80\x06N.")),
              {Errc::kUnsupported, kPickleFile, 0, "pickle protocol 6"});
}

TEST(PickleMachine, RefusesPicklesThatAreCutOff) {
  ExpectError(ReadBytes(ArchiveOf("\x80\x02N")),
              {Errc::kCorrupt, kPickleFile, 3, "ends after 3 bytes"});
  ExpectError(ReadBytes(ArchiveOf("\x80\x02J\1\2")),
              {Errc::kCorrupt, kPickleFile, 2, "ends after 5 bytes"});
  ExpectError(ReadBytes(ArchiveOf("\x80\x02X\xff\xff\xff\xff.")),
              {Errc::kCorrupt, kPickleFile, 2, "ends after 8 bytes"});
  ExpectError(ReadBytes(ArchiveOf("\x80\x02\x8d" + U64(UINT64_MAX) + ".")),
              {Errc::kCorrupt, kPickleFile, 2, "ends after 12 bytes"});
  ExpectError(ReadBytes(ArchiveOf("\x80\x02"
                                  "cos\nsystem")),
              {Errc::kCorrupt, kPickleFile, 2, "ends after"});
  ExpectError(ReadBytes(ArchiveOf("")), {Errc::kCorrupt, kPickleFile, 0, "ends after 0 bytes"});
  ExpectRefused("\x95" + U64(3) + "N", Errc::kCorrupt, 0, "FRAME of 3 bytes, but only 2 are left");
}

TEST(PickleMachine, RefusesAnEmptyStack) {
  ExpectError(ReadBytes(ArchiveOf(Pickle(""))),
              {Errc::kCorrupt, kPickleFile, 2, "STOP needs 1 values"});
  ExpectRefused("K\1s", Errc::kCorrupt, 2, "SETITEM needs 3 values on the stack, found 1");
  ExpectRefused("K\1(a", Errc::kCorrupt, 3, "APPEND needs 2 values on the stack, found 0");
}

TEST(PickleMachine, RefusesMarksThatAreMissing) {
  ExpectRefused("K\1t", Errc::kCorrupt, 2, "TUPLE without a MARK");
  ExpectRefused("((e", Errc::kCorrupt, 2, "APPENDS needs 1 values on the stack, found 0");
  ExpectRefused("0", Errc::kCorrupt, 0, "POP needs a value");
  ExpectRefused("K\1K\2", Errc::kCorrupt, 4, "STOP with 2 values and 0 marks");
  ExpectRefused("K\1(", Errc::kCorrupt, 3, "STOP needs 1 values on the stack, found 0");
}

TEST(PickleMachine, RefusesContainersOfTheWrongKind) {
  ExpectRefused("}K\1a", Errc::kCorrupt, 3, "APPEND on a value of type dict");
  ExpectRefused("](K\1K\2u", Errc::kCorrupt, 6, "SETITEMS on a value of type list");
  ExpectRefused("](K\1\x90", Errc::kCorrupt, 4, "ADDITEMS on a value of type list");
  ExpectRefused("}(K\1u", Errc::kCorrupt, 4, "SETITEMS with 1 values, expected pairs");
  ExpectRefused("(K\1d", Errc::kCorrupt, 3, "DICT of 1 values, expected pairs");
}

TEST(PickleMachine, RefusesCallsThatAreNone) {
  ExpectRefused("K\1)R", Errc::kCorrupt, 3, "REDUCE of a value of type int");
  ExpectRefused(Global("torch", "Size") + "]R", Errc::kCorrupt, 13,
                "REDUCE with a list for arguments");
  ExpectRefused(Global("torch", "Tensor") + ")R", Errc::kUnsupported, 15, "REDUCE of torch.Tensor");
  ExpectRefused(Global("torch", "Tensor") + ")\x81", Errc::kUnsupported, 15,
                "NEWOBJ of torch.Tensor");
  ExpectRefused("N)\x81", Errc::kCorrupt, 2, "NEWOBJ of a value of type None");
  ExpectRefused(
      "N)}N"
      "Ns\x92",
      Errc::kUnsupported, 6, "NEWOBJ_EX with keyword arguments");
  ExpectRefused("]}b", Errc::kUnsupported, 2, "BUILD of a list from a dict");
  ExpectRefused("NN\x93", Errc::kCorrupt, 2, "STACK_GLOBAL of None and None");
}

TEST(PickleMachine, RefusesArgumentsThatDoNotFit) {
  ExpectRefused(Global("torch", "Size") + ")R", Errc::kCorrupt, 13,
                "torch.Size called with other arguments");
  ExpectRefused(Global("torch", "Size") + "N\x85\x85R", Errc::kCorrupt, 15, "a tuple of integers");
  ExpectRefused(Global("builtins", "set") + "K\1\x85R", Errc::kCorrupt, 17, "() or a list");
  ExpectRefused(Global("collections", "OrderedDict") + "]K\1a\x85R", Errc::kCorrupt, 30,
                "a list of pairs");
  ExpectRefused(Global("_codecs", "encode") + Str("\xc4\x80") + Str("latin1") + "\x86R",
                Errc::kCorrupt, 35, "U+0100 as latin1");
  ExpectRefused(Global("_codecs", "encode") + Str("a") + Str("utf-8") + "\x86R", Errc::kCorrupt, 33,
                "a string and 'latin1'");
}

TEST(PickleMachine, RefusesNumbersThatAreNone) {
  ExpectRefused("I9223372036854775808\n", Errc::kCorrupt, 0, "not a 64-bit integer");
  ExpectRefused("I1x\n", Errc::kCorrupt, 0, "\"1x\" is not a 64-bit integer");
  ExpectRefused("Fabc\n", Errc::kCorrupt, 0, "\"abc\" is not a floating point number");
  ExpectRefused("\x8b" + U32(65) + std::string(65, 'a'), Errc::kUnsupported, 0,
                "an integer of 65 bytes, the limit is 64");
}

TEST(PickleMachine, RefusesStringsThatAreNotUtf8) {
  ExpectRefused(Str("ab\xff"), Errc::kCorrupt, 0, "a string of 3 bytes is not UTF-8 at its byte 2");
  ExpectRefused(Str("\xed\xa0\x80"), Errc::kCorrupt, 0, "not UTF-8 at its byte 0");  // a surrogate
}

TEST(PickleMachine, RefusesMemoNumbersThatWouldCostMemory) {
  ExpectRefused("Nr" + U32(1 << 30), Errc::kUnsupported, 1, "memo number 1073741824 at offset 3");
  ExpectRefused("h\7", Errc::kCorrupt, 0, "nothing was stored under memo number 7");
  ExpectRefused("Nq\2h\1", Errc::kCorrupt, 3, "nothing was stored under memo number 1");
}

// ---- the tree ----

TEST(PickleMachine, RefusesDeepNesting) {
  const auto nested = [](int levels) {
    return std::string(static_cast<size_t>(levels), ']') +
           std::string(static_cast<size_t>(levels) - 1, 'a');
  };
  EXPECT_TRUE(ReadBytes(ArchiveOf(Pickle(nested(500)))).ok());
  ExpectError(ReadBytes(ArchiveOf(Pickle(nested(501)))),
              {Errc::kUnsupported, kPickleFile, {}, "nested more than 500 levels deep"});
  ExpectError(ReadBytes(ArchiveOf(Pickle(nested(1000000)))),
              {Errc::kUnsupported, kPickleFile, {}, "nested more than 500 levels deep"});
  ExpectError(ReadBytes(ArchiveOf(Pickle("N" + std::string(1000000, '\x85')))),
              {Errc::kUnsupported, kPickleFile, {}, "nested more than 500 levels deep"});
}

TEST(PickleMachine, RefusesDeepNestingThroughTheMemo) {
  // A chain of 400 lists, used once at the top and once under 200 more lists.
  const std::string chain = std::string(400, ']') + std::string(399, 'a');
  const std::string body =
      chain + "q\1" + std::string(200, ']') + "h\1" + std::string(200, 'a') + "\x86";
  ExpectError(ReadBytes(ArchiveOf(Pickle(body))),
              {Errc::kUnsupported, kPickleFile, {}, "nested more than 500 levels deep"});
}

TEST(PickleMachine, RefusesCycles) {
  ExpectError(ReadBytes(ArchiveOf(Pickle("]q\1h\1a"))),
              {Errc::kUnsupported, kPickleFile, {}, "a list that contains itself"});
  ExpectError(ReadBytes(ArchiveOf(Pickle("]q\1}K\1h\1sa"))),
              {Errc::kUnsupported, kPickleFile, {}, "a list that contains itself"});
  ExpectError(ReadBytes(ArchiveOf(Pickle("}q\1K\1]h\1a\x85s"))),
              {Errc::kUnsupported, kPickleFile, {}, "that contains itself"});
}

// 40 lists, each holding the one before twice: 2^40 visits of a pickle of 200 bytes.
TEST(PickleMachine, RefusesExplosionsByTheMemo) {
  std::string body = "]q\1";
  for (int i = 1; i < 41; ++i) {
    const auto before = static_cast<char>(i);
    const auto after = static_cast<char>(i + 1);
    body += std::string("0](h") + before + "h" + before + "eq" + after;
  }
  ExpectError(ReadBytes(ArchiveOf(Pickle(body))),
              {Errc::kUnsupported, kPickleFile, {}, "shared so often that a walk"});
}

TEST(PickleMachine, RefusesExplosionsOfText) {
  std::string body = Str(std::string(1 << 20, 'a')) +
                     "q\1"
                     "0](";
  for (int i = 0; i < 1000; ++i) body += "h\1";
  ExpectError(ReadBytes(ArchiveOf(Pickle(body + "e"))),
              {Errc::kUnsupported, kPickleFile, {}, "shared so often that a walk"});
}

TEST(PickleMachine, RefusesCopiesOverAndOver) {
  std::string body = "](";
  for (int i = 0; i < 1000; ++i) body += "K\1";
  body +=
      "e\x85q\1"
      "0" +
      Global("builtins", "set") +
      "q\2"
      "0](";
  for (int i = 0; i < 100; ++i) body += "h\2h\1R";
  const Result<Archive> archive = ReadBytes(ArchiveOf(Pickle(body + "e")));
  ASSERT_FALSE(archive.ok());
  EXPECT_EQ(archive.error().code(), Errc::kUnsupported);
  EXPECT_THAT(archive.error().message(),
              HasSubstr("builtins.set copies the same values over and over"));
}

// A tensor call of 5 bytes, 2000 times, on one shape of 300 dimensions.
TEST(PickleMachine, RefusesTensorsOverAndOver) {
  const TestTensor tensor = {.shape = std::vector<int64_t>(300, 1),
                             .strides = std::vector<int64_t>(300, 1)};
  std::string body = Global("torch._utils", "_rebuild_tensor") + "q\1" +
                     Tuple(StorageId("FloatStorage", "0", 6) + Int(0) + IntTuple(tensor.shape) +
                           IntTuple(tensor.strides)) +
                     "q\2"
                     "00](";
  for (int i = 0; i < 2000; ++i) body += "h\1h\2R";
  const Result<Archive> archive = ReadBytes(ArchiveOf(Pickle(body + "e"), {std::string(24, '1')}));
  ASSERT_FALSE(archive.ok());
  EXPECT_EQ(archive.error().code(), Errc::kUnsupported);
  EXPECT_THAT(archive.error().message(), HasSubstr("the same tensor is rebuilt over and over"));
}

TEST(PickleMachine, RefusesMoreContainersThanMemoryShouldHold) {
  constexpr size_t kMost = 4 << 20;
  ExpectRefused("(" + std::string(kMost + 1, ']') + "t", Errc::kUnsupported, 1 + kMost,
                "containers");
}

TEST(PickleMachine, RefusesKeysThatAreThereTwice) {
  ExpectError(ReadBytes(ArchiveOf(Pickle("}(" + Str("a") + "K\1" + Str("a") + "K\2u"))),
              {Errc::kCorrupt, kPickleFile, {}, "a dict has the key \"a\" twice"});
  ExpectError(ReadBytes(ArchiveOf(Pickle("}(K\1K\1K\1K\2u"))),
              {Errc::kCorrupt, kPickleFile, {}, "a dict has the key 1 twice"});
  ExpectError(ReadBytes(ArchiveOf(Pickle("}]K\1s"))),
              {Errc::kCorrupt, kPickleFile, {}, "a list as the key of a dict"});
}

}  // namespace
}  // namespace nxdkit::torch
