// lazuli-opt: reads textual IR (a file, or standard input), runs passes over it and prints it.
//
//   lazuli-opt --passes decompose,simplify graph.lzir
//   lazuli-opt --grad --passes all < graph.lzir
//   lazuli-opt --interpret graph.lzir          runs it on ramps instead of printing it
//   lazuli-opt --plan cuda graph.lzir          prints its plan with that device's libraries (cpu, cuda)
//   lazuli-opt --list                          names the passes and the rows of the op table
#include <fstream>
#include <iostream>
#include <sstream>
#include "ir/error.h"
#include "ir/gradient.h"
#include "ir/interpret.h"
#include "ir/parse.h"
#include "ir/passes/pass.h"
#include "ir/print.h"
#include "ir/verify.h"
#include "jit/device.h"
#include "jit/devices/cuda/launch.h"
#include "lowering/graph/target_passes.h"
#include "lowering/plan/plan.h"

namespace {

using namespace lazuli::ir;

struct Arguments {
  std::vector<Pass> passes;
  PassOptions options;
  std::string file, plan;
  bool list = false, interpret = false, grad = false, changes = false, times = false;
};

std::vector<std::string> split(const std::string& s) {
  std::vector<std::string> parts;
  std::istringstream in(s);
  for (std::string part; std::getline(in, part, ',');) parts.push_back(part);
  return parts;
}

std::vector<Pass> find_passes(const std::string& names) {
  std::vector<Pass> found;
  for (const std::string& name : split(names)) {
    if (name == "all") {
      found.insert(found.end(), all_passes().begin(), all_passes().end());
      continue;
    }
    const Pass* pass = find_pass(name);
    if (!pass) throw std::invalid_argument("there is no pass '" + name + "'; --list names them");
    found.push_back(*pass);
  }
  return found;
}

Arguments parse_arguments(int argc, char** argv) {
  Arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    auto next = [&] {
      if (++i >= argc) throw std::invalid_argument(arg + " wants a value");
      return std::string(argv[i]);
    };
    if (arg == "--passes")
      a.passes = find_passes(next());
    else if (arg == "--disable")
      a.options.disabled = split(next());
    else if (arg == "--verify")
      a.options.verify = true;
    else if (arg == "--list")
      a.list = true;
    else if (arg == "--interpret")
      a.interpret = true;
    else if (arg == "--plan")
      a.plan = next();
    else if (arg == "--grad")
      a.grad = true;
    else if (arg == "--changes")
      a.changes = true;
    else if (arg == "--times")
      a.times = true;
    else if (arg.starts_with("--"))
      throw std::invalid_argument("unknown option " + arg);
    else
      a.file = arg;
  }
  return a;
}

void list_everything() {
  for (const Pass& p : all_passes()) std::cout << p.name << ": " << p.doc << '\n';
  std::cout << '\n';
  for (const OpInfo& row : kOps) std::cout << row.name << ": " << row.doc << '\n';
}

std::string read_all(const std::string& file) {
  std::ostringstream text;
  if (file.empty() || file == "-") {
    text << std::cin.rdbuf();
  } else {
    std::ifstream in(file);
    if (!in) throw std::invalid_argument("cannot read " + file);
    text << in.rdbuf();
  }
  return text.str();
}

// Input k holds ramps between -1 and 1; integers count from 0, within what indices into small tensors may be.
Tensor ramp(const Type& type, int64_t position) {
  Tensor t(type);
  for (int64_t i = 0; i < type.numel(); ++i)
    t.set(i, is_floating(type.dtype) ? static_cast<double>((i * 7 + position * 3) % 23 - 11) / 11.0
                                     : static_cast<double>(i % 2));
  return t;
}

void interpret_on_ramps(const Graph& graph) {
  std::vector<Tensor> inputs(graph.input_count);
  for (const Node& n : graph.nodes)
    if (n.op == Op::input) inputs[n.attrs.number(0)] = ramp(n.types[0], n.attrs.number(0));
  std::vector<int64_t> scalars(graph.scalar_count, 0);
  for (const Tensor& t : interpret(graph, inputs, scalars)) {
    std::cout << to_string(t.type) << ':';
    for (int64_t i = 0; i < t.type.numel(); ++i) std::cout << ' ' << t.at(i);
    std::cout << '\n';
  }
}

lazuli::lowering::PlanOptions plan_options(const std::string& device) {
  using namespace lazuli::jit;
  if (device == "cpu") return cpu_device().plan_options({});
  if (device == "cuda") return cuda::plan_options({}, {});
  throw std::invalid_argument("no plans for '" + device + "', only for cpu and cuda");
}

int run(const Arguments& a) {
  if (a.list) {
    list_everything();
    return 0;
  }
  Graph graph = parse(read_all(a.file));
  verify(graph);
  if (a.grad) graph = with_gradients(graph);
  PassOptions options = a.options;
  if (a.changes)
    options.on_change = [](const Pass& p, const Graph&, const Graph& after) {
      std::cout << "# after " << p.name << '\n' << print(after) << '\n';
    };
  if (a.times) options.on_time = [](const Pass& p, double ms) { std::cerr << p.name << ": " << ms << " ms\n"; };
  graph = run_passes(std::move(graph), a.passes, options);
  if (!a.plan.empty()) {
    const lazuli::lowering::PlanOptions with = plan_options(a.plan);
    graph = run_passes(std::move(graph), lazuli::lowering::target_passes(*with.libraries), options);
    std::cout << print(graph, make_plan(graph, with));
  } else if (a.interpret) {
    interpret_on_ramps(graph);
  } else if (!a.changes) {
    std::cout << print(graph);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse_arguments(argc, argv));
  } catch (const std::exception& e) {
    std::cerr << "lazuli-opt: " << e.what() << '\n';
    return 1;
  }
}
