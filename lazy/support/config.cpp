#include "lazy/support/config.h"

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <sstream>
#include <stdexcept>
#include <variant>
#include <vector>
#include "lazy/support/host_time.h"

namespace lazuli::lazy {
namespace {

using Field = std::variant<bool Config::*, std::string Config::*, int64_t Config::*>;
struct Setting {
  const char* name;
  const char* environment;
  Field field;
  int64_t least = 1;            // of an integer
  const char* words = nullptr;  // that a string may be, with spaces between; null: any. Of an integer: for no bound
};
const Setting kSettings[] = {
    {"kernels", "LAZULI_KERNELS", &Config::kernels, 1, "lazuli eager"},
    {"fusion", "LAZULI_FUSION", &Config::fusion},
    {"fallback", "LAZULI_FALLBACK", &Config::fallback, 1, "quiet warn error"},
    {"random", "LAZULI_RANDOM", &Config::random, 1, "philox eager"},
    {"move_host_operands", "LAZULI_MOVE_HOST_OPERANDS", &Config::move_host_operands},
    {"debug", "LAZULI_DEBUG", &Config::debug},
    {"disable_passes", "LAZULI_DISABLE_PASSES", &Config::disable_passes},
    {"progress", "LAZULI_PROGRESS", &Config::progress},
    {"source_lines", "LAZULI_SOURCE_LINES", &Config::source_lines},
    {"peek", "LAZULI_PEEK", &Config::peek, 1, "gpu always never"},
    {"cut_at_step", "LAZULI_CUT_AT_STEP", &Config::cut_at_step},
    {"cut_at_repeat", "LAZULI_CUT_AT_REPEAT", &Config::cut_at_repeat},
    {"time_host", "LAZULI_TIME_HOST", &Config::time_host},
    {"light_autograd", "LAZULI_LIGHT_AUTOGRAD", &Config::light_autograd},
    {"inline_backward", "LAZULI_INLINE_BACKWARD", &Config::inline_backward},
    {"repeat_backward", "LAZULI_REPEAT_BACKWARD", &Config::repeat_backward, 1, "on off check"},
    {"tiers", "LAZULI_TIERS", &Config::tiers, 1, "auto parts plans"},
    {"plan_after", "LAZULI_PLAN_AFTER", &Config::plan_after},
    {"unplanned", "LAZULI_UNPLANNED", &Config::unplanned, 1, "auto never always"},
    {"other_sizes", "LAZULI_OTHER_SIZES", &Config::other_sizes, 1, "auto never always"},
    {"run_ahead", "LAZULI_RUN_AHEAD", &Config::run_ahead, 1, "on off all"},
    {"append_in_place", "LAZULI_APPEND_IN_PLACE", &Config::append_in_place, 1, "auto never always"},
    {"cuda_graphs", "LAZULI_CUDA_GRAPHS", &Config::cuda_graphs, 1, "auto 0 always"},
    {"shadow", "LAZULI_SHADOW", &Config::shadow, 0, "all"},
    {"shadow_action", "LAZULI_SHADOW_ACTION", &Config::shadow_action, 1, "raise warn"},
    {"shadow_folder", "LAZULI_SHADOW_FOLDER", &Config::shadow_folder},
    {"max_traces", "LAZULI_MAX_TRACES", &Config::max_traces, 4},
    {"max_pending_ops", "LAZULI_MAX_PENDING_OPS", &Config::max_pending_ops},
    {"max_pending_bytes", "LAZULI_MAX_PENDING_BYTES", &Config::max_pending_bytes, 0},
    {"max_packed_bytes", "LAZULI_MAX_PACKED_BYTES", &Config::max_packed_bytes, 0},
};

[[noreturn]] void reject(const char* name, const std::string& value, const std::string& wanted) {
  throw std::invalid_argument("lazuli: setting '" + std::string(name) + "' takes " + wanted + ", not " + value);
}

std::vector<std::string> split(const char* words) {
  std::istringstream in(words);
  return {std::istream_iterator<std::string>(in), {}};
}

// "quiet, warn or error"
std::string one_of(const std::vector<std::string>& words) {
  std::string text = words[0];
  for (size_t i = 1; i < words.size(); ++i) text += (i + 1 < words.size() ? ", " : " or ") + words[i];
  return text;
}

bool parse_bool(const char* name, const std::string& v) {
  if (v == "true" || v == "1") return true;
  if (v == "false" || v == "0") return false;
  reject(name, v, "true or false");
}

std::string without_quotes(const std::string& v) {
  return v.size() >= 2 && v.front() == '"' && v.back() == '"' ? v.substr(1, v.size() - 2) : v;
}

int64_t parse_int(const Setting& s, const std::string& v) {
  if (s.words && without_quotes(v) == s.words) return INT64_MAX;
  size_t used = 0;
  int64_t n = 0;
  try {
    n = std::stoll(v, &used);
  } catch (const std::exception&) {}
  if (used == 0 || used != v.size() || n < s.least)
    reject(s.name, v,
           s.least > 1 ? "an integer from " + std::to_string(s.least) + " on"
           : s.least   ? "a positive integer"
                       : "a positive integer, or 0");
  return n;
}

void assign(Config& c, const Setting& s, std::string v) {
  if (auto* f = std::get_if<bool Config::*>(&s.field)) {
    c.*(*f) = parse_bool(s.name, v);
  } else if (auto* f = std::get_if<int64_t Config::*>(&s.field)) {
    c.*(*f) = parse_int(s, v);
  } else {
    v = without_quotes(v);
    if (s.words) {
      const std::vector<std::string> words = split(s.words);
      if (std::ranges::find(words, v) == words.end()) reject(s.name, v, one_of(words));
    }
    c.*std::get<std::string Config::*>(s.field) = v;
  }
}

// What reference mode decides of other settings, whatever was asked for.
void settle(Config& c) {
  if (c.kernels != "eager") return;
  c.random = "eager";
  c.light_autograd = false;
}

std::string& first_error() {
  static auto* text = new std::string;  // outlives every thread
  return *text;
}

// This is asked while the library is being loaded, and an error must not leave that.
Config* from_environment() {
  auto* c = new Config;
  for (const Setting& s : kSettings)
    if (const char* v = std::getenv(s.environment)) try {
        assign(*c, s, v);
      } catch (const std::invalid_argument& e) {
        if (first_error().empty()) first_error() = e.what();
      }
  settle(*c);
  HostTimer::is_kept = c->time_host;
  return c;
}

}  // namespace

Config& config() {
  static auto* c = from_environment();  // outlives every thread
  return *c;
}

std::string environment_error() {
  config();
  return first_error();
}

std::string config_json() {
  std::string out = "{";
  for (const Setting& s : kSettings) {
    out += std::string(out.size() > 1 ? ", " : "") + "\"" + s.name + "\": ";
    if (auto* f = std::get_if<bool Config::*>(&s.field))
      out += config().*(*f) ? "true" : "false";
    else if (auto* f = std::get_if<int64_t Config::*>(&s.field))
      out += std::to_string(config().*(*f));
    else
      out += "\"" + config().*std::get<std::string Config::*>(s.field) + "\"";
  }
  return out + "}";
}

void set_config(const std::string& name, const std::string& json_value) {
  for (const Setting& s : kSettings)
    if (name == s.name) {
      Config changed = config();
      assign(changed, s, json_value);
      if (changed.kernels != config().kernels || changed.light_autograd != config().light_autograd)
        throw std::invalid_argument("lazuli: setting '" + name + "' is read when the device is first used; set " +
                                    s.environment + " before");
      assign(config(), s, json_value);
      settle(config());
      HostTimer::is_kept = config().time_host;
      return;
    }
  throw std::invalid_argument("lazuli: no setting is called '" + name + "'");
}

}  // namespace lazuli::lazy
