// Compiled code on disk, for the processes that come after this one.
//
// A file is found by a hash of its key and holds the whole key, the bytes and a checksum of both, so that what is
// loaded is what was stored for exactly that key: anything else (cut short, changed, of another format) is as if it
// were not there, and is written anew. Code is executed, so that only what this user alone can have written counts: the
// folder and the file must be the user's own, writable by nobody else, and no links. A file appears whole or not at
// all, whoever writes at the same time. What cannot be written (a full disk, a home that is read only) is made again
// next time.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace lazuli::jit {

// LAZULI_CACHE_DIR, or ~/.cache/lazuli. Empty where LAZULI_CACHE_DIR is, or there is no home.
std::string cache_folder();

class DiskCache {
 public:
  // An empty folder: nothing is kept. The least recently used files go when there are more than `limit` bytes, which is
  // looked for at about one in `trim_every` files that are stored, since looking takes long on some disks.
  explicit DiskCache(std::string folder, int64_t limit = int64_t{256} << 20, uint64_t trim_every = 1024);
  // Code of one kind, in cache_folder(). Nothing is kept where there is none, or the library has no build id.
  static DiskCache of_kind(const std::string& kind);

  // Thread-safe, both. No file makes them throw.
  std::optional<std::string> load(std::string_view key) const;
  void store(std::string_view key, std::string_view bytes) const;

  // Where a key's bytes are kept, within the folder.
  static std::string file_name(std::string_view key);

 private:
  bool keeps() const { return !folder_.empty(); }

  const std::string folder_;
  const int64_t limit_;
  const uint64_t trim_every_;
};

// What tells this build of the library, and so the code that it generates, from any other. Empty where the linker left
// none.
const std::string& build_id();

}  // namespace lazuli::jit
