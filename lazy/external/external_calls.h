// The external calls that have been made: what is learned of a signature once holds for all calls that have it.
#pragma once
#include <memory>
#include <span>
#include <unordered_set>
#include "lazy/external/external_signature.h"

namespace lazuli::lazy {

struct ExternalResult {
  enum Kind : uint8_t { Fresh, Argument, View, Absent } kind;
  bool in_list = false;  // an element of a TensorList return
  size_t return_index = 0;
  size_t slot = 0;      // Argument, View: which tensor argument
  Geometry geometry{};  // Fresh, View
};

struct ExternalCall {
  ExternalCall(Signature s, bool d) : signature(std::move(s)), name(signature.name()), describable(d) {}
  Signature signature;
  std::string name;
  bool describable;
  bool deferrable = false;
  bool is_new = false;  // it came at most once before: it runs at once, and nothing is known of it
  // It would be, by its meta kernel, which is not torch's: the first run, at once, is to confirm that.
  bool promised = false;
  bool alike = false;  // its kernel gives the same bits on any thread, and whatever number of threads it uses
  // Its kernels launch the same each time, and the host does nothing else for it: it neither waits nor copies to the
  // device.
  bool can_be_captured = false;
  bool reads_rows_apart = false;  // its kernel reads operands as fast where their rows lie apart, and gives the same
  bool little = false;            // one thread had better compute it alone
  std::vector<ExternalResult> results;
  std::vector<uint32_t> mutated;  // storages that the kernel writes; their new contents are the first results
  std::vector<ir::Type> fresh_types;
};

using ExternalCallRef = std::shared_ptr<const ExternalCall>;

ExternalCallRef external_call_at(int64_t id);
// The call of this signature by its number, and what is known of it, learned if need be.
std::pair<int64_t, ExternalCallRef> find_external_call(const c10::OperatorHandle& op, const torch::jit::Stack& stack,
                                                       const Bound& bound);
// A promised call has run: `results` is what it returned for these tensors. Calls of its signature are deferrable from
// now on if that is what its meta kernel says, but for strides; else they never are.
void confirm_external_call(int64_t id, const ExternalCall& call, std::span<const at::Tensor> operands,
                           const torch::jit::Stack& results);
// A call that is about to be recorded; others may have been forgotten since it was looked up.
void remember_external_call(int64_t id, const ExternalCallRef& call);

std::string external_name(int64_t call);
// How many calls there is something learned of.
size_t external_call_count();
// Forgets what was learned of all other calls.
void keep_external_calls(const std::unordered_set<int64_t>& calls);

}  // namespace lazuli::lazy
