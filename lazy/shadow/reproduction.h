// A folder with all it takes to see a difference again, in another process: the graph as text, what it runs on, a short
// Python script which compares, and the stages of its compilation.
#pragma once
#include "lazy/shadow/derivatives.h"

namespace lazuli::lazy {

// Returns the folder's name. `whole`: the trace that the case is of. Throws std::runtime_error where it cannot be
// written.
std::string write_reproduction(const Case& shown, const ir::Graph& whole, const std::string& headline,
                               const jit::CompileOptions& options);

// Of a derivative: what Lazuli takes and what eager takes, both in float64.
std::string write_reproduction(const WrongDerivative& w, const ir::Graph& whole, const std::string& headline);

// What such a folder shows: {"ours": .., "eager": .., ...}, or "null" for no difference. `disabled`: passes, with
// commas.
std::string replay(const std::string& graph, const std::vector<at::Tensor>& inputs, std::vector<int64_t> scalars,
                   bool fusion, const std::string& disabled);

// Of a derivative; its cotangents come behind its forward's and backward's inputs, and so do numbers.
std::string replay_derivative(const std::string& forward, const std::string& backward,
                              const std::vector<at::Tensor>& inputs, const std::vector<int64_t>& scalars,
                              const std::vector<int64_t>& reads);

// A difference's numbers, without braces.
std::string numbers_json(const Difference& d);
std::string json_text(const std::string& s);

}  // namespace lazuli::lazy
