#include "train/checkpoint.hpp"

#include <algorithm>
#include <filesystem>
#include <string_view>
#include <unordered_set>

#include "base/error.hpp"
#include "model/hf_folder.hpp"
#include "storage/atomic_file.hpp"
#include "storage/content_hash.hpp"
#include "storage/mapped_file.hpp"
#include "storage/step_folders.hpp"
#include "train/agreement.hpp"
#include "train/checkpoint_compatibility.hpp"
#include "train/checkpoint_reader.hpp"

namespace ppctl {
namespace {

namespace fs = std::filesystem;

constexpr const char* kConfigFile = "config.json";

double milliseconds(Nanoseconds span) { return static_cast<double>(span) / 1e6; }

/// Adds the time of a scope to two sums.
class Stall {
 public:
  Stall(Nanoseconds& all, Nanoseconds& one) : all_(all), one_(one), start_(monotonic_now()) {}
  Stall(const Stall&) = delete;
  Stall& operator=(const Stall&) = delete;
  ~Stall() {
    const Nanoseconds span = monotonic_now() - start_;
    all_ += span;
    one_ += span;
  }

 private:
  Nanoseconds& all_;
  Nanoseconds& one_;
  Nanoseconds start_;
};

/// A full disk is full for all ranks: the first one's words are enough.
std::string in_one_line(const std::string& faults) {
  const std::size_t end = faults.find('\n');
  if (end == std::string::npos) return faults;
  return fmt::format("{} (and {} more)", faults.substr(0, end), std::ranges::count(faults, '\n'));
}

/// What tells rows apart: the same line on every rank that holds them.
std::string key_of(const StateTensor& tensor) {
  return fmt::format("{} {} {}\n", tensor.name, tensor.row_begin, tensor.row_end);
}

std::uint64_t total_bytes(const std::vector<SavedFile>& files) {
  std::uint64_t bytes = 0;
  for (const SavedFile& file : files) bytes += file.num_bytes;
  return bytes;
}

/// config.json beside the weights makes the folder one that `model.from` can name.
SavedFile write_config(const std::string& folder, const ModelSpec& model, at::ScalarType dtype) {
  write_hf_index(folder, model, dtype, {});
  const MappedFile file((fs::path(folder) / kConfigFile).string());
  return {kConfigFile, file.bytes().size(), content_hash(file.bytes()), {}};
}

/// Whether rank 0 sees what the others wrote.
void check_visible(const std::string& folder, const std::vector<SavedFile>& files) {
  for (const SavedFile& file : files) {
    std::error_code error;
    const std::string path = (fs::path(folder) / file.name).string();
    if (fs::file_size(path, error) != file.num_bytes || error) {
      throw_error("{}: rank 0 does not see it whole; checkpoint.folder must be in a file system that all ranks share",
                  path);
    }
  }
}

}  // namespace

CheckpointStore::CheckpointStore(const JobConfig& job, const ModelSpec& model, at::ScalarType dtype, AdamW& optimizer,
                                 Group& world, Deadline deadline)
    : job_(job), model_(model), dtype_(dtype), optimizer_(optimizer), world_(world) {
  choose_written(deadline);
}

CheckpointStore::~CheckpointStore() = default;

void CheckpointStore::choose_written(Deadline deadline) {
  const std::vector<StateTensor> tensors = state_tensors(optimizer_);
  std::string mine;
  for (const StateTensor& tensor : tensors) mine += key_of(tensor);
  const std::vector<std::string> all = world_.all_gather_strings(mine, deadline);
  std::unordered_set<std::string_view> taken;
  for (int rank = 0; rank < world_.rank(); ++rank) {
    const std::string_view keys = all[static_cast<std::size_t>(rank)];
    for (std::size_t begin = 0; begin < keys.size();) {
      const std::size_t end = keys.find('\n', begin) + 1;
      taken.insert(keys.substr(begin, end - begin));
      begin = end;
    }
  }
  std::unordered_set<std::string> own;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const std::string key = key_of(tensors[i]);
    const bool first = !taken.contains(key) && own.insert(key).second;
    if (first && tensors[i].num_rows() > 0) written_.push_back(i);
  }
}

std::vector<StateTensor> CheckpointStore::written_tensors() const {
  const std::vector<StateTensor> all = state_tensors(optimizer_);
  std::vector<StateTensor> tensors;
  for (const std::size_t index : written_) tensors.push_back(all.at(index));
  return tensors;
}

