// A graph that torch.compile has captured: a function of tensors to tensors that may write to its inputs, and does the
// same ops each time. It is recorded op by op the first time that it is called with inputs of some geometry (sizes,
// strides and types), with stand-ins for the inputs. What was recorded is kept. The next call records it all at once.
#pragma once
#include <algorithm>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <vector>
#include <ATen/core/Tensor.h>
#include "lazy/external/external_calls.h"
#include "lazy/record/recording.h"

namespace lazuli::backend {

class CapturedGraph {
 public:
  using Tensors = std::vector<at::Tensor>;
  struct Call {
    int64_t number = -1;  // of what was recorded for this geometry; -1: nothing was, and nothing has been done
    Tensors results;
    std::string why = {};  // nothing was kept
  };
  // `is_whole`: nothing will be differentiated that it computes.
  explicit CapturedGraph(bool is_whole) : is_whole_(is_whole) {}
  bool is_whole() const { return is_whole_; }
  // Records the graph, if it is known for this geometry. `sizes`: its inputs that are numbers.
  Call call(const Tensors& inputs, at::IntArrayRef sizes);

  // Recording op by op. Stand-ins hold what the inputs hold; ops on them leave the inputs alone.
  struct Capture {
    Tensors inputs, stand_ins;
    std::vector<int64_t> key;
    uint64_t epoch = 0;
    lazy::Trace::Place begin{};
    uint64_t reads = 0;
    std::vector<lazy::ValueId> values;
    std::vector<lazy::CellRef> cells;  // what the inputs hold
  };
  // None: for inputs like these the graph has to run on the inputs themselves.
  static std::optional<Capture> begin(Tensors inputs, at::IntArrayRef sizes);
  // `results` are those of the ops, over the stand-ins. Writes what was written to the stand-ins to the inputs. The
  // results of the call are those given, or the inputs and views of them where these are the stand-ins and their views.
  // The number is -1 if what was recorded cannot be recorded again (a trace ended in between, say).
  Call end(const Capture& capture, const Tensors& results);

 private:
  struct Result {
    enum Kind : uint8_t { Input, ViewOfInput, Fresh, WindowOfFresh, ViewOfFresh, Earlier } kind;
    uint32_t index;  // of the input, the fresh value or the earlier result
    c10::ScalarType type;
    ir::Dims sizes, strides;
    int64_t offset;
    int64_t elements;  // of its storage
  };
  struct Write {
    uint32_t input;
    lazy::Block::Ref value;
  };
  struct Recorded {
    int64_t number;
    std::vector<int64_t> key;
    uint64_t hash;  // of the key
    lazy::Block block;
    std::vector<uint32_t> alike;  // by input: the first with the same value
    std::vector<lazy::Block::Ref> fresh;
    std::vector<Result> results;
    std::vector<Write> writes;
    std::vector<std::pair<int64_t, lazy::ExternalCallRef>> calls;
  };
  static std::optional<Recorded> recorded(const Capture& capture, const Tensors& results,
                                          const std::vector<std::pair<uint32_t, lazy::ValueId>>& written,
                                          std::string& why);
  static bool repeat(Recorded& known, const Tensors& inputs, Tensors& results);

  static constexpr size_t kMost = 256;  // geometries; the least recently used are forgotten
  std::list<Recorded> known_;           // the latest used first
  int64_t next_ = 0;
  const bool is_whole_;
};

// The first of these tensors of the device that has the tensor's memory; the end: none.
inline auto find_memory(const CapturedGraph::Tensors& tensors, const at::Tensor& t) {
  return std::ranges::find_if(tensors, [&](const at::Tensor& other) {
    return t.is_privateuseone() && &lazy::storage_of(other) == &lazy::storage_of(t);
  });
}

}  // namespace lazuli::backend
