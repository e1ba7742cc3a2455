#include "driver/staged_model.h"

#include <fmt/format.h>

#include <system_error>
#include <vector>

#include "anfora/error.h"
#include "support/atomic_file.h"
#include "support/mapped_file.h"

namespace anfora::driver {
namespace fs = std::filesystem;

namespace {

[[noreturn]] void fail(std::string_view action, const fs::path& path, const std::error_code& error) {
  throw Error(ErrorCode::Io, fmt::format("cannot {} {}: {}", action, path.string(), error.message()));
}

}  // namespace

StagedModel::StagedModel(const fs::path& target) : target_(target), data_folder_(target.parent_path()) {
  std::error_code error;
  if (fs::is_symlink(fs::symlink_status(target, error))) {
    fs::path resolved = fs::weakly_canonical(target, error);
    if (!error) target_ = resolved;
  }
  const fs::file_status status = fs::status(target_, error);
  if (fs::is_directory(status)) fail("write", target_, std::make_error_code(std::errc::is_a_directory));
  is_stream_ = fs::exists(status) && !fs::is_regular_file(status);
  const fs::path beside = is_stream_ ? fs::temp_directory_path() / target_.filename() : target_;
  const fs::path folder = temporary_name(beside);
  if (!fs::create_directory(folder, error)) fail("create", target_, error);
  folder_ = TemporaryFile(folder);
  path_ = folder / target.filename();
  model_ = TemporaryFile(path_);
  data_ = TemporaryFile(path_.string() + ".data");
}

void StagedModel::accept() {
  std::error_code error;
  std::vector<fs::path> beside;  // external data, or the constants of the text form
  for (const fs::directory_entry& entry : fs::directory_iterator(folder_.path())) {
    if (entry.path() != path_) beside.push_back(entry.path());
  }
  if (is_stream_) {
    if (!beside.empty()) {
      throw Error(ErrorCode::InvalidArgument,
                  fmt::format("{} is no file, and the model is too large for one file", target_.string()))
          .with_hint("the weights of such a model lie in a second file beside it");
    }
    AtomicFile file(target_);
    file.write(MappedFile::open(path_)->bytes());
    return file.commit();
  }
  PuttingIntoPlace together;
  for (const fs::path& file : beside) {  // the model comes last: it is there only if all is
    fs::rename(file, data_folder_ / file.filename(), error);
    if (error) fail("replace", data_folder_ / file.filename(), error);
  }
  fs::rename(path_, target_, error);
  if (error) fail("replace", target_, error);
}

}  // namespace anfora::driver
