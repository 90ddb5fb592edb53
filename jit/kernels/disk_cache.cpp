#include "jit/kernels/disk_cache.h"
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>
#include <dirent.h>
#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <sys/stat.h>
#include <unistd.h>
#include "ir/hash.h"

namespace lazuli::jit {
namespace {

constexpr char kMagic[8] = {'l', 'a', 'z', 'u', 'l', 'i', '0', '1'};
constexpr const char* kUnfinished = ".part";
constexpr size_t kNameLength = 32;
constexpr time_t kDay = 24 * 60 * 60;  // seconds

struct Header {
  char magic[sizeof kMagic];
  uint64_t key_bytes, code_bytes, check[2];
};

// 128 bits, as two streams.
struct Hash {
  uint64_t a = 0xCBF29CE484222325, b = 0x84222325CBF29CE4;
  static Hash of(std::string_view text) {
    Hash hash;
    hash.add(text);
    return hash;
  }
  void add(std::string_view text) {
    add(text.size());
    for (; text.size() >= sizeof(uint64_t); text.remove_prefix(sizeof(uint64_t))) add(word(text, sizeof(uint64_t)));
    add(word(text, text.size()));
  }

 private:
  static uint64_t word(std::string_view text, size_t n) {
    uint64_t w = 0;
    std::memcpy(&w, text.data(), n);
    return w;
  }
  void add(uint64_t w) { a = ir::mix(a, w), b = ir::mix(b, ~w); }
};

class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  File(File&& other) noexcept : descriptor_(std::exchange(other.descriptor_, -1)) {}
  File& operator=(File&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~File() {
    if (descriptor_ >= 0) close(descriptor_);
  }
  explicit operator bool() const { return descriptor_ >= 0; }
  void release() { descriptor_ = -1; }
  operator int() const { return descriptor_; }

 private:
  int descriptor_;
};

// Nobody else can have written it.
bool is_ours(const struct stat& s) { return s.st_uid == geteuid() && (s.st_mode & (S_IWGRP | S_IWOTH)) == 0; }

// The folder, if it is this user's own.
File open_folder(const std::string& path) {
  File folder(open(path.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat s;
  return folder && fstat(folder, &s) == 0 && is_ours(s) ? std::move(folder) : File(-1);
}

void make_folder(const std::string& path) {
  for (size_t end = path.find('/', 1);; end = path.find('/', end + 1)) {
    mkdir(path.substr(0, end).c_str(), S_IRWXU);
    if (end == std::string::npos) return;
  }
}

bool read_all(int file, char* to, size_t n) {
  while (n > 0) {
    const ssize_t got = read(file, to, n);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    to += got, n -= static_cast<size_t>(got);
  }
  return true;
}

bool write_all(int file, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t put = write(file, bytes.data(), bytes.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    bytes.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

Header header_of(std::string_view key, std::string_view bytes) {
  Header h{};
  std::memcpy(h.magic, kMagic, sizeof kMagic);
  h.key_bytes = key.size(), h.code_bytes = bytes.size();
  Hash hash;
  hash.add(key), hash.add(bytes);
  h.check[0] = hash.a, h.check[1] = hash.b;
  return h;
}

// A file of the cache, whole or not: see DiskCache::file_name.
bool is_own_name(std::string_view name) {
  const std::string_view hash = name.substr(0, kNameLength), rest = name.substr(hash.size());
  return hash.size() == kNameLength && hash.find_first_not_of("0123456789abcdef") == hash.npos &&
         (rest.empty() || rest.starts_with(kUnfinished));
}

// Removes what was used least recently until a quarter of the room is free, and what processes that died left behind.
void trim(File folder, int64_t limit) {
  const std::unique_ptr<DIR, int (*)(DIR*)> list(fdopendir(folder), closedir);
  if (!list) return;
  folder.release();
  const int at = dirfd(list.get());
  struct Kept {
    time_t used;
    int64_t bytes;
    std::string name;
  };
  std::vector<Kept> files;
  int64_t all = 0;
  while (const dirent* entry = readdir(list.get())) {
    struct stat s;
    const std::string_view name = entry->d_name;
    if (!is_own_name(name)) continue;  // somebody's, who named a folder that has other files
    if (fstatat(at, entry->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(s.st_mode)) continue;
    if (name.size() > kNameLength) {
      if (s.st_mtime + kDay < time(nullptr)) unlinkat(at, entry->d_name, 0);
      continue;
    }
    files.push_back({s.st_mtime, s.st_size, entry->d_name});
    all += s.st_size;
  }
  if (all <= limit) return;
  std::sort(files.begin(), files.end(), [](const Kept& a, const Kept& b) { return a.used < b.used; });
  for (const Kept& f : files) {
    if (all <= limit / 4 * 3) return;
    if (unlinkat(at, f.name.c_str(), 0) == 0) all -= f.bytes;
  }
}

std::string note_of(const dl_phdr_info& object) {
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& segment = object.dlpi_phdr[i];
    if (segment.p_type != PT_NOTE) continue;
    const char* at = reinterpret_cast<const char*>(object.dlpi_addr + segment.p_vaddr);
    const char* const end = at + segment.p_memsz;
    while (at + sizeof(ElfW(Nhdr)) <= end) {
      const auto& note = *reinterpret_cast<const ElfW(Nhdr)*>(at);
      const char* name = at + sizeof note;
      const char* content = name + (note.n_namesz + 3) / 4 * 4;
      if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 && std::memcmp(name, "GNU", 4) == 0)
        return {content, note.n_descsz};
      at = content + (note.n_descsz + 3) / 4 * 4;
    }
  }
  return "";
}

bool contains(const dl_phdr_info& object, const void* address) {
  const auto at = reinterpret_cast<ElfW(Addr)>(address);
  for (int i = 0; i < object.dlpi_phnum; ++i) {
    const auto& segment = object.dlpi_phdr[i];
    const ElfW(Addr) begin = object.dlpi_addr + segment.p_vaddr;
    if (segment.p_type == PT_LOAD && at >= begin && at < begin + segment.p_memsz) return true;
  }
  return false;
}

}  // namespace

std::string cache_folder() {
  std::error_code error;  // a program may well go to another folder
  if (const char* given = std::getenv("LAZULI_CACHE_DIR"))
    return *given ? std::filesystem::absolute(given, error).string() : "";
  if (const char* home = std::getenv("HOME"); home && *home) return home + std::string("/.cache/lazuli");
  return "";
}

DiskCache::DiskCache(std::string folder, int64_t limit, uint64_t trim_every)
    : folder_(std::move(folder)), limit_(limit), trim_every_(trim_every) {}

DiskCache DiskCache::of_kind(const std::string& kind) {
  const std::string folder = cache_folder();
  return DiskCache(folder.empty() || build_id().empty() ? "" : folder + "/" + kind);
}

std::string DiskCache::file_name(std::string_view key) {
  const Hash hash = Hash::of(key);
  char out[kNameLength + 1];
  snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(hash.a),
           static_cast<unsigned long long>(hash.b));
  return out;
}

std::optional<std::string> DiskCache::load(std::string_view key) const {
  if (!keeps()) return {};
  const File folder = open_folder(folder_);
  if (!folder) return {};
  const File file(openat(folder, file_name(key).c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat s;
  if (!file || fstat(file, &s) != 0 || !S_ISREG(s.st_mode) || !is_ours(s)) return {};
  Header header;
  if (static_cast<size_t>(s.st_size) < sizeof header || s.st_size > limit_) return {};
  std::string content(static_cast<size_t>(s.st_size), '\0');
  if (!read_all(file, content.data(), content.size())) return {};
  std::memcpy(&header, content.data(), sizeof header);
  const std::string_view rest = std::string_view(content).substr(sizeof header);
  if (header.key_bytes != key.size() || rest.size() < key.size() || rest.substr(0, key.size()) != key) return {};
  const std::string_view bytes = rest.substr(key.size());
  const Header expected = header_of(key, bytes);
  if (std::memcmp(&header, &expected, sizeof header) != 0) return {};
  // What is used stays when others go; a day is exact enough.
  if (s.st_mtime + kDay < time(nullptr)) futimens(file, nullptr);
  return std::string(bytes);
}

void DiskCache::store(std::string_view key, std::string_view bytes) const {
  if (!keeps()) return;
  static std::atomic<int64_t> parts = 0;
  File folder = open_folder(folder_);
  if (!folder) {
    make_folder(folder_);
    folder = open_folder(folder_);
    if (!folder) return;
  }
  const std::string name = file_name(key);
  // Written beside and renamed: a reader sees the whole file or none.
  const std::string part = name + kUnfinished + std::to_string(getpid()) + "." + std::to_string(parts++);
  const File file(openat(folder, part.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (!file) return;
  const Header header = header_of(key, bytes);
  const std::string_view head(reinterpret_cast<const char*>(&header), sizeof header);
  const bool whole = write_all(file, head) && write_all(file, key) && write_all(file, bytes);
  if (!whole || renameat(folder, part.c_str(), folder, name.c_str()) != 0) unlinkat(folder, part.c_str(), 0);
  // No process counts what others store: one in so many names is chosen.
  if (Hash::of(key).a % trim_every_ == 0) trim(std::move(folder), limit_);
}

const std::string& build_id() {
  static const std::string id = [] {
    std::string found;
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void* out) {
          if (!contains(*object, reinterpret_cast<const void*>(&build_id))) return 0;
          *static_cast<std::string*>(out) = note_of(*object);
          return 1;
        },
        &found);
    return found;
  }();
  return id;
}

}  // namespace lazuli::jit
