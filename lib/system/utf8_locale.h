// libarchive converts names through the thread's locale, and gives up (or crashes, 3.6) on names
// beyond ASCII in the "C" locale. Names are UTF-8 here, whatever the environment says.
#pragma once

#include <locale.h>

namespace nxdkit {

// Sets this thread's character set to UTF-8 as long as the object lives. Does nothing on a system
// without the C.UTF-8 locale.
class Utf8Locale {
 public:
  Utf8Locale() : made_(::newlocale(LC_CTYPE_MASK, "C.UTF-8", nullptr)) {
    if (made_) old_ = ::uselocale(made_);
  }
  ~Utf8Locale() {
    if (!made_) return;
    ::uselocale(old_);
    ::freelocale(made_);
  }
  Utf8Locale(const Utf8Locale&) = delete;
  Utf8Locale& operator=(const Utf8Locale&) = delete;

 private:
  locale_t made_;
  locale_t old_ = nullptr;
};

}  // namespace nxdkit
