// Requests over HTTP, by libcurl, which is looked for when the first one is made: programs that
// make none do not need it.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "lib/base/error.h"

namespace nxdkit {

struct HttpRequest {
  std::string url;  // http:// or https://
  std::string body;
  bool post = true;  // with `body`, as JSON; else a GET
  double connect_seconds = 10;
  double seconds = 600;                       // for all of it
  uint64_t most_bytes = uint64_t{256} << 20;  // of an answer
  std::function<Status()> poll = {};          // called several times a second; an error ends it
};

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// No redirects are followed, and no proxy of the environment is used: engines are near. An answer
// of any status is an answer. kIo when there is none, or it is cut short; kLimit when it is too
// long; kUnsupported without libcurl; kUsage for another kind of URL.
Result<HttpAnswer> Http(const HttpRequest& request);

// What libcurl calls itself, "libcurl/7.88.1 OpenSSL/3.0.17 ..."; "" where there is none.
std::string HttpLibrary();

}  // namespace nxdkit
