// Updates a part of an array in its own memory, whatever else refers to that memory.
//
// MLX writes in place only if nothing else refers to the memory, and copies it otherwise. Steps in
// flight refer to what they read until the device has reported their end, so MLX copies the KV cache
// of a layer again and again although no step reads the positions that the next one writes. Here the
// caller decides. MLX then does not know that the older arrays share the memory: the last of them must
// not be given to an operation that may write its result there. This file is compiled together with
// mlx-c.

#include <memory>
#include <vector>

#include "mlx/array.h"
#include "mlx/ops.h"
#include "mlx/primitives.h"

namespace {

using mlx::core::array;

// The deleter of memory that belongs to `owner`.
struct Shared {
  std::shared_ptr<array::Data> owner;
  void operator()(mlx::core::allocator::Buffer) const {}
};

// Returns an array with the memory of `in`, which MLX believes is the only one. The memory is freed
// with the last array that refers to it.
array alias(const array& in) {
  auto owner = in.data_shared_ptr();
  // Not the alias before this one, or the chain would grow with each update.
  if (auto* shared = owner->d.target<Shared>()) {
    owner = shared->owner;
  }
  array result(in.shape(), in.dtype(), nullptr, {});
  result.set_data(
      in.buffer(), in.data_size(), in.strides(), in.flags(), in.offset(), Shared{owner});
  return result;
}

// Evaluates an update of MLX with an alias of its first input.
class InPlace : public mlx::core::Primitive {
 public:
  explicit InPlace(std::shared_ptr<mlx::core::Primitive> update)
      : Primitive(update->stream()), update_(std::move(update)) {}

  void eval_cpu(const std::vector<array>& inputs, std::vector<array>& outputs) override {
    update_->eval_cpu(with_alias(inputs), outputs);
  }

  void eval_gpu(const std::vector<array>& inputs, std::vector<array>& outputs) override {
    update_->eval_gpu(with_alias(inputs), outputs);
  }

  const char* name() const override {
    return "InPlace";
  }

 private:
  static std::vector<array> with_alias(const std::vector<array>& inputs) {
    auto& in = inputs[0];
    // Another part of a larger array is copied, as MLX does.
    bool is_whole = in.flags().row_contiguous && in.offset() == 0 && in.data_size() == in.size();
    return {is_whole ? alias(in) : in, inputs[1]};
  }

  std::shared_ptr<mlx::core::Primitive> update_;
};

} // namespace

extern "C" int transom_slice_update_in_place(
    mlx_array* res,
    const mlx_array src,
    const mlx_array update,
    const int* start,
    const int* stop,
    size_t n_axes,
    const mlx_stream s) {
  try {
    auto& in = mlx_array_get_(src);
    array updated = mlx::core::slice_update(
        in,
        mlx_array_get_(update),
        mlx::core::Shape(start, start + n_axes),
        mlx::core::Shape(stop, stop + n_axes),
        mlx_stream_get_(s));
    // An update of the whole array is the update itself.
    if (updated.has_primitive() && updated.inputs().size() == 2 &&
        updated.inputs()[0].id() == in.id()) {
      auto primitive = std::make_shared<InPlace>(updated.primitive_ptr());
      updated = array(updated.shape(), updated.dtype(), std::move(primitive), updated.inputs());
    }
    mlx_array_set_(*res, std::move(updated));
  } catch (std::exception& e) {
    mlx_error(e.what());
    return 1;
  }
  return 0;
}
