// The device's random generator: a seed and a running offset into the Philox counter. Both are run-time numbers of the
// trace, so a new draw recompiles nothing.
#pragma once
#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>
#include <mutex>

namespace lazuli::backend {

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex index);
  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override;
  void set_offset(uint64_t offset) override { offset_ = offset; }
  uint64_t get_offset() const override { return offset_; }
  // 16 bytes: seed, offset.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  struct Draw {
    int64_t seed, offset;
  };
  // Reserves `count` numbers of the sequence.
  Draw draw(int64_t count);

 private:
  Generator* clone_impl() const override;
  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
};

const at::Generator& default_generator();
// The given generator, or the default one. Throws for a generator of another device.
Generator& generator_of(const std::optional<at::Generator>& g);

}  // namespace lazuli::backend
