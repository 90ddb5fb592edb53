// Linked kernels on disk. A file is found by a hash of all that decides it: the PTX, the architecture, the linker.
#pragma once
#include <optional>
#include <string>
#include <vector>

namespace lazuli::jit::cuda {

// The key of what `ptx` links to.
std::string cubin_key(const std::string& ptx, int capability);
std::optional<std::vector<char>> load_cubin(const std::string& key);
// Failing to write is no error: the kernel is linked again next time.
void store_cubin(const std::string& key, const std::vector<char>& cubin);

}  // namespace lazuli::jit::cuda
