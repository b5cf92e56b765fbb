#pragma once

#include <exception>
#include <memory>
#include <mutex>
#include <vector>

#include "loadstone/exec/blocks.h"
#include "loadstone/exec/executor.h"

namespace loadstone {

/// Everything that can be refused without I/O and before memory is allocated (loading E3): a plan that does not fit the
/// catalog, targets outside their slots, formats without a decoder, devices this executor cannot fill.
/// `fills` says which places it fills; null = host memory.
void check_runnable(const Catalog& catalog, const Plan& plan, const ExecOptions& options,
                    bool (*fills)(Place) = nullptr);

/// The buffers of a plan, one a slot, as the provider gave them and as blocks to write to.
struct SlotBuffers {
  std::vector<View> views;
  std::vector<Block> blocks;
};
/// Error{internal} when a provider gives something else than was asked for.
SlotBuffers allocate_slots(const Plan& plan, BufferProvider* provider);

/// Performs Plan::copies, in order. Returns the bytes moved.
std::int64_t run_copies(const Plan& plan, const SlotBuffers& slots, const ExecOptions& options);

/// Hands the buffers over.
Placement make_placement(const Plan& plan, SlotBuffers slots, LoadStats stats);

/// How an encoded piece is stored.
const Encoding& encoding_of(const ArrayEntry& entry, const Piece& piece);
/// Decodes one stored piece by options.decode or its format; errors name the file, piece and array.
void decode_piece(const Catalog& catalog, const ArrayEntry& entry, const Piece& piece, const ExecOptions& options,
                  std::span<const std::byte> stored, std::span<std::byte> out);

/// The fill value of an absent piece. Error{data} when the array has none.
const std::byte* fill_value(const ArrayEntry& entry, const Piece& piece);

/// The first failure of many workers and how many others there were. Safe from any thread.
class Failures {
 public:
  /// To be called in a catch block.
  void add();
  /// Throws the first one: Interrupted as it is, an Error with the number of others, anything else as an Error.
  void rethrow_if_any() const;

 private:
  std::mutex mutex_;
  std::exception_ptr first_;
  int others_ = 0;
};

}  // namespace loadstone
