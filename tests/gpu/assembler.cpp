#include "tests/gpu/assembler.h"

#include <dlfcn.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <vector>

namespace lazuli::testing {
namespace {

bool has_ptxas() {
  static const bool found = std::system("ptxas --version > /dev/null 2>&1") == 0;
  return found;
}

std::string output_of(const std::string& command, int& status) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> part;
  while (size_t n = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), n);
  status = pclose(pipe);
  return text;
}

int number_in(const std::string& text, const char* pattern) {
  int sum = -1;
  const std::regex expression(pattern);
  for (std::sregex_iterator m(text.begin(), text.end(), expression), end; m != end; ++m)
    sum = std::max(sum, 0) + std::stoi((*m)[1]);
  return sum;
}

void read_usage(Assembled& a) {
  a.registers = number_in(a.log, "Used (\\d+) registers");
  a.spill_bytes = number_in(a.log, "(\\d+) bytes spill stores");
  a.shared_bytes = number_in(a.log, "(\\d+) bytes smem");
}

Assembled run_ptxas(const std::string& ptx, int capability) {
  char name[] = "/tmp/lazuli_ptx_XXXXXX";
  const int file = mkstemp(name);
  Assembled a;
  a.ok = write(file, ptx.data(), ptx.size()) == static_cast<ssize_t>(ptx.size());
  close(file);
  int status = 0;
  const std::string path = name;
  a.log = output_of("ptxas -v -arch=sm_" + std::to_string(capability) + " -o /dev/null " + path + " 2>&1", status);
  std::remove(name);
  a.ok = a.ok && status == 0;
  read_usage(a);
  return a;
}

// The few functions of nvJitLink.h that are wanted; symbols carry the library's version.
struct NvJitLink {
  void* library = nullptr;
  std::string version;
  NvJitLink() {
    library = dlopen("libnvJitLink.so.13", RTLD_NOW);
    for (int minor = 9; library && version.empty() && minor >= 0; --minor) {
      const std::string v = "_13_" + std::to_string(minor);
      if (dlsym(library, ("__nvJitLinkCreate" + v).c_str())) version = v;
    }
  }
  template <class... Args>
  int call(const char* name, Args... args) const {
    auto f = reinterpret_cast<int (*)(Args...)>(dlsym(library, ("__" + std::string(name) + version).c_str()));
    return f ? f(args...) : -1;
  }
};
const NvJitLink& nvjitlink() {
  static const NvJitLink n;
  return n;
}

Assembled run_nvjitlink(const std::string& ptx, int capability) {
  constexpr int kPtxInput = 2;
  Assembled a;
  const std::string arch = "-arch=sm_" + std::to_string(capability);
  const char* options[] = {arch.c_str(), "-verbose"};
  void* handle = nullptr;
  const NvJitLink& n = nvjitlink();
  if (n.call("nvJitLinkCreate", &handle, uint32_t{2}, static_cast<const char**>(options))) return a;
  a.ok = n.call("nvJitLinkAddData", handle, kPtxInput, static_cast<const void*>(ptx.c_str()), ptx.size() + 1,
                "kernel") == 0 &&
         n.call("nvJitLinkComplete", handle) == 0;
  for (const char* log : {"Info", "Error"}) {
    size_t size = 0;
    n.call(("nvJitLinkGet" + std::string(log) + "LogSize").c_str(), handle, &size);
    std::vector<char> text(size + 1);
    n.call(("nvJitLinkGet" + std::string(log) + "Log").c_str(), handle, text.data());
    a.log += text.data();
  }
  n.call("nvJitLinkDestroy", &handle);
  read_usage(a);
  return a;
}

}  // namespace

bool has_assembler(std::string& name) {
  name = has_ptxas()                    ? "ptxas"
         : !nvjitlink().version.empty() ? "nvJitLink"
                                        : "neither ptxas nor libnvJitLink.so.13 is there";
  return has_ptxas() || !nvjitlink().version.empty();
}

Assembled assemble(const std::string& ptx, int capability) {
  const auto start = std::chrono::steady_clock::now();
  Assembled a = has_ptxas() ? run_ptxas(ptx, capability) : run_nvjitlink(ptx, capability);
  a.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return a;
}

}  // namespace lazuli::testing
