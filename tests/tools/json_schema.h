// PRIVATE to tests: JSON Schema (2020-12), the part that tools/schemas uses. An unknown keyword is
// a fault of the schema.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "lib/json/json.h"

namespace nxdkit::test {

class Schemas {
 public:
  // All *.json of the folder; "$ref": "common.json#/$defs/x" refers to these.
  explicit Schemas(const std::string& folder);

  bool Has(const std::string& file) const { return files_.contains(file); }
  const Json& file(const std::string& name) const { return files_.at(name); }

  // The faults of `value`: "error.rank: found -1, the least is 0". Empty for a valid one.
  std::vector<std::string> Faults(const std::string& file, const Json& value) const;

  // Paths of all properties that the schema names, in the spelling of a man page: "tensors[].name".
  std::set<std::string> Paths(const std::string& file) const;

 private:
  struct Outcome {
    std::vector<std::string> faults;
    std::set<std::string> evaluated;  // properties of the object that some schema covered
  };
  struct Place {
    std::string file;  // for $ref without a file
    std::string path;  // the value's
  };
  Outcome Check(const Json& schema, const Json& value, const Place& place) const;
  void CheckValue(const Json& schema, const Json& value, const Place& place, Outcome& out) const;
  void CheckObject(const Json& schema, const Json& value, const Place& place, Outcome& out) const;
  void CheckOneOf(const Json& variants, const Json& value, const Place& place, Outcome& out) const;
  const Json& Resolve(const std::string& ref, Place& place) const;
  void AddPaths(const Json& schema, const Place& place, std::set<std::string>& paths) const;

  std::map<std::string, Json> files_;
};

// The schemas of the source tree.
const Schemas& SourceSchemas();

}  // namespace nxdkit::test
