#include "lazy/shadow/reproduction.h"

#include <atomic>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <ATen/ATen.h>
#include <torch/csrc/jit/serialization/pickle.h>
#include <unistd.h>
#include "ir/parse.h"
#include "ir/print.h"
#include "lazy/memory/backing.h"
#include "lazy/support/config.h"
#include "lazy/support/plain_dispatch.h"

namespace lazuli::lazy {
namespace {

constexpr const char* kScript = R"(
import sys

import torch
from torch_lazuli.shadow import replay

difference = replay(__file__)
print(difference or "lazuli and eager agree")
sys.exit(1 if difference else 0)
)";

void write(const std::filesystem::path& path, std::string_view text) {
  std::ofstream out(path, std::ios::binary);
  out << text;
  if (!out) throw std::runtime_error("cannot write " + path.string());
}

std::filesystem::path new_folder() {
  static std::atomic<int> count = 0;
  const std::string& set = config().shadow_folder;
  const std::filesystem::path parent =
      set.empty() ? std::filesystem::temp_directory_path() : std::filesystem::path(set);
  const auto folder = parent / ("lazuli-shadow-" + std::to_string(getpid()) + "-" + std::to_string(count++));
  std::filesystem::create_directories(folder);
  return std::filesystem::absolute(folder);
}

void save(const std::filesystem::path& path, const std::vector<at::Tensor>& tensors) {
  std::vector<c10::IValue> elements;  // of a tuple, which torch.load takes without more
  for (const at::Tensor& t : tensors) elements.emplace_back(t.cpu().contiguous());
  const std::vector<char> bytes = torch::jit::pickle_save(c10::ivalue::Tuple::create(std::move(elements)));
  write(path, {bytes.data(), bytes.size()});
}

std::string list(const auto& values, auto text) {
  std::string s = "[";
  for (const auto& v : values) s += (s.size() > 1 ? ", " : "") + text(v);
  return s + "]";
}

std::string number_json(double x) {
  if (std::isnan(x)) return "NaN";
  if (std::isinf(x)) return x > 0 ? "Infinity" : "-Infinity";
  char text[32];
  snprintf(text, sizeof text, "%.17g", x);
  return text;
}

void write_script(const std::filesystem::path& folder, const std::string& headline) {
  write(folder / "reproduce.py", "\"\"\"" + headline + "\n\nExits with 1 where the difference is.\n\"\"\"\n" + kScript);
}

std::string decimal(int64_t i) { return std::to_string(i); }

template <class T>
std::vector<T> joined(const std::vector<T>& a, const std::vector<T>& b) {
  std::vector<T> all = a;
  all.insert(all.end(), b.begin(), b.end());
  return all;
}

}  // namespace

std::string json_text(const std::string& s) {
  std::string out = "\"";
  for (char c : s) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n')
      out += "\\n";
    else
      out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "\"";
}

std::string numbers_json(const Difference& d) {
  return "\"index\": " + list(d.index, decimal) + ", \"ours\": " + number_json(d.ours) +
         ", \"eager\": " + number_json(d.eager) + ", \"exact\": " + number_json(d.exact) +
         ", \"explained\": " + number_json(d.explained) + ", \"elements\": " + std::to_string(d.elements) +
         ", \"shape\": " + json_text(d.shape);
}

std::string write_reproduction(const Case& shown, const ir::Graph& whole, const std::string& headline,
                               const jit::CompileOptions& options) {
  const std::filesystem::path folder = new_folder();
  write(folder / "graph.lzir", ir::print(shown.graph));
  write(folder / "trace.lzir", ir::print(whole));
  save(folder / "inputs.pt", shown.inputs);
  write(folder / "run.json", "{\"scalars\": " + list(shown.scalars, decimal) +
                                 ", \"fusion\": " + (options.fusion ? "true" : "false") +
                                 ", \"disable_passes\": " + list(options.disabled_passes, json_text) + "}\n");
  write_script(folder, headline);
  jit::CompileOptions dumped = options;
  dumped.dump_folder = (folder / "stages").string();
  dumped.dump_stages = "all";
  try {
    jit::compile(shown.graph, dumped);
  } catch (const std::exception&) {  // the stages up to there are written
  }
  return folder.string();
}

std::string write_reproduction(const WrongDerivative& w, const ir::Graph& whole, const std::string& headline) {
  const std::filesystem::path folder = new_folder();
  const auto& [forward, backward, cotangents, reads] = w.shown;
  write(folder / "forward.lzir", ir::print(forward.graph));
  write(folder / "backward.lzir", ir::print(backward.graph));
  write(folder / "trace.lzir", ir::print(whole));
  save(folder / "inputs.pt", joined(joined(forward.inputs, backward.inputs), cotangents));
  write(folder / "run.json", "{\"scalars\": " + list(joined(forward.scalars, backward.scalars), decimal) +
                                 ", \"reads\": " + list(reads, decimal) + "}\n");
  write_script(folder, headline);
  return folder.string();
}

std::string replay_derivative(const std::string& forward, const std::string& backward,
                              const std::vector<at::Tensor>& inputs, const std::vector<int64_t>& scalars,
                              const std::vector<int64_t>& reads) {
  PlainDispatch guard;
  DerivativeCase c{{ir::parse(forward), {}, {}}, {ir::parse(backward), {}, {}}, {}, reads};
  size_t next = 0, next_scalar = 0;
  auto take = [&](std::vector<at::Tensor>& to, size_t count) {
    for (; count; --count) to.push_back(inputs.at(next++).to(backing().device()));
  };
  for (Case* part : {&c.forward, &c.backward}) {
    take(part->inputs, part->graph.input_count);
    for (uint32_t i = 0; i < part->graph.scalar_count; ++i) part->scalars.push_back(scalars.at(next_scalar++));
  }
  take(c.cotangents, inputs.size() - next);
  bool compared = false;
  const auto d = judge_derivative(c, compared);
  return d ? "{" + numbers_json(*d) + "}" : "null";
}

std::string replay(const std::string& graph, const std::vector<at::Tensor>& inputs, std::vector<int64_t> scalars,
                   bool fusion, const std::string& disabled) {
  PlainDispatch guard;
  Case c{ir::parse(graph), {}, std::move(scalars)};
  for (const at::Tensor& t : inputs) c.inputs.push_back(t.to(backing().device()));
  jit::CompileOptions options;
  options.device = &backing().code();
  options.fusion = fusion;
  for (size_t i = 0; i < disabled.size();) {
    const size_t j = std::min(disabled.find(',', i), disabled.size());
    if (j > i) options.disabled_passes.push_back(disabled.substr(i, j - i));
    i = j + 1;
  }
  const auto ours = compute(c, options);
  const auto d = judge(c.graph, c.inputs, c.scalars, ours);
  return d ? "{" + numbers_json(*d) + "}" : "null";
}

}  // namespace lazuli::lazy
