#include "tools/inspect/compiled_facts.h"

#include <map>

#include "lib/base/text.h"

namespace nxdkit::tool {
namespace {

using kinds::ArrayOf;
using kinds::Joined;
using kinds::kShownItems;
using kinds::OrNull;

std::string NeffText(const ops::NeffFacts& facts) {
  const neff::Header& header = facts.neff.header;
  const char* hash = !facts.hash_matches   ? ""
                     : *facts.hash_matches ? ", hash right"
                                           : ", hash WRONG";
  const std::string members =
      facts.listed ? fmt::format(" in {}, {}", Counted(facts.listing.members.size(), "member"),
                                 Counted(neff::CountGraphs(facts.listing), "graph"))
                   : "";
  return fmt::format("{}offset {}: NEFF {}.{}, package {}, built by {}, {}{}, {}, uuid {}{}",
                     facts.record.empty() ? "" : facts.record + ", ", facts.neff.offset,
                     header.major, header.minor, header.package, header.build,
                     HumanBytes(header.data_bytes), members, Counted(header.cores, "core"),
                     neff::UuidText(header), hash);
}

// Header texts are bytes; those that are not UTF-8 are escaped.
Json NeffJson(const ops::NeffFacts& facts) {
  const neff::Header& header = facts.neff.header;
  const auto or_null = [](const std::string& text) { return text.empty() ? Json() : Json(text); };
  return {
      {"record", or_null(facts.record)},
      {"offset", facts.neff.offset},
      {"version", {header.major, header.minor}},
      {"package", header.package},
      {"build", EscapeControl(header.build)},
      {"name", EscapeControl(header.name)},
      {"uuid", neff::UuidText(header)},
      {"hash", neff::HashText(header)},
      {"hash_matches", OrNull(facts.hash_matches)},
      {"cores", header.cores},
      {"logical_cores", header.lnc},
      {"features", header.features},
      {"payload", neff::PayloadName(facts.neff.payload)},
      {"bytes", header.data_bytes},
      {"graphs", facts.listed ? Json(neff::CountGraphs(facts.listing)) : Json()},
      {"members", ArrayOf(facts.listing.members,
                          [](const neff::Member& member) -> Json {
                            return {{"name", EscapeControl(member.name)}, {"bytes", member.bytes}};
                          })},
      {"cut_short", or_null(facts.listing.cut_short)}};
}

}  // namespace

void AddNeffs(kinds::Facts& facts, const std::vector<ops::NeffFacts>& neffs) {
  facts.Key("neffs", ArrayOf(neffs, NeffJson));
  for (size_t i = 0; i < neffs.size() && i < kShownItems; ++i) {
    facts.Line("neff", NeffText(neffs[i]));
    if (const auto& members = neffs[i].listing.members; !members.empty())
      facts.Line("members", Joined(members, [](const neff::Member& member) {
                   return kinds::ItemText({kinds::Short(member.name), member.bytes});
                 }));
  }
  if (neffs.size() > kShownItems)
    facts.Line("neff", fmt::format("and {} more", neffs.size() - kShownItems));
}

void AddCache(kinds::Facts& facts, const std::optional<neff::CacheListing>& cache) {
  if (!cache) return facts.Key("cache", {});
  struct Count {
    uint64_t entries = 0, bytes = 0;
    std::string Text() const { return fmt::format("{} ({})", entries, HumanBytes(bytes)); }
  };
  std::map<std::string_view, Count> states;
  for (const neff::CacheEntry& entry : cache->entries) {
    Count& count = states[neff::StateName(entry.state)];
    ++count.entries;
    count.bytes += entry.bytes;
  }
  const auto json = [](const neff::CacheEntry& entry) -> Json {
    return {{"compiler", entry.compiler},
            {"module", entry.module},
            {"state", neff::StateName(entry.state)},
            {"bytes", entry.bytes}};
  };
  facts.Add("entries", Count{cache->entries.size(), cache->bytes}.Text(), "cache",
            {{"bytes", cache->bytes}, {"entries", ArrayOf(cache->entries, json)}});
  for (const auto& [name, count] : states) facts.Line(name, count.Text());
}

}  // namespace nxdkit::tool
