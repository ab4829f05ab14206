#include "formats/torch/pickle_numbers.h"

#include <gtest/gtest.h>

#include <limits>

namespace nxdkit::torch {
namespace {

// Decimal numbers and their bytes by Python's pickle.encode_long().
const struct {
  const char* decimal;
  std::string bytes;
} kNumbers[] = {
    {"0", ""},
    {"1", "\x01"},
    {"-1", "\xff"},
    {"127", "\x7f"},
    {"128", std::string("\x80\x00", 2)},
    {"-128", "\x80"},
    {"-129", "\x7f\xff"},
    {"255", std::string("\xff\x00", 2)},
    {"-256", std::string("\x00\xff", 2)},
    {"9223372036854775807", "\xff\xff\xff\xff\xff\xff\xff\x7f"},
    {"-9223372036854775808", std::string("\0\0\0\0\0\0\0\x80", 8)},
    {"9223372036854775808", std::string("\0\0\0\0\0\0\0\x80\0", 9)},
    {"18446744073709551616", std::string("\0\0\0\0\0\0\0\0\1", 9)},
    {"-18446744073709551616", std::string("\0\0\0\0\0\0\0\0\xff", 9)},
    {"119547037146038801333356",
     "\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19"},  // torch's magic number
};

TEST(PickleNumbers, DecimalAndBack) {
  for (const auto& number : kNumbers) {
    EXPECT_EQ(LongToDecimal(number.bytes), number.decimal);
    EXPECT_EQ(DecimalToLong(number.decimal), number.bytes) << number.decimal;
    if (number.bytes.size() > 8) {
      EXPECT_EQ(LongToInt64(number.bytes), std::nullopt);
    } else {
      EXPECT_EQ(LongToInt64(number.bytes), std::stoll(number.decimal));
      EXPECT_EQ(Int64ToLong(std::stoll(number.decimal)), number.bytes);
    }
  }
}

TEST(PickleNumbers, BytesThatAreNotTheShortest) {
  EXPECT_EQ(LongToDecimal(std::string("\x01\0\0", 3)), "1");
  EXPECT_EQ(LongToDecimal("\xff\xff\xff"), "-1");
  EXPECT_EQ(LongToInt64(std::string("\x01\0\0", 3)), 1);
  EXPECT_EQ(LongToInt64(std::string(64, '\xff')), -1);  // no pickler writes this
  EXPECT_EQ(LongToInt64(std::string(64, '\0')), 0);
}

TEST(PickleNumbers, LimitsOfLength) {
  const std::string largest = std::string(kMaxLongBytes - 1, '\xff') + "\x7f";
  EXPECT_EQ(DecimalToLong(LongToDecimal(largest)), largest);
  const std::string over = std::string(kMaxLongBytes, '\xff') + std::string(1, '\0');
  EXPECT_EQ(DecimalToLong(LongToDecimal(over)), std::nullopt);
  EXPECT_EQ(DecimalToLong(std::string(1000000, '9')), std::nullopt);
}

TEST(PickleNumbers, RefusesWhatIsNoNumber) {
  for (const char* text : {"", "-", "+1", "1a", " 1", "--1", "0x1"})
    EXPECT_EQ(DecimalToLong(text), std::nullopt) << text;
}

}  // namespace
}  // namespace nxdkit::torch
