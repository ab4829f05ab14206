// PRIVATE to trainer/config. What keys of verl's configuration are here.
#pragma once

#include <span>
#include <string_view>

namespace nxdkit::trainer {

struct VerlKey {
  std::string_view theirs;
  std::string_view ours = "";      // the key that means the same; "": there is none
  std::string_view left = "";      // why it is not taken then
  std::string_view harmless = "";  // the value that nobody misses
};

std::span<const VerlKey> VerlKeys();
// Those of KL in the loss, or in the reward.
std::span<const VerlKey> VerlKlKeys(bool of_loss);

}  // namespace nxdkit::trainer
