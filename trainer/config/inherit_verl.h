// PRIVATE to trainer/config. The counterparts of verl's keys here.
#pragma once

#include <span>
#include <string_view>

namespace nxdkit::trainer {

struct VerlKey {
  std::string_view theirs;
  std::string_view ours = "";      // the key with the same meaning; "": none
  std::string_view left = "";      // the reason why it is not taken then
  std::string_view harmless = "";  // the value whose loss changes nothing
};

std::span<const VerlKey> VerlKeys();
// The keys of KL in the loss, or in the reward.
std::span<const VerlKey> VerlKlKeys(bool of_loss);

}  // namespace nxdkit::trainer
