// Records with dicts that are made item by item.
#include "formats/torch/pickle_writer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "formats/torch/pickle_value.h"

namespace nxdkit::torch {
namespace {

constexpr char kClass[] = "some.module.Class";

PickleValue Key(size_t i) { return {"key " + std::to_string(i)}; }
PickleValue Item(size_t i) {
  return PickleValue::MakeDict({{{std::string("size")}, {TorchSize{{static_cast<int64_t>(i), 2}}}},
                                {{std::string("of")}, PickleValue::MakeList({Key(i), {true}})}});
}

// The bytes for a whole tree, including Python's batches of a thousand.
TEST(PickleWriter, DictsMadeItemByItemAreThoseOfATree) {
  for (const size_t count : {0, 1, 2, 999, 1000, 1001, 2000, 2001}) {
    PickleDict items;
    for (size_t i = 0; i < count; ++i) items.push_back({Key(i), Item(i)});
    const PickleValue state =
        PickleValue::MakeDict({{{std::string("many")}, PickleValue::MakeDict(items)},
                               {{std::string("one")}, {int64_t{5}}}});
    const auto tree = WritePickle(
        {std::make_shared<const PickleRecord>(PickleRecord{kClass, false, {}, state})}, {});
    const DictSource many{count, [&](const DictSource::Put& put) -> Status {
                            for (size_t i = 0; i < count; ++i) NXDKIT_TRY(put(Key(i), Item(i)));
                            return OkStatus();
                          }};
    const auto made = WriteBareRecord(kClass, {{"many", many}, {"one", PickleValue{int64_t{5}}}});
    ASSERT_TRUE(tree.ok() && made.ok());
    EXPECT_EQ(*made, *tree) << count;
  }
}

TEST(PickleWriter, AnItemThatCannotBeWrittenEndsIt) {
  const DictSource bad{1, [](const DictSource::Put& put) {
                         return put({std::string("key")}, {OpaqueObject{"torch.device"}});
                       }};
  const auto made = WriteBareRecord(kClass, {{"many", bad}});
  ASSERT_FALSE(made.ok());
  EXPECT_EQ(made.error().code(), Errc::kUnsupported);
  EXPECT_EQ(made.error().message(), "an object of torch.device cannot be written");
}

}  // namespace
}  // namespace nxdkit::torch
