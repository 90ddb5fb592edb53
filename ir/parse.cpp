#include "ir/parse.h"
#include <bit>
#include <charconv>
#include <unordered_map>
#include "ir/error.h"
#include "ir/verify.h"

namespace lazuli::ir {
namespace {

// The tokens of one line.
class Cursor {
 public:
  explicit Cursor(std::string_view s) : rest_(s) { skip(); }
  bool done() const { return rest_.empty(); }
  bool at(char c) const { return !rest_.empty() && rest_[0] == c; }
  bool accept(char c) {
    if (!at(c)) return false;
    rest_.remove_prefix(1);
    skip();
    return true;
  }
  void expect(char c) {
    if (!accept(c)) throw ParseError(std::string("expected '") + c + "' at '" + std::string(rest_) + "'");
  }
  std::string_view word() {
    size_t n = 0;
    while (n < rest_.size() && (isalnum(static_cast<unsigned char>(rest_[n])) || rest_[n] == '_')) ++n;
    if (n == 0) throw ParseError("expected a name at '" + std::string(rest_) + "'");
    return take(n);
  }
  // A number's text: digits, sign, point, exponent, inf, nan.
  std::string_view number() {
    size_t n = 0;
    while (n < rest_.size() &&
           (isalnum(static_cast<unsigned char>(rest_[n])) || rest_[n] == '-' || rest_[n] == '+' || rest_[n] == '.'))
      ++n;
    if (n == 0) throw ParseError("expected a number at '" + std::string(rest_) + "'");
    return take(n);
  }
  int64_t integer() {
    std::string_view s = number();
    int64_t v = 0;
    auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
    if (error != std::errc() || end != s.data() + s.size()) throw ParseError("bad integer '" + std::string(s) + "'");
    return v;
  }
  std::string_view rest() const { return rest_; }

 private:
  std::string_view take(size_t n) {
    std::string_view s = rest_.substr(0, n);
    rest_.remove_prefix(n);
    skip();
    return s;
  }
  void skip() {
    while (!rest_.empty() && (rest_[0] == ' ' || rest_[0] == '\t' || rest_[0] == '\r')) rest_.remove_prefix(1);
  }
  std::string_view rest_;
};

double parse_double(std::string_view s) {
  double v = 0;
  auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), v);
  if (error != std::errc() || end != s.data() + s.size()) throw ParseError("bad number '" + std::string(s) + "'");
  return v;
}

Type parse_type(Cursor& c) {
  Type t;
  std::string_view word = c.word();
  if (!parse_dtype(word, t.dtype)) throw ParseError("unknown element type '" + std::string(word) + "'");
  c.expect('[');
  if (c.accept(']')) return t;
  do t.shape.push_back(c.integer());
  while (c.accept(','));
  c.expect(']');
  return t;
}

Dims parse_list(Cursor& c) {
  Dims list;
  if (!c.accept('[')) return {c.integer()};
  if (c.accept(']')) return list;
  do list.push_back(c.integer());
  while (c.accept(','));
  c.expect(']');
  return list;
}

class Parser {
 public:
  void line(std::string_view text) {
    size_t comment = text.find(';');
    Cursor c(text.substr(0, comment));
    if (c.done() || c.at('#')) return;
    if (c.at('%')) {
      node(c);
      if (comment != text.npos) source(Cursor(text.substr(comment + 1)).rest());
    } else if (std::string_view word = c.word(); word == "return") {
      if (!c.done()) do
          graph_.outputs.push_back(operand(c));
        while (c.accept(','));
    } else if (word == "donated") {
      do donate(c.integer());
      while (c.accept(','));
    } else {
      throw ParseError("expected a node, 'donated' or 'return', got '" + std::string(word) + "'");
    }
    if (!c.done()) throw ParseError("unexpected '" + std::string(c.rest()) + "'");
  }
  Graph take() { return std::move(graph_); }

 private:
  int64_t label(Cursor& c) {
    c.expect('%');
    return c.integer();
  }

  Value operand(Cursor& c) {
    if (c.accept('_')) return {};
    int64_t n = label(c);
    auto it = values_.find(n);
    if (it == values_.end()) throw ParseError("%" + std::to_string(n) + " is not defined before its use");
    return it->second;
  }

  void node(Cursor& c) {
    uint32_t id = static_cast<uint32_t>(graph_.nodes.size());
    Node n;
    std::vector<int64_t> labels;
    do {
      labels.push_back(label(c));
      c.expect(':');
      n.types.push_back(parse_type(c));
    } while (c.accept(','));
    c.expect('=');
    std::string_view word = c.word();
    if (!parse_op(word, n.op)) throw ParseError("unknown op '" + std::string(word) + "'");
    if (!c.done() && !c.at('[')) do
        n.inputs.push_back(operand(c));
      while (c.accept(','));
    attributes(c, n);
    if (n.op == Op::input) graph_.input_count = std::max<uint32_t>(graph_.input_count, n.attrs.number(0) + 1);
    if (n.op == Op::scalar) graph_.scalar_count = std::max<uint32_t>(graph_.scalar_count, n.attrs.number(0) + 1);
    graph_.nodes.push_back(std::move(n));
    verify_node(graph_, id);
    for (uint32_t r = 0; r < labels.size(); ++r)
      if (!values_.emplace(labels[r], Value{id, r}).second)
        throw ParseError("%" + std::to_string(labels[r]) + " is defined twice");
  }

  void attributes(Cursor& c, Node& n) {
    const auto& names = info(n.op).attrs;
    if (names[0].empty()) return;
    c.expect('[');
    for (size_t i = 0; i < names.size() && !names[i].empty(); ++i) {
      std::string_view key = c.word();
      if (key != names[i])
        throw ParseError("expected attribute '" + std::string(names[i]) + "', got '" + std::string(key) + "'");
      c.expect('=');
      if (key == "dtype") {
        DType t;
        std::string_view word = c.word();
        if (!parse_dtype(word, t)) throw ParseError("unknown element type '" + std::string(word) + "'");
        n.attrs.add(static_cast<int64_t>(t));
      } else if (n.op == Op::constant && is_floating(n.types[0].dtype)) {
        n.attrs.add(std::bit_cast<int64_t>(parse_double(c.number())));
      } else {
        n.attrs.add(parse_list(c));
      }
    }
    c.expect(']');
  }

  void source(std::string_view text) {
    auto [it, fresh] = lines_.emplace(std::string(text), static_cast<uint32_t>(graph_.lines.size()));
    if (fresh) graph_.lines.push_back(it->first);
    graph_.nodes.back().line = it->second;
  }

  void donate(int64_t position) {
    if (position < 0 || position >= graph_.input_count) throw ParseError("only inputs can be donated");
    graph_.donated.resize(graph_.input_count);
    graph_.donated[position] = true;
  }

  Graph graph_;
  std::unordered_map<int64_t, Value> values_;
  std::unordered_map<std::string, uint32_t> lines_;
};

}  // namespace

Graph parse(std::string_view text) {
  Parser parser;
  for (int number = 1; !text.empty(); ++number) {
    size_t end = std::min(text.find('\n'), text.size());
    try {
      parser.line(text.substr(0, end));
    } catch (const std::exception& e) {
      throw ParseError("line " + std::to_string(number) + ": " + e.what());
    }
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return parser.take();
}

}  // namespace lazuli::ir
