#include "lib/net/http.h"

#include <dlfcn.h>
#include <fmt/core.h>

#include <algorithm>
#include <optional>

#define CURL_DISABLE_TYPECHECK  // its macros do not work with pointers to functions
#include <curl/curl.h>

#include "lib/base/errors.h"

namespace nxdkit {
namespace {

struct Curl {
  decltype(&::curl_global_init) global_init = nullptr;
  decltype(&::curl_version) version = nullptr;
  decltype(&::curl_easy_init) easy_init = nullptr;
  decltype(&::curl_easy_cleanup) easy_cleanup = nullptr;
  decltype(&::curl_easy_setopt) setopt = nullptr;
  decltype(&::curl_easy_perform) perform = nullptr;
  decltype(&::curl_easy_getinfo) getinfo = nullptr;
  decltype(&::curl_easy_strerror) strerror = nullptr;
  decltype(&::curl_slist_append) slist_append = nullptr;
  decltype(&::curl_slist_free_all) slist_free_all = nullptr;
};

// The names of Debian's builds, with OpenSSL and with GnuTLS.
constexpr const char* kLibraries[] = {"libcurl.so.4", "libcurl-gnutls.so.4"};

template <typename Function>
bool Find(void* library, const char* name, Function& out) {
  out = reinterpret_cast<Function>(::dlsym(library, name));
  return out != nullptr;
}

std::optional<Curl> Load() {
  for (const char* name : kLibraries) {
    void* library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!library) continue;
    Curl curl;
    const bool whole = Find(library, "curl_global_init", curl.global_init) &&
                       Find(library, "curl_version", curl.version) &&
                       Find(library, "curl_easy_init", curl.easy_init) &&
                       Find(library, "curl_easy_cleanup", curl.easy_cleanup) &&
                       Find(library, "curl_easy_setopt", curl.setopt) &&
                       Find(library, "curl_easy_perform", curl.perform) &&
                       Find(library, "curl_easy_getinfo", curl.getinfo) &&
                       Find(library, "curl_easy_strerror", curl.strerror) &&
                       Find(library, "curl_slist_append", curl.slist_append) &&
                       Find(library, "curl_slist_free_all", curl.slist_free_all);
    if (whole && curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK) return curl;
  }
  return std::nullopt;
}

const std::optional<Curl>& Loaded() {
  static const std::optional<Curl> curl = Load();
  return curl;
}

struct Transfer {
  const HttpRequest& request;
  std::string body = {};
  bool too_long = false;
  Status stopped = OkStatus();
};

size_t TakeBytes(const char* bytes, size_t size, size_t count, void* to) {
  Transfer& transfer = *static_cast<Transfer*>(to);
  transfer.too_long = size * count > transfer.request.most_bytes - transfer.body.size();
  if (transfer.too_long) return 0;
  transfer.body.append(bytes, size * count);
  return size * count;
}

int Poll(void* to, curl_off_t, curl_off_t, curl_off_t, curl_off_t) {
  Transfer& transfer = *static_cast<Transfer*>(to);
  if (transfer.request.poll && transfer.stopped.ok()) transfer.stopped = transfer.request.poll();
  return transfer.stopped.ok() ? 0 : 1;
}

// libcurl takes 0 as no limit.
long Milliseconds(double seconds) { return std::max(1L, static_cast<long>(seconds * 1000)); }

class Handle {
 public:
  explicit Handle(const Curl& curl) : curl_(curl), easy_(curl.easy_init()) {}
  ~Handle() {
    if (headers_) curl_.slist_free_all(headers_);
    if (easy_) curl_.easy_cleanup(easy_);
  }
  Handle(const Handle&) = delete;

  Result<HttpAnswer> Run(const HttpRequest& request) {
    NXDKIT_CHECK(easy_ != nullptr);
    Transfer transfer{request};
    char why[CURL_ERROR_SIZE] = "";
    const auto set = [&](CURLoption option, auto value) { curl_.setopt(easy_, option, value); };
    set(CURLOPT_URL, request.url.c_str());
    set(CURLOPT_NOSIGNAL, 1L);
    set(CURLOPT_PROXY, "");
    set(CURLOPT_ERRORBUFFER, &why[0]);
    set(CURLOPT_CONNECTTIMEOUT_MS, Milliseconds(request.connect_seconds));
    set(CURLOPT_TIMEOUT_MS, Milliseconds(request.seconds));
    set(CURLOPT_WRITEFUNCTION, &TakeBytes);
    set(CURLOPT_WRITEDATA, static_cast<void*>(&transfer));
    set(CURLOPT_NOPROGRESS, 0L);
    set(CURLOPT_XFERINFOFUNCTION, &Poll);
    set(CURLOPT_XFERINFODATA, static_cast<void*>(&transfer));
    if (request.post) {
      // With "Expect:" libcurl would wait for the server's go-ahead before a large body.
      for (const char* header : {"Content-Type: application/json", "Expect:"})
        headers_ = curl_.slist_append(headers_, header);
      set(CURLOPT_HTTPHEADER, headers_);
      set(CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
      set(CURLOPT_POSTFIELDS, request.body.c_str());
    }
    const CURLcode code = curl_.perform(easy_);
    NXDKIT_TRY(std::move(transfer.stopped));
    if (transfer.too_long)
      return OverLimit("the answer is longer than {} bytes", request.most_bytes).in(request.url);
    if (code != CURLE_OK)
      return Error(Errc::kIo, fmt::format("no answer: {}", why[0] ? why : curl_.strerror(code)))
          .in(request.url);
    long status = 0;
    curl_.getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    return HttpAnswer{static_cast<int>(status), std::move(transfer.body)};
  }

 private:
  const Curl& curl_;
  CURL* easy_;
  curl_slist* headers_ = nullptr;
};

}  // namespace

Result<HttpAnswer> Http(const HttpRequest& request) {
  if (!request.url.starts_with("http://") && !request.url.starts_with("https://"))
    return BadUsage("\"{}\" is not a URL of the form http://HOST:PORT", request.url);
  const std::optional<Curl>& curl = Loaded();
  if (!curl)
    return Unsupported("libcurl is not installed").hint("install the package libcurl4, or libcurl");
  return Handle(*curl).Run(request);
}

std::string HttpLibrary() { return Loaded() ? Loaded()->version() : ""; }

}  // namespace nxdkit
