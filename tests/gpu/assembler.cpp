#include "tests/gpu/assembler.h"

#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <regex>
#include <stdexcept>

#include "jit/devices/cuda/linker.h"
#include "jit/devices/cuda/ptx_compiler.h"
#include "jit/kernels/disk_cache.h"
#include "tests/gpu/assembled_store.h"

namespace lazuli::testing {
namespace {

bool has_ptxas() {
  static const bool found = std::system("ptxas --version > /dev/null 2>&1") == 0;
  return found;
}

const std::string& why_no_linker() {
  static const std::string why_not = []() -> std::string {
    try {
      jit::cuda::linker_version();
      return "";
    } catch (const std::runtime_error& e) {
      return e.what();
    }
  }();
  return why_not;
}
bool has_linker() { return why_no_linker().empty(); }

std::string output_of(const std::string& command, int& status) {
  std::string text;
  FILE* pipe = popen(command.c_str(), "r");
  std::array<char, 4096> part;
  while (size_t n = std::fread(part.data(), 1, part.size(), pipe)) text.append(part.data(), n);
  status = pclose(pipe);
  return text;
}

struct Output {
  bool ok = false;
  std::string log;
};

Output run_ptxas(const std::string& ptx, int capability) {
  char name[] = "/tmp/lazuli_ptx_XXXXXX";
  const int file = mkstemp(name);
  const bool written = write(file, ptx.data(), ptx.size()) == static_cast<ssize_t>(ptx.size());
  close(file);
  int status = 0;
  Output out;
  out.log = output_of("ptxas -v -arch=sm_" + std::to_string(capability) + " -o /dev/null " + name + " 2>&1", status);
  std::remove(name);
  out.ok = written && status == 0;
  return out;
}

// As the plugin links.
Output run_linker(const std::string& ptx, int capability) {
  try {
    return {true, jit::cuda::link(ptx, capability).log};
  } catch (const std::runtime_error& e) {
    return {false, e.what()};
  }
}

// What the log says of each kernel. It begins with ptxas's own lines, and the linker's repeat the sums.
std::map<std::string, Assembled> usage(const std::string& log) {
  static const std::regex function("(?:entry function|Function properties for) '?(\\w+)'?"),
      spill("(\\d+) bytes spill stores"), registers("[Uu]sed (\\d+) registers"), shared("(\\d+) bytes smem");
  std::map<std::string, Assembled> out;
  Assembled* a = &out[""];
  auto read = [](const std::string& line, const std::regex& what, int& into) {
    if (std::smatch m; std::regex_search(line, m, what)) into = std::stoi(m[1]);
  };
  for (size_t i = 0; i < log.size();) {
    const size_t end = std::min(log.find('\n', i), log.size());
    const std::string line = log.substr(i, end - i);
    i = end + 1;
    if (std::smatch m; std::regex_search(line, m, function)) a = &out[m[1]];
    read(line, spill, a->spill_bytes);
    read(line, registers, a->registers);
    read(line, shared, a->shared_bytes);
  }
  return out;
}

std::string symbol_of(const std::string& ptx) {
  const std::string before = ".entry ";
  const size_t at = ptx.find(before);
  if (at == ptx.npos) return "";
  return ptx.substr(at + before.size(), ptx.find('(', at) - at - before.size());
}

// One module: the header comes once.
std::string joined(std::span<const std::string* const> ptx) {
  std::string out = *ptx[0];
  for (const std::string* p : ptx.subspan(1)) {
    const size_t header = p->find(".address_size");
    out += p->substr(header == p->npos ? 0 : p->find('\n', header));
  }
  return out;
}

void assemble(std::span<const std::string* const> ptx, int capability, std::span<Assembled* const> into) {
  const auto start = std::chrono::steady_clock::now();
  const std::string text = joined(ptx);
  const Output output = has_linker() ? run_linker(text, capability) : run_ptxas(text, capability);
  if (!output.ok && ptx.size() > 1) {  // whose fault is it?
    for (size_t i = 0; i < ptx.size(); ++i) assemble(ptx.subspan(i, 1), capability, into.subspan(i, 1));
    return;
  }
  const auto parts = usage(output.log);
  const std::chrono::duration<double, std::milli> took = std::chrono::steady_clock::now() - start;
  for (size_t i = 0; i < ptx.size(); ++i) {
    if (auto found = parts.find(symbol_of(*ptx[i])); found != parts.end()) *into[i] = found->second;
    into[i]->ok = output.ok;
    into[i]->ms = took.count() / static_cast<double>(ptx.size());
    into[i]->log = ptx.size() > 1 ? "" : output.log;
  }
}

// One word.
std::string key_of(const std::string& ptx, int capability) {
  return "sm" + std::to_string(capability) + "-nvjitlink" + jit::cuda::linker_version() + "-" +
         jit::DiskCache::file_name(ptx);
}

}  // namespace

bool has_assembler(std::string& name) {
  const bool found = has_linker() || has_ptxas();
  name = has_linker() ? "nvJitLink" : found ? "ptxas" : why_no_linker() + ", and there is no ptxas";
  return found;
}

std::string for_capability(std::string ptx, int capability) {
  const std::string target = ".target sm_";
  if (const size_t at = ptx.find(target); at != ptx.npos)
    ptx.replace(at + target.size(), ptx.find('\n', at) - at - target.size(), std::to_string(capability));
  static const std::regex kOverlap("\t// begin inline asm\n\tgriddepcontrol[^\n]*\n\t// end inline asm\n");
  if (capability < jit::cuda::kOverlapping) ptx = std::regex_replace(ptx, kOverlap, "");
  return ptx;
}

std::vector<Assembled> assemble(std::span<const std::string> ptx, int capability) {
  std::vector<Assembled> out(ptx.size());
  std::vector<std::string> keys;
  std::vector<const std::string*> texts;
  std::vector<Assembled*> into;
  for (size_t i = 0; i < ptx.size(); ++i) {
    const std::string key = has_linker() ? key_of(ptx[i], capability) : "";
    if (AssembledStore::get().find(key, out[i])) continue;
    keys.push_back(key);
    texts.push_back(&ptx[i]);
    into.push_back(&out[i]);
  }
  if (texts.empty()) return out;
  assemble(texts, capability, into);
  for (size_t i = 0; i < keys.size(); ++i)
    if (into[i]->ok) AssembledStore::get().add(keys[i], *into[i]);
  return out;
}

Assembled assemble(const std::string& ptx, int capability) {
  return std::move(assemble(std::span(&ptx, 1), capability)[0]);
}

}  // namespace lazuli::testing
