#include "tests/gpu/assembler.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <stdexcept>

#include "jit/devices/cuda/linker.h"

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

// As the plugin links.
Assembled run_linker(const std::string& ptx, int capability) {
  Assembled a;
  try {
    a.log = jit::cuda::link(ptx, capability).log;
    a.ok = true;
  } catch (const std::runtime_error& e) {
    a.log = e.what();
  }
  read_usage(a);
  return a;
}

bool has_linker(std::string& why_not) {
  try {
    jit::cuda::linker_version();
    return true;
  } catch (const std::runtime_error& e) {
    why_not = e.what();
    return false;
  }
}

}  // namespace

bool has_assembler(std::string& name) {
  name = "ptxas";
  if (has_ptxas()) return true;
  std::string why_not;
  const bool found = has_linker(why_not);
  name = found ? "nvJitLink" : "no ptxas is there, and " + why_not;
  return found;
}

Assembled assemble(const std::string& ptx, int capability) {
  const auto start = std::chrono::steady_clock::now();
  Assembled a = has_ptxas() ? run_ptxas(ptx, capability) : run_linker(ptx, capability);
  a.ms = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  return a;
}

}  // namespace lazuli::testing
