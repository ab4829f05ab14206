// Our grades of answers: grade_probe FILE, a JSON array of [given, truth]; prints an array of true
// and false.
#include "lib/json/json.h"
#include "lib/system/file.h"
#include "trainer/reward/grade.h"

#include <cstdio>

int main(int count, char** words) {
  using namespace nxdkit;
  if (count != 2) return 2;
  const auto text = ReadSmallFile(words[1], uint64_t{1} << 30);
  const auto pairs = text.ok() ? ParseJson(*text) : Result<Json>(text.error());
  if (!pairs.ok()) {
    std::fprintf(stderr, "%s\n", pairs.error().ToString().c_str());
    return 1;
  }
  Json verdicts = Json::array();
  for (const Json& pair : *pairs)
    verdicts.push_back(
        trainer::GradeAnswer(pair[0].get<std::string>(), pair[1].get<std::string>()));
  std::printf("%s\n", verdicts.dump().c_str());
  return 0;
}
