#include "backend/record/format.h"

namespace lazuli::backend {

lazy::Order format_order(const at::Tensor& t) {
  auto format = t.suggest_memory_format();
  if (format != c10::MemoryFormat::ChannelsLast && format != c10::MemoryFormat::ChannelsLast3d) return {};
  lazy::Order order{0};
  for (int64_t d = 2; d < t.dim(); ++d) order.push_back(d);
  order.push_back(1);
  return order;
}

}  // namespace lazuli::backend
