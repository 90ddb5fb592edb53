#include "jit/devices/cuda/cubin_store.h"
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <unistd.h>
#include "jit/devices/cuda/kernels.h"
#include "jit/devices/cuda/linker.h"

namespace lazuli::jit::cuda {
namespace {

namespace fs = std::filesystem;

// 128 bits of FNV-1a, as two streams: equal keys for different PTX are out of the question.
std::string hash_text(const std::string& text) {
  uint64_t a = 0xcbf29ce484222325, b = 0x84222325cbf29ce4;
  for (unsigned char c : text) {
    a = (a ^ c) * 0x100000001b3;
    b = (b ^ (c + 0x9e)) * 0x100000001b3;
    b ^= a >> 29;
  }
  char out[33];
  snprintf(out, sizeof out, "%016llx%016llx", static_cast<unsigned long long>(a), static_cast<unsigned long long>(b));
  return out;
}

}  // namespace

std::string cubin_folder() {
  if (const char* given = std::getenv("LAZULI_CACHE_DIR")) return *given ? std::string(given) + "/cubin" : "";
  if (const char* home = std::getenv("HOME"); home && *home) return std::string(home) + "/.cache/lazuli/cubin";
  return "";
}

std::string cubin_key(const std::string& ptx, int capability) {
  return "sm" + std::to_string(capability) + "-nvjitlink" + linker_version() + "-" + hash_text(ptx);
}

std::optional<std::vector<char>> load_cubin(const std::string& key) {
  const std::string folder = cubin_folder();
  if (folder.empty()) return {};
  std::ifstream file(fs::path(folder) / key, std::ios::binary);
  if (!file) return {};
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  // A cubin is an ELF file; anything else is what a full disk left behind.
  if (bytes.size() < 64 || std::string_view(bytes.data(), 4) != "\x7f" "ELF") return {};
  return bytes;
}

void store_cubin(const std::string& key, const std::vector<char>& cubin) {
  const std::string folder = cubin_folder();
  if (folder.empty()) return;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) return;
  // Written beside and renamed: a reader sees the whole file or none.
  const fs::path target = fs::path(folder) / key, part = target.string() + "." + std::to_string(getpid());
  {
    std::ofstream file(part, std::ios::binary);
    file.write(cubin.data(), static_cast<std::streamsize>(cubin.size()));
    if (!file) {
      file.close();
      fs::remove(part, error);
      return;
    }
  }
  fs::rename(part, target, error);
}

}  // namespace lazuli::jit::cuda
