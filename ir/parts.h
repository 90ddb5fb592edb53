// Cuts a listing into parts that are worth planning for themselves. A step that was never there before is mostly made
// of parts that were: the layers of a network, the time steps of a sequence, the nodes of a tree, the parameters of an
// optimizer.
//
// Where the cuts are follows from what stands near them and from nothing else, so that the same ops are the same part
// wherever they come: before products and convolutions, after which a part may do what it likes with their results (or
// before what prepares an operand of theirs, where weights of few bits become floats); at seams; and around an op that
// gathers many values: as many as there were this time. Leaves and views are in each part that reads them: they cost
// nothing and hand nothing over.
#pragma once
#include <string>
#include "ir/listing.h"

namespace lazuli::ir {

// A part's values that come from elsewhere or go elsewhere, by number in the listing. Lists of all parts lie one after
// the other; a part has its own ends.
struct Parts {
  struct Ends {
    uint32_t entries, code, numbers, nodes, inputs, scalars, outputs;
  };
  struct Node {
    uint32_t entry;
    ValueId input;  // the value of that entry which an earlier part or somebody outside made; kAbsent: the part's own
  };
  static constexpr int64_t kWhole = -1;
  struct Input {
    ValueId value;
    int64_t offset;  // of the piece of its memory that the part reads, in bytes; kWhole: all of it
    int64_t bytes;
    bool last;      // nobody needs it after this part
    bool donated;   // nor does anybody outside
    bool fleeting;  // the next run gets another value: made by an earlier part, or donated to a later one
  };
  struct Output {
    ValueId value;
    Value in_part;
  };
  std::vector<Ends> ends;
  // All that decides a part's graph: with equal code and equal numbers, graphs are equal. Numbers are what may well be
  // another one next time: sizes, offsets, strides, constants and which external call it is.
  std::vector<int64_t> code, numbers;
  std::vector<Node> nodes;        // of the part's graph
  std::vector<Input> inputs;      // in the order of the graph's
  std::vector<uint32_t> scalars;  // by run-time number of the part: which of the listing's it is
  std::vector<Output> outputs;
  std::vector<bool> gathers;  // by part: it is one op that gathers many values, the same whatever lies behind it

  size_t size() const { return ends.size(); }
  Ends begin(size_t part) const { return part ? ends[part - 1] : Ends{}; }
  std::span<const int64_t> code_of(size_t part) const { return list_of(code, &Ends::code, part); }
  std::span<const int64_t> numbers_of(size_t part) const { return list_of(numbers, &Ends::numbers, part); }
  std::span<const Node> nodes_of(size_t part) const { return list_of(nodes, &Ends::nodes, part); }
  std::span<const Input> inputs_of(size_t part) const { return list_of(inputs, &Ends::inputs, part); }
  std::span<const uint32_t> scalars_of(size_t part) const { return list_of(scalars, &Ends::scalars, part); }
  std::span<const Output> outputs_of(size_t part) const { return list_of(outputs, &Ends::outputs, part); }

 private:
  template <class T>
  std::span<const T> list_of(const std::vector<T>& list, uint32_t Ends::* end, size_t part) const {
    return std::span(list).subspan(begin(part).*end, ends[part].*end - begin(part).*end);
  }
};

// What only the rest of a listing decides about a part: which entries somebody needs, what becomes of its inputs, and
// which of its values go elsewhere. Entries that compute something are counted first, then leaves and views: of these
// there may be more another time.
struct Prospect {
  struct Input {
    bool last, donated, fleeting;  // as of Parts::Input
    friend bool operator==(const Input&, const Input&) = default;
  };
  struct Output {
    uint32_t entry;
    uint16_t result;
    friend bool operator==(const Output&, const Output&) = default;
  };
  std::vector<bool> needed;  // of the entries that compute something
  std::vector<Input> inputs;
  std::vector<Output> outputs;
  friend bool operator==(const Prospect&, const Prospect&) = default;
};
Prospect prospect_of(const Listing& listing, const Parts& parts, size_t part);

// Of entries that may well be a part like others with the same key: what they compute, in which Python lines, and how
// that hangs together.
uint64_t key_of_entries(const Listing& listing, uint32_t begin, uint32_t end);
// Of entries that may well be at the same place of a program: what they and those before them compute, in which lines.
uint64_t key_of_place(const Listing& listing, uint32_t entry);

// `live`: the values that are wanted, each once. `donated`: by position of an input, whether it may be overwritten.
// `alignment`: where a part gets a piece of a value, its place in that is a multiple of so many bytes.
Parts cut(const Listing& listing, std::span<const ValueId> live, const std::vector<bool>& donated,
          int64_t alignment = 1);

// The graph of one part. `line_text`: what an interned line says. `numbers`: the part's own, or sizes in their places
// that know what they depend on (size.h).
Graph graph_of(const Listing& listing, const Parts& parts, size_t part, std::string (*line_text)(uint32_t),
               SizeSpan numbers);

}  // namespace lazuli::ir