void CheckpointStore::save(const TrainState& state, Deadline deadline) {
  finish(deadline);
  started_ = monotonic_now();
  save_stall_ = 0;
  const Stall stall(stall_, save_stall_);
  state_ = state;
  folder_ = step_folder(job_.checkpoint.folder, state.step);
  agree_or_give_up(deadline, [&] {
    if (world_.rank() != 0) return std::string();
    remove_partial_checkpoints(job_.checkpoint.folder);
    fs::create_directories(partial_folder(folder_));
    return std::string();
  });
  phase_ = Phase::kWriting;
  if (!job_.checkpoint.asynchronous) return finish(deadline);
  if (!written_.empty()) {
    const std::string path = fmt::format("{}/rank-{:05}.safetensors", partial_folder(folder_), world_.rank());
    writer_ = std::make_unique<CheckpointWriter>(path, written_tensors());
  }
}

void CheckpointStore::before_update(Deadline deadline) {
  if (!writer_) return;
  const Stall stall(stall_, save_stall_);
  writer_->wait_copied(deadline);
}

bool CheckpointStore::ready() const {
  if (published_.valid()) return published_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return !writer_ || writer_->done();
}

void CheckpointStore::advance(Deadline deadline) {
  if (phase_ == Phase::kIdle) return;
  const Stall stall(stall_, save_stall_);
  if (phase_ == Phase::kWriting) return collect(deadline);
  const std::string saved =
      agree_or_give_up(deadline, [&] { return published_.valid() ? published_.get() : std::string(); }).front();
  phase_ = Phase::kIdle;
  if (say_) say_(fmt::format("saved {} ({})", folder_, saved));
}

void CheckpointStore::finish(Deadline deadline) {
  while (phase_ != Phase::kIdle) advance(deadline);
}

void CheckpointStore::collect(Deadline deadline) {
  const std::vector<std::string> answers = agree_or_give_up(deadline, [&] {
    if (written_.empty()) return std::string();
    if (writer_) return to_json(writer_->finish(deadline));
    const std::string path = fmt::format("{}/rank-{:05}.safetensors", partial_folder(folder_), world_.rank());
    return to_json(write_state_file(path, written_tensors()));
  });
  writer_.reset();
  phase_ = Phase::kPublishing;
  if (world_.rank() != 0) return;
  std::vector<SavedFile> files;
  for (const std::string& answer : answers) {
    if (!answer.empty()) files.push_back(saved_file_of_json(answer));
  }
  const auto policy = job_.checkpoint.asynchronous ? std::launch::async : std::launch::deferred;
  published_ = std::async(policy, [this, files = std::move(files)] { return publish(files); });
}

std::string CheckpointStore::publish(std::vector<SavedFile> files) const {
  const std::string partial = partial_folder(folder_);
  check_visible(partial, files);
  files.push_back(write_config(partial, model_, dtype_));
  CheckpointManifest manifest = manifest_of_job(job_, state_);
  manifest.files = std::move(files);
  write_file_atomically((fs::path(partial) / kManifestFile).string(), to_json(manifest));
  publish_checkpoint(folder_);
  keep_newest_checkpoints(job_.checkpoint.folder, state_.step, job_.checkpoint.keep);
  return fmt::format("{:.1f} MB in {:.0f} ms", static_cast<double>(total_bytes(manifest.files)) / 1e6,
                     milliseconds(monotonic_now() - started_));
}

std::vector<std::string> CheckpointStore::agree_or_give_up(Deadline deadline,
                                                           const std::function<std::string()>& work) {
  try {
    return agree(world_, deadline, work);
  } catch (const AgreedError& error) {
    phase_ = Phase::kIdle;
    writer_.reset();
    // Room on the disk for whoever goes on from here; that it fails too changes nothing.
    std::error_code ignored;
    if (world_.rank() == 0 && !folder_.empty()) fs::remove_all(partial_folder(folder_), ignored);
    throw AgreedError(
        fmt::format("{} was not saved: {}; older checkpoints are as they were", folder_, in_one_line(error.what())));
  }
}

double CheckpointStore::take_stall_ms() { return milliseconds(std::exchange(stall_, 0)); }

std::optional<CheckpointStore::Resumed> CheckpointStore::resume(Deadline deadline) {
  // Rank 0 chooses, so that all load the same one.
  const std::string folder = agree(world_, deadline, [&] {
                               if (world_.rank() != 0) return std::string();
                               const auto all = complete_checkpoints(job_.checkpoint.folder);
                               return all.empty() ? std::string() : all.back();
                             }).front();
  if (folder.empty()) return std::nullopt;
  Resumed resumed;
  agree(world_, deadline, [&] {
    resumed = load(folder);
    return std::string();
  });
  optimizer_.set_num_steps(resumed.state.step);
  return resumed;
}

CheckpointStore::Resumed CheckpointStore::load(const std::string& folder) {
  CheckpointReader reader(folder);
  check_same_model(model_, read_hf_config(folder), folder);
  reader.check_files(world_.rank(), world_.size());
  reader.read(state_tensors(optimizer_));
  return {reader.manifest().state, folder, notes_on_resuming(job_, reader.manifest())};
}

}  // namespace ppctl
