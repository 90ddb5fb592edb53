#include "tests/gpu/link_folder.h"

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <span>
#include <thread>
#include <vector>

#include "tests/gpu/assembler.h"

namespace lazuli::testing {
namespace {

namespace fs = std::filesystem;
constexpr int kSkipped = 77;  // as automake has it

struct Kernel {
  fs::path file;
  int capability = 0;
  std::string of;  // the op and Python line that it was first emitted for
  Assembled result;

  std::string print() const {
    return file.stem().string() + " for sm_" + std::to_string(capability) + ", " + of + ": " +
           std::to_string(result.registers) + " registers, " + std::to_string(result.spill_bytes) + " bytes spilled";
  }
};

// Each for both architectures: the code generator writes nearly the same for them (CodeText.DiffersOnlyInWhatOverlaps).
std::vector<Kernel> kernels_in(const std::string& folder) {
  std::vector<fs::path> files;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().extension() == ".ptx") files.push_back(entry.path());
  std::ranges::sort(files);
  std::vector<Kernel> out;
  for (int capability : {80, 90})
    for (const fs::path& file : files) out.push_back({file, capability, "", {}});
  return out;
}

// Reads a kernel's file: its first line is a comment that says what it is of.
std::string read(Kernel& k) {
  std::ifstream file(k.file);
  std::getline(file, k.of);
  k.of = k.of.substr(std::min<size_t>(k.of.size(), 3));
  return for_capability({std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()}, k.capability);
}

// `kernels` are of one architecture.
void link(std::span<Kernel> kernels) {
  std::vector<std::string> ptx;
  for (Kernel& k : kernels) ptx.push_back(read(k));
  std::vector<Assembled> results = assemble(ptx, kernels[0].capability);
  for (size_t i = 0; i < kernels.size(); ++i) kernels[i].result = std::move(results[i]);
}

void link_all(std::vector<Kernel>& kernels) {
  constexpr size_t kTogether = 32;
  std::vector<std::span<Kernel>> batches;
  for (size_t first = 0, last = 0; first < kernels.size(); first = last) {
    while (last < kernels.size() && last - first < kTogether && kernels[last].capability == kernels[first].capability)
      ++last;
    batches.emplace_back(kernels.data() + first, last - first);
  }
  std::atomic<size_t> next = 0;
  auto loop = [&] {
    for (size_t i; (i = next++) < batches.size();) link(batches[i]);
  };
  std::vector<std::thread> pool;
  for (size_t t = 1; t < std::max(1u, std::thread::hardware_concurrency()); ++t) pool.emplace_back(loop);
  loop();
  for (std::thread& t : pool) t.join();
}

void print_most(const char* of, std::vector<Kernel>& kernels, int Assembled::* what, size_t count) {
  count = std::min(count, kernels.size());
  std::ranges::partial_sort(kernels, kernels.begin() + static_cast<ptrdiff_t>(count), std::ranges::greater{},
                            [&](const Kernel& k) { return k.result.*what; });
  std::printf("most %s:\n", of);
  for (size_t i = 0; i < count; ++i)
    if (kernels[i].result.*what > 0) std::printf("  %s\n", kernels[i].print().c_str());
}

}  // namespace

int link_folder(const std::string& folder) {
  std::string assembler;
  if (!has_assembler(assembler)) return std::printf("no kernel was linked: %s\n", assembler.c_str()), kSkipped;
  std::vector<Kernel> kernels = kernels_in(folder);
  link_all(kernels);
  size_t failed = 0;
  for (const Kernel& k : kernels) {
    if (k.result.ok) continue;
    ++failed;
    std::printf("%s; %s failed:\n%s\n", k.print().c_str(), k.file.c_str(), k.result.log.c_str());
  }
  print_most("registers", kernels, &Assembled::registers, 3);
  print_most("spilled", kernels, &Assembled::spill_bytes, 5);
  const auto spill = std::ranges::count_if(kernels, [](const Kernel& k) { return k.result.spill_bytes > 0; });
  std::ofstream(fs::path(folder) / "report") << kernels.size() - failed << ' ' << failed << '\n';
  std::printf("%zu kernels linked for sm_80 and sm_90 by %s, %td spill%s, %zu failed\n", kernels.size() / 2,
              assembler.c_str(), spill, spill ? (" (worst: " + kernels[0].print() + ")").c_str() : "", failed);
  return failed ? 1 : 0;
}

}  // namespace lazuli::testing
