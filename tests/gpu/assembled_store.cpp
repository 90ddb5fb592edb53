#include "tests/gpu/assembled_store.h"

#include <filesystem>
#include <fstream>
#include <sstream>

#include "jit/kernels/disk_cache.h"

namespace lazuli::testing {
namespace {

namespace fs = std::filesystem;
constexpr size_t kLargest = size_t{64} << 20;  // bytes; a larger file is begun anew

}  // namespace

AssembledStore& AssembledStore::get() {
  static auto* store = new AssembledStore;
  return *store;
}

AssembledStore::AssembledStore() {
  const std::string folder = jit::cache_folder();
  if (folder.empty()) return;
  const fs::path path = fs::path(folder) / "assembled.txt";
  std::error_code error;
  fs::create_directories(path.parent_path(), error);
  if (fs::exists(path) && fs::file_size(path, error) > kLargest) fs::remove(path, error);
  path_ = path;
  std::ifstream file(path);
  for (std::string line, key, end; std::getline(file, line);) {
    std::istringstream in(line);
    Assembled a;
    // The last word says that the line is whole.
    if (!(in >> key >> a.registers >> a.spill_bytes >> a.shared_bytes >> a.ms >> end) || end != "ok") continue;
    a.ok = true;
    known_[key] = a;
  }
}

bool AssembledStore::find(const std::string& key, Assembled& into) {
  std::lock_guard lock(mutex_);
  const auto it = known_.find(key);
  if (it == known_.end()) return false;
  into = it->second;
  return true;
}

void AssembledStore::add(const std::string& key, const Assembled& a) {
  if (key.empty()) return;
  std::ostringstream line;
  line << key << ' ' << a.registers << ' ' << a.spill_bytes << ' ' << a.shared_bytes << ' ' << a.ms << " ok\n";
  std::lock_guard lock(mutex_);
  known_[key] = a;
  if (path_.empty()) return;
  // One write, at the end: processes do not tear each other's lines.
  std::ofstream file(path_, std::ios::app);
  file << line.str() << std::flush;
}

}  // namespace lazuli::testing
