// A folder with all it takes to see a difference again, in another process: the graph as text, what it runs on, a short Python
// script which compares, and the stages of its compilation.
#pragma once
#include "lazy/culprit.h"

namespace lazuli::lazy {

// Returns the folder's name. `whole`: the trace that the case is of. Throws std::runtime_error where it cannot be written.
std::string write_reproduction(const Case& shown, const ir::Graph& whole, const std::string& headline, const jit::CompileOptions& options);

// What such a folder shows: {"ours": .., "eager": .., ...}, or "null" for no difference. `disabled`: passes, with commas.
std::string replay(const std::string& graph, const std::vector<at::Tensor>& inputs, std::vector<int64_t> scalars, bool fusion,
                   const std::string& disabled);

// A difference's numbers, without braces.
std::string numbers_json(const Difference& d);
std::string json_text(const std::string& s);

}  // namespace lazuli::lazy
