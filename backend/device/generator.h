// The device's random generator: a seed and a running offset into the Philox counter. Both are run-time numbers of the
// trace, so a new draw recompiles nothing.
//
// Under LAZULI_RANDOM=eager a generator of the CPU stands behind each: the CPU's default generator behind the default
// one, and one of its own, of the same seed, behind any other. Random ops then are eager's own kernels with that
// generator, so that a script draws what it draws on the CPU. A generator's state is then that of the CPU's. In
// reference mode (lazy/support/config.h) they are the backing device's, which may be a GPU.
#pragma once
#include <mutex>
#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

namespace lazuli::backend {

class Generator final : public c10::GeneratorImpl {
 public:
  // `eager`: the generator of the CPU behind it; without, one is made when it is needed.
  explicit Generator(c10::DeviceIndex index, at::Generator eager = {});
  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override;
  uint64_t seed() override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override;
  // 16 bytes: seed, offset.
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  static c10::DeviceType device_type() { return c10::DeviceType::PrivateUse1; }

  struct Draw {
    int64_t seed, offset;
  };
  // Reserves `count` numbers of the sequence.
  Draw draw(int64_t count);
  // The generator of the CPU behind this one.
  at::Generator& eager() const;

 private:
  Generator* clone_impl() const override;
  uint64_t seed_ = c10::default_rng_seed_val, offset_ = 0;
  mutable at::Generator eager_;
};

// Whether LAZULI_RANDOM=eager is set, or implied.
bool draws_as_eager();

const at::Generator& default_generator();
// A new generator of the backing device, for its own kernels.
at::Generator backing_generator(uint64_t seed);
// Whether it is a generator of the CPU, whose numbers a script wants on the device: with `torch.set_default_device`
// torch's own samplers ask for that. Kernels of the CPU draw them, where there are any for the backing device.
bool is_of_host(const std::optional<at::Generator>& g);
// Until it is called again, this thread draws with the generator where it would with the default one; null: with that.
void draw_with(std::optional<at::Generator> g);
// The given generator, or the default one. Throws for a generator of another device.
Generator& generator_of(const std::optional<at::Generator>& g);

}  // namespace lazuli::backend
