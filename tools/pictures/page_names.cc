#include "tools/pictures/page_names.h"

#include "lib/base/text.h"
#include "lib/json/json.h"

namespace nxdkit::tool {

std::string ShownName(std::string_view name) {
  constexpr size_t kMostColumns = 400;
  return ShortenMiddle(EscapeControl(name), kMostColumns);
}

std::string NameJson(std::string_view name) { return Json(ShownName(name)).dump(); }

}  // namespace nxdkit::tool
