#pragma once

#include <memory>
#include <string>
#include <vector>

#include "runtime/pipeline_schedule.hpp"
#include "runtime/transposed_encoder.hpp"

namespace ppctl {

/// How a preprocess module is transposed.
struct TransposeOptions {
  std::string body = "1f1b";  ///< the generator of the stages' own schedule
  bool just_in_time = false;  ///< the module's work in the ranks' own gaps; false: all before and after the body
  bool recomputes = false;    ///< its forward runs again before its backward, instead of keeping what it saved
  int consumer = 0;           ///< the stage that takes the features, behind what the stage before it sends
  /// Makes the module's inputs of a microbatch (reads a file, decodes it) on the rank that needs them; null: they are
  /// the microbatch's part of run()'s positional inputs, which every rank gives then.
  TransposedEncoder::Loader load;
};

/// A pipeline behind a preprocess module of the user's (an encoder), which sits on every rank: microbatch j is loaded
/// and encoded on rank j mod min(pp, m), and its features travel to the stage that takes them alone; their gradients
/// travel back.
///
/// To the module it is as if it were a first stage: microbatch.args are what was loaded. An AutogradModule will do. Its
/// parameters are rank 0's from construction on. Its gradients are complete, and the same to the last bit, on all ranks
/// after run(): each rank updates its own copy. They are summed in the order of microbatches, so they are those of one
/// rank, and add to what is there like all others: until they are zeroed, on all ranks alike.
///
/// Costs that place work just in time are options.passes.mpipe's (forward, dx, dw, stages), and so is whether the two
/// halves of its backward are placed apart (splits_backward); the rest of that is set here. The second half is what the
/// module's backward queues: of an AutogradModule, whose inputs are data, all of its backward; of a module that queues
/// nothing it is empty. Bits are the same.
class ScheduleMPipeTranspose : public PipelineSchedule {
 public:
  /// `num_transpose_layers`: 0 transposes the loading of data alone, which then is what the stage takes; the module is
  /// null. Any other number means the whole of the module, whose layers are its own business. Throws Error as the other
  /// schedules do, and where number and module do not fit. COLLECTIVE over the pipeline.
  ScheduleMPipeTranspose(std::vector<StagePtr> stages, int micro_batch_num,
                         std::shared_ptr<StageModule> preprocess_module, int num_transpose_layers,
                         Communicator& communicator, TransposeOptions transpose = {}, PipelineOptions options = {});

  /// What sharding and swap need, beside the preprocess module, whose hooks stay: instead of executor().set_hooks().
  void set_hooks(StepHooks hooks);

 private:
  std::unique_ptr<Group> ranks_;
  std::unique_ptr<TransposedEncoder> encoder_;
};

}  // namespace ppctl
