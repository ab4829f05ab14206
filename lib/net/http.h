// HTTP requests with libcurl, which is loaded for the first one: programs that make none do not
// need it.
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
  double seconds = 600;                       // for the whole request
  uint64_t most_bytes = uint64_t{256} << 20;  // of an answer
  std::function<Status()> poll = {};          // called several times a second; an error ends it
};

struct HttpAnswer {
  int status = 0;
  std::string body;
};

// No redirects are followed, and proxies from the environment are ignored: engines are near. An
// answer of any status is an answer. kIo if there is none, or it is cut short; kLimit if it is too
// long; kUnsupported without libcurl; kUsage for other kinds of URL.
Result<HttpAnswer> Http(const HttpRequest& request);

// The version that libcurl reports, "libcurl/7.88.1 OpenSSL/3.0.17 ..."; "" without libcurl.
std::string HttpLibrary();

}  // namespace nxdkit
